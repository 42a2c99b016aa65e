//! Servers that are reached by HTTP, through the built program.

use serde_json::{Value, json};

use crate::support::{Proxy, Setup, servers, with};
pub(crate) use server::{Reply, Request, Server};

mod errors;
mod http2;
mod http_sse;
pub(crate) mod proxies;
mod sdk;
pub(crate) mod server;
mod sessions;
mod stateless;
mod streams;
pub(crate) mod tls;

/// A config with the one remote server `g`.
pub(crate) fn remote(server: &Server, more: Value) -> Value {
    servers([("g", with(json!({"url": server.url()}), more))])
}

pub(crate) fn proxy(server: &Server) -> Proxy {
    Proxy::new(&remote(server, json!({})))
}

/// The first event of the text.
pub(crate) fn event(text: &str) -> String {
    format!("data: {text}\n\n")
}

#[test]
fn a_call_goes_there_and_back_on_one_connection() {
    let server = Server::start(|_| None);
    let mut proxy = proxy(&server);
    for n in 0..5 {
        assert_eq!(proxy.text("g", "echo", json!({"text": n.to_string()})), n.to_string());
    }
    let group = proxy.group("g");
    assert_eq!((&group["state"], &group["protocolVersion"]), (&json!("connected"), &json!("2025-11-25")));
    for post in server.of("POST") {
        assert_eq!(post.header("accept"), "application/json, text/event-stream");
        assert_eq!(post.header("content-type"), "application/json");
        assert!(post.header("user-agent").starts_with("dynamic-mcp/"));
        let revision = if post.rpc() == "initialize" { "" } else { "2025-11-25" };
        assert_eq!(post.header("mcp-protocol-version"), revision, "{}", post.rpc());
    }
    let methods: Vec<_> = server.of("POST").iter().map(|post| post.rpc().to_owned()).collect();
    assert_eq!(methods[..3], ["initialize", "notifications/initialized", "tools/list"]);
    // One more for the question whether there is a stream of the server's own.
    assert!(server.connections() <= 2, "{}", server.connections());
    assert_eq!(server.of("GET").len(), 1, "405 is taken for an answer");
}

#[test]
fn headers_of_the_config_are_sent_and_their_values_are_told_to_nobody() {
    let server = Server::start(|request| (request.is_call()).then(|| Reply::status(500)));
    let url = server.url().replace("http://", "http://user:s3cret-word@") + "?key=s3cret-key";
    let config = servers([(
        "g",
        json!({"url": url, "headers": {"X-Key": "${KEY}", "Authorization": "Bearer s3cret-token"}}),
    )]);
    let mut proxy =
        Setup::new().env("KEY", "s3cret-value").args(&["--log-level", "trace"]).config(&config).ready();
    let failure = proxy.failure("g", "echo", json!({}));
    assert!(failure.contains("HTTP 500"), "{failure}");
    for request in server.seen() {
        assert_eq!(request.header("x-key"), "s3cret-value", "{}", request.method);
        assert_eq!(request.header("authorization"), "Bearer s3cret-token");
        assert_eq!(request.path, "/mcp?key=s3cret-key");
    }
    let status = proxy.status().to_string();
    assert!(!(proxy.log() + &failure + &status).contains("s3cret"), "{}", proxy.log());
}

#[test]
fn each_server_is_sent_its_own_token_and_no_other() {
    let all: Vec<_> = (0..3).map(|_| Server::start(|_| None)).collect();
    let entries = all.iter().enumerate().map(|(n, server)| {
        let token = format!("Bearer s3cret-{n}");
        (format!("g{n}"), json!({"url": server.url(), "headers": {"Authorization": token}}))
    });
    let mut proxy = Proxy::new(&json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()}));
    let calls: Vec<_> =
        (0..30).map(|n| proxy.send_call(&format!("g{}", n % 3), "echo", json!({"text": "x"}))).collect();
    for id in calls {
        assert!(proxy.answer(id).json()["result"].is_object());
    }
    for (n, server) in all.iter().enumerate() {
        assert_eq!(server.of("tools/call").len(), 10);
        for request in server.seen() {
            assert_eq!(request.header("authorization"), format!("Bearer s3cret-{n}"));
            assert!(!request.text.contains("s3cret") && !request.path.contains("s3cret"));
        }
    }
}

#[test]
fn what_a_server_says_arrives_as_it_is() {
    const RESULT: &str =
        r#"{"content":[],"x":1e400,"y":123456789012345678901234567890,"z":"\ud83d\u0000 \u2028"}"#;
    for events in [false, true] {
        let server = Server::start(move |request| {
            request.is_call().then(|| {
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
        let id = proxy
            .send_raw("tools/call", &format!(r#"{{"name":"call_dynamic_tool","arguments":{arguments}}}"#));
        assert_eq!(proxy.answer(id).raw("result").unwrap(), RESULT);
        assert!(server.of("tools/call")[0].text.contains(r#""arguments":{"a":1e400,"b":1.0}"#));
    }
}

#[test]
fn an_answer_that_is_too_long_fails_its_call_alone() {
    let server = Server::start(|request| {
        let text = request
            .is_call()
            .then(|| request.body["params"]["arguments"]["how"].as_str().map(str::to_owned))??;
        let long = request.says(&"x".repeat(200_000));
        Some(match text.as_str() {
            "json" => Reply::json(long),
            "chunked" => Reply::live("application/json", move |out| out.write(&long)),
            _ => Reply::events(move |out| {
                let (first, second) = long.split_at(150_000);
                out.write(&format!("data: {first}")) && out.write(second) && out.write("\n\n")
            }),
        })
    });
    let config = with(
        remote(&server, json!({})),
        json!({"settings": {"max_message_bytes": 100_000, "lazy_startup": "pure"}}),
    );
    let mut proxy = Proxy::new(&config);
    for how in ["json", "chunked", "events"] {
        let failure = proxy.failure("g", "echo", json!({"how": how}));
        assert!(failure.contains("the limit is 100000"), "{how}: {failure}");
        assert_eq!(proxy.text("g", "echo", json!({"text": "on"})), "on");
    }
    assert_eq!(server.of("initialize").len(), 1);
}

#[test]
fn a_redirect_within_the_server_is_followed_with_the_message() {
    let server = Server::start(|request| {
        (request.path == "/mcp").then(|| Reply::status(307).with("Location", "/mcp/?moved"))
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    assert!(server.of("tools/call").iter().any(|call| call.path == "/mcp/?moved"));
}
