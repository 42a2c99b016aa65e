//! Remote servers: headers, tokens, redirects, limits and unchanged results. The submodules cover errors, streams,
//! sessions, content codings, the transports and eras, HTTP/2, TLS, HTTP proxies, and the server of rmcp.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, merged, pure_config};
pub(crate) use server::{Reply, Request, Server};

mod content_codings;
mod endless_heads;
mod errors;
mod get_stream;
mod http2;
mod http_sse;
mod malformed;
pub(crate) mod proxies;
mod sdk;
pub(crate) mod server;
mod sessions;
mod stateless;
mod streams;
pub(crate) mod tls;
mod worked_before;

/// A config with `server` as the only group, `g`.
pub(crate) fn remote(server: &Server, more: Value) -> Value {
    pure_config([("g", merged(json!({"url": server.url()}), more))])
}

/// The program with that config.
pub(crate) fn proxy(server: &Server) -> Proxy {
    Proxy::new(&remote(server, json!({})))
}

/// An event with this data.
pub(crate) fn event(text: &str) -> String {
    format!("data: {text}\n\n")
}

#[test]
fn calls_share_one_connection_and_have_the_required_headers() {
    let server = Server::start(|_| None);
    let mut proxy = proxy(&server);
    for n in 0..5 {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": n.to_string()})), n.to_string());
    }
    let group = proxy.group_status("g");
    assert_eq!((&group["state"], &group["protocolVersion"]), (&json!("connected"), &json!("2025-11-25")));
    for post in server.requests_of("POST") {
        assert_eq!(post.header("accept"), "application/json, text/event-stream");
        assert_eq!(post.header("content-type"), "application/json");
        assert!(post.header("user-agent").starts_with("dynamic-mcp/"));
        let revision = if post.rpc_method() == "initialize" { "" } else { "2025-11-25" };
        assert_eq!(post.header("mcp-protocol-version"), revision, "{}", post.rpc_method());
    }
    let methods: Vec<_> =
        server.requests_of("POST").iter().map(|post| post.rpc_method().to_owned()).collect();
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"]);
    // One more for the GET stream, which this server refuses.
    assert!(server.connections() <= 2, "{}", server.connections());
    assert_eq!(server.requests_of("GET").len(), 1, "405 is final");
}

#[test]
fn configured_headers_are_sent_and_their_values_are_never_shown() {
    let server = Server::start(|request| (request.is_tool_call()).then(|| Reply::status(500)));
    let url = server.url().replace("http://", "http://user:s3cret-word@") + "?key=s3cret-key";
    let config = pure_config([(
        "g",
        json!({"url": url, "headers": {"X-Key": "${KEY}", "Authorization": "Bearer s3cret-token"}}),
    )]);
    let mut proxy = ProxyCommand::new()
        .env("KEY", "s3cret-value")
        .args(&["--log-level", "trace"])
        .config(&config)
        .start_initialized();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("HTTP 500"), "{failure}");
    for request in server.requests() {
        assert_eq!(request.header("x-key"), "s3cret-value", "{}", request.method);
        assert_eq!(request.header("authorization"), "Bearer s3cret-token");
        assert_eq!(request.path, "/mcp?key=s3cret-key");
    }
    let status = proxy.status().to_string();
    assert!(!(proxy.log() + &failure + &status).contains("s3cret"), "{}", proxy.log());
}

#[test]
fn each_server_receives_only_its_own_token() {
    let servers: Vec<_> = (0..3).map(|_| Server::start(|_| None)).collect();
    let entries = servers.iter().enumerate().map(|(n, server)| {
        let token = format!("Bearer s3cret-{n}");
        (format!("g{n}"), json!({"url": server.url(), "headers": {"Authorization": token}}))
    });
    let mut proxy = Proxy::new(&json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()}));
    let calls: Vec<_> =
        (0..30).map(|n| proxy.send_call(&format!("g{}", n % 3), "echo", json!({"text": "x"}))).collect();
    for id in calls {
        assert!(proxy.response(id).json()["result"].is_object());
    }
    for (n, server) in servers.iter().enumerate() {
        assert_eq!(server.requests_of("tools/call").len(), 10);
        for request in server.requests() {
            assert_eq!(request.header("authorization"), format!("Bearer s3cret-{n}"));
            assert!(!request.text.contains("s3cret") && !request.path.contains("s3cret"));
        }
    }
}

#[test]
fn a_result_passes_byte_for_byte() {
    const RESULT: &str =
        r#"{"content":[],"x":1e400,"y":123456789012345678901234567890,"z":"\ud83d\u0000 \u2028"}"#;
    for events in [false, true] {
        let server = Server::start(move |request| {
            request.is_tool_call().then(|| {
                let answer =
                    format!("{{\"jsonrpc\":\"2.0\",\r\n \"id\":{},\"result\":{RESULT}}}", request.body["id"]);
                match events {
                    false => Reply::json(answer),
                    true => Reply::events(move |out| {
                        out.write(&format!(
                            "event: message\ndata: {}\n\n",
                            answer.replace("\r\n", "\ndata: ")
                        ))
                    }),
                }
            })
        });
        let mut proxy = proxy(&server);
        let arguments = r#"{"group":"g","name":"echo","args":{"a":1e400,"b":1.0}}"#;
        let id = proxy.send_raw_request(
            "tools/call",
            &format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#),
        );
        assert_eq!(proxy.response(id).raw("result").unwrap(), RESULT);
        assert!(server.requests_of("tools/call")[0].text.contains(r#""arguments":{"a":1e400,"b":1.0}"#));
    }
}

#[test]
fn an_answer_over_the_limit_fails_only_its_call() {
    let server = Server::start(|request| {
        let how = request
            .is_tool_call()
            .then(|| request.body["params"]["arguments"]["how"].as_str().map(str::to_owned))??;
        let long = request.text_response(&"x".repeat(200_000));
        Some(match how.as_str() {
            "json" => Reply::json(long),
            "chunked" => Reply::chunked("application/json", move |out| out.write(&long)),
            _ => Reply::events(move |out| {
                let (first, second) = long.split_at(150_000);
                out.write(&format!("data: {first}")) && out.write(second) && out.write("\n\n")
            }),
        })
    });
    let config = merged(
        remote(&server, json!({})),
        json!({"settings": {"max_message_bytes": 100_000, "lazy_startup": "pure"}}),
    );
    let mut proxy = Proxy::new(&config);
    for how in ["json", "chunked", "events"] {
        let failure = proxy.call_failure("g", "echo", json!({"how": how}));
        assert!(failure.contains("more than the limit of 100000"), "{how}: {failure}");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "on"})), "on");
    }
    assert_eq!(server.requests_of("initialize").len(), 1);
}

#[test]
fn a_redirect_within_the_origin_is_followed_with_the_body() {
    let server = Server::start(|request| {
        (request.path == "/mcp").then(|| Reply::status(307).with_header("Location", "/mcp/?moved"))
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    assert!(server.requests_of("tools/call").iter().any(|call| call.path == "/mcp/?moved"));
}
