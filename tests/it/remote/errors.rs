//! What can go wrong with a remote server, and the messages about it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{Reply, Server, proxy, remote};
use crate::shell::Shell;
use crate::support::{Proxy, TEST_TIMEOUT, merged, text_of};

/// How long a failed group is not retried after its failure.
const COOL_DOWN: Duration = Duration::from_secs(5);

/// A server that answers every request with this reply.
fn server_replying(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |_| Some(reply()))
}

/// A group that cannot connect, and the message about it.
struct Case {
    name: &'static str,
    url: String,
    /// A part of the message.
    message: &'static str,
    /// Whether the message says when to call again.
    is_retried: bool,
}

/// A case that is retried.
fn case(name: &'static str, url: String, message: &'static str) -> Case {
    Case { name, url, message, is_retried: true }
}

/// A case that is not retried.
fn final_case(name: &'static str, url: String, message: &'static str) -> Case {
    Case { name, url, message, is_retried: false }
}

/// Servers that answer with an error status or a redirect to `elsewhere`.
fn status_cases(elsewhere: &Server) -> Vec<Case> {
    let other_origin = elsewhere.url() + "?token=s3cret";
    let with_status = |status: u16| server_replying(move || Reply::status(status)).url();
    let login = server_replying(|| Reply::status(401).with_header("WWW-Authenticate", "Bearer"));
    let forbidden = server_replying(|| Reply::text(403, "application/json", r#"{"message":"not for you"}"#));
    let problem = server_replying(|| {
        Reply::text(403, "application/problem+json", r#"{"title":"Your plan has no API"}"#)
    });
    let text = server_replying(|| Reply::text(403, "text/plain", "blocked by the firewall\nid 1"));
    let wrong = server_replying(|| Reply::text(404, "text/html", "<html><title>No such page</title></html>"));
    let expired = r#"Bearer error="invalid_token", error_description="The access token expired""#;
    let expired = server_replying(move || Reply::status(401).with_header("WWW-Authenticate", expired));
    let busy = server_replying(|| Reply::status(429).with_header("Retry-After", "33"));
    let gateway = server_replying(|| Reply::text(502, "text/html", "<h1>"));
    let moved = server_replying(move || Reply::status(307).with_header("Location", &other_origin));
    vec![
        final_case(
            "login",
            login.url(),
            "write \"headers\": {\"Authorization\": \"Bearer ${LOGIN_TOKEN}\"} in its config",
        ),
        final_case(
            "forbidden",
            forbidden.url(),
            "HTTP 403 Forbidden: \"not for you\"; no credentials were sent: if it wants a key",
        ),
        final_case("problem", problem.url(), "HTTP 403 Forbidden: \"Your plan has no API\""),
        final_case("text", text.url(), "HTTP 403 Forbidden: \"blocked by the firewall\""),
        final_case("expired", expired.url(), "; the server says \"The access token expired\""),
        case("busy", busy.url(), "HTTP 429 Too Many Requests); it asks clients to retry after 33 s"),
        case("error", with_status(500), "HTTP 500 Internal Server Error; the fault is the server's"),
        case("gateway", gateway.url(), "HTTP 502 Bad Gateway"),
        final_case(
            "gone",
            with_status(404),
            "HTTP 404 Not Found; no MCP is at the path of \"url\": write the",
        ),
        final_case(
            "wrong",
            wrong.url(),
            "404 Not Found: \"No such page\"; no MCP is at the path of \"url\": ",
        ),
        case("empty", with_status(202), "HTTP 202 Accepted and no message"),
        final_case("moved", moved.url(), "redirects to http://127.0.0.1:"),
    ]
}

/// Servers that cannot be reached or do not speak MCP.
fn other_cases() -> Vec<Case> {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let page = "<html><head><TITLE>Welcome to nginx!</title></head></html>";
    let page = server_replying(move || Reply::text(200, "text/html; charset=x", page));
    let json = server_replying(|| Reply::json(r#"{"hello":1}"#));
    let other = server_replying(|| Reply::json(r#"{"jsonrpc":"2.0","id":"of another","result":{}}"#));
    let cut = server_replying(|| Reply::chunked("application/json", |out| out.cut("{")));
    let silent = server_replying(|| {
        Reply::events(|out| {
            out.keep_open();
            false
        })
    });
    vec![
        case(
            "refused",
            format!("http://{closed}/s3cret?key=s3cret"),
            "; nothing accepts connections at port",
        ),
        case(
            "nowhere",
            "http://no-such.invalid/mcp".to_owned(),
            "; check the host name \"no-such.invalid\" in \"url\", and whether",
        ),
        final_case(
            "page",
            page.url(),
            "a web page (\"Welcome to nginx!\") instead of MCP; write the address that its documentation names",
        ),
        case(
            "json",
            json.url(),
            "not a JSON-RPC response to the request; if \"url\" does not lead to MCP, write the address",
        ),
        case("other", other.url(), "not a JSON-RPC response"),
        case("cut", cut.url(), "the connection broke before the answer was complete"),
        case("silent", silent.url(), "initialize was not answered within 0.5 s"),
    ]
}

#[test]
fn the_message_says_why_a_group_cannot_connect() {
    let elsewhere = server_replying(|| Reply::status(200));
    let cases: Vec<_> = status_cases(&elsewhere).into_iter().chain(other_cases()).collect();
    let entries = cases.iter().map(|case| {
        let timeout = json!({"initialize": if case.name == "silent" { 0.5 } else { 10.0 }, "connect": 10});
        (case.name.to_owned(), json!({"url": case.url, "lazy_startup": "pure", "timeout": timeout}))
    });
    let mut proxy = Proxy::new(&json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()}));
    let calls: Vec<_> = cases.iter().map(|case| proxy.send_call(case.name, "echo", json!({}))).collect();
    for (case, id) in cases.iter().zip(calls) {
        let result = proxy.response(id).json()["result"].take();
        let (name, text) = (case.name, text_of(&result));
        assert!(text.contains(case.message), "{name}: {text}");
        assert!(!text.contains("s3cret"), "{name}: {text}");
        assert_eq!(text.contains("Call again in"), case.is_retried, "{name}: {text}");
        assert_eq!(text.contains("Call again in 33 seconds"), name == "busy", "{name}: {text}");
        assert_eq!(proxy.group_status(name)["state"], "failed");
    }
    assert_eq!(elsewhere.requests().len(), 0, "nothing is sent to another origin");
}

#[test]
fn a_call_that_fails_does_not_end_the_connection() {
    let server = Server::start(|request| {
        let how = request
            .is_tool_call()
            .then(|| request.body["params"]["arguments"]["how"].as_str().map(str::to_owned))??;
        Some(match how.as_str() {
            "500" => Reply::status(500),
            "error" => Reply::text(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such page"}}"#,
            ),
            "page" => Reply::text(200, "text/html", "<h1>"),
            "cut" => Reply::chunked("application/json", |out| out.cut("{\"jsonrpc\":")),
            "events" => Reply::events(|out| out.write(": hello\n\n") && out.cut("data: {\"half")),
            "reset" => Reply::events(|out| out.reset("data: {\"half")),
            "moved" => Reply::status(302).with_header("Location", "http://127.0.0.1:9/mcp"),
            "busy" => Reply::status(503).with_header("Retry-After", "3600"),
            _ => return None,
        })
    });
    let mut proxy = proxy(&server);
    // Wine reports some resets as the end of the stream.
    let reset = match cfg!(windows) {
        true => "broke before the answer was complete",
        false => "broke before the answer was complete: Connection reset by peer",
    };
    for (how, message) in [
        ("500", "HTTP 500 Internal Server Error"),
        ("page", "a web page instead of MCP"),
        ("cut", "broke before the answer was complete"),
        ("events", "broke before the answer was complete"),
        ("reset", reset),
        ("moved", "redirects to http://127.0.0.1:9"),
        ("busy", "HTTP 503 Service Unavailable); it asks clients to retry after 3600 s"),
    ] {
        let start = Instant::now();
        let failure = proxy.call_failure("g", "echo", json!({"how": how}));
        assert!(failure.contains(message), "{how}: {failure}");
        assert!(start.elapsed() < Duration::from_secs(20), "{how}: it fails before its timeout");
    }
    let arguments = json!({"group": "g", "name": "echo", "args": {"how": "error"}});
    let refused = proxy.request("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    assert_eq!(refused["error"]["message"], "no such page", "the server's own error: {refused}");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "on"})), "on");
    assert_eq!(server.requests_of("initialize").len(), 1);
    assert_eq!(server.requests_of("tools/call").len(), 9, "no call was repeated");
}

#[test]
fn a_read_only_call_is_repeated_when_its_answer_breaks_off() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.is_tool_call() && calls.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Reply::events(|out| out.cut(": hello\n\n")))
    });
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "look", json!({"text": "seen"})), "seen");
    assert_eq!(server.requests_of("tools/call").len(), 2);
}

#[test]
fn an_answer_that_never_completes_runs_into_the_timeout() {
    let server = Server::start(|request| {
        request.is_tool_call().then(|| {
            Reply::chunked("application/json", |out| {
                while out.write(" ") {
                    std::thread::sleep(Duration::from_millis(100));
                }
                false
            })
        })
    });
    let mut proxy = Proxy::new(&remote(&server, json!({"timeout": {"tools": 1}})));
    proxy.get_dynamic_tools(json!({"group": "g"}));
    let start = Instant::now();
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("did not answer within 1 s"), "{failure}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(proxy.group_status("g")["state"], "connected");
    server.wait_for_requests("notifications/cancelled", 1);
}

#[test]
fn a_busy_server_is_retried_after_the_time_it_asks_for() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let first = request.is_tool_call() && calls.fetch_add(1, Ordering::Relaxed) == 0;
        first.then(|| Reply::status(429).with_header("Retry-After", "1"))
    });
    let mut proxy = proxy(&server);
    proxy.get_dynamic_tools(json!({"group": "g"}));
    let start = Instant::now();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.requests_of("tools/call").len(), 2);
}

#[test]
fn retry_after_may_be_a_date_by_the_servers_clock() {
    const NOON: &str = "Fri, 01 Jan 2027 12:00:00 GMT";
    let server = Server::start(|request| {
        let when = request.body["params"]["arguments"]["when"].as_str()?.to_owned();
        let busy = Reply::status(503).with_header("Retry-After", &when);
        Some(if request.body["params"]["arguments"]["clock"] == true {
            busy.with_header("Date", NOON)
        } else {
            busy
        })
    });
    let mut proxy = proxy(&server);
    let mut call = |when: &str, clock: bool| {
        let before = server.requests_of("tools/call").len();
        let failure = proxy.call_failure("g", "echo", json!({"when": when, "clock": clock}));
        (failure, server.requests_of("tools/call").len() - before)
    };
    let (failure, calls) = call("Fri, 01 Jan 2027 12:00:40 GMT", true);
    assert!(failure.contains("it asks clients to retry after 40 s"), "{failure}");
    assert_eq!(calls, 1, "40 s are too long to wait for");
    // A past date means now. Retries are limited.
    assert_eq!(call("Fri, 01 Jan 2027 11:59:00 GMT", true).1, 4);
    assert_eq!(call("Sunday, 06-Nov-94 08:49:37 GMT", false).1, 4);
    let (failure, _) = call("Fri, 31 Dec 9999 23:59:59 GMT", false);
    assert!(failure.contains("after 86400 s"), "{failure}");
    let (failure, calls) = call("soon", false);
    assert!(failure.contains("HTTP 503 Service Unavailable") && calls == 1, "{failure}");
}

#[test]
fn an_expired_login_is_reported_at_once_and_ends_the_connection() {
    let expired = Arc::new(AtomicBool::new(false));
    let is_expired = expired.clone();
    let server = Server::start(move |_| is_expired.load(Ordering::Relaxed).then(|| Reply::status(401)));
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({}));
    expired.store(true, Ordering::Relaxed);
    let failure = proxy.call_failure("g", "echo", json!({}));
    assert!(failure.contains("\"Bearer ${G_TOKEN}\""), "{failure}");
    assert!(failure.contains("tell the user.") && !failure.contains("Call again in"), "{failure}");
    assert_eq!(server.requests_of("tools/call").len(), 2);
    assert_eq!(proxy.group_status("g")["state"], "failed");
    expired.store(false, Ordering::Relaxed);
    std::thread::sleep(COOL_DOWN);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back");
}

#[test]
fn a_server_that_wants_a_key_is_not_logged_in_to() {
    let server = server_replying(|| Reply::status(401).with_header("WWW-Authenticate", "Bearer"));
    let config = remote(&server, json!({"headers": {"X-Project": "p"}}));
    let advice = "write \"headers\": {\"Authorization\": \"Bearer ${G_TOKEN}\"} in its config entry";
    let failure = Proxy::new(&config).call_failure("g", "echo", json!({}));
    assert!(failure.contains(advice) && !failure.contains("dynamic-mcp login"), "{failure}");
    assert!(failure.contains("does not accept \"headers\" of its config entry as a key"), "{failure}");
    let (code, stdout, stderr) = Shell::new(&config).run(&["login", "g"]);
    assert!(code == 1 && stderr.contains(advice), "{stdout}{stderr}");
    assert!(server.requests_of("POST").iter().all(|post| post.path == "/mcp"), "no client is registered");
}

#[test]
fn a_refused_token_from_the_config_is_reported_as_such() {
    let server = server_replying(|| Reply::status(401));
    let mut proxy = Proxy::new(&remote(&server, json!({"headers": {"authorization": "Bearer s3cret"}})));
    let failure = proxy.call_failure("g", "echo", json!({}));
    let refused = "the server refused \"Authorization\" in \"headers\" of its config entry (HTTP 401); ";
    assert!(failure.contains(&format!("{refused}write a value that is valid now")), "{failure}");
    assert!(failure.contains("does not help") && !failure.contains("login needed"), "{failure}");
    let headers = json!({"headers": {"Authorization": "Bearer $TOKEN"}});
    let failure = Proxy::new(&remote(&server, headers)).call_failure("g", "echo", json!({}));
    let advice = "its value has \"$TOKEN\" literally: write \"${TOKEN}\"";
    assert!(failure.contains(&format!("{refused}{advice}")), "{failure}");
}

#[test]
fn what_was_sent_is_named_if_it_was_refused() {
    let server = server_replying(|| Reply::status(403));
    let headers = json!({"headers": {"X-Key": "s3cret", "X-Team": "a"}});
    let failure = Proxy::new(&remote(&server, headers)).call_failure("g", "echo", json!({}));
    assert!(
        failure.contains("\"x-key\", \"x-team\" of \"headers\" in its config entry was sent"),
        "{failure}"
    );
    assert!(!failure.contains("s3cret"), "{failure}");
}

#[test]
fn words_that_repeat_a_header_are_not_shown() {
    for status in [400, 401, 403, 500] {
        let echo = r#"{"error":"the key k3y-0f-mine is unknown"}"#;
        let server = server_replying(move || Reply::text(status, "application/json", echo));
        let headers = json!({"headers": {"X-Key": "k3y-0f-mine"}});
        let failure = Proxy::new(&remote(&server, headers)).call_failure("g", "echo", json!({}));
        assert!(failure.contains(&status.to_string()) && !failure.contains("k3y-0f-mine"), "{failure}");
    }
}

#[test]
fn the_address_is_corrected_with_its_own_origin() {
    let missing = server_replying(|| Reply::status(404));
    let wrong = json!({"mcpServers": {"g": {"url": format!("{}/v1?key=s3cret", missing.origin)}}});
    let failure = Proxy::new(&wrong).call_failure("g", "echo", json!({}));
    let origin = &missing.origin;
    let advice = format!("as \"url\", often \"{origin}/mcp\" or \"{origin}/sse\"");
    assert!(failure.contains(&advice) && !failure.contains("s3cret"), "{failure}");
    let failure = Proxy::new(&remote(&missing, json!({}))).call_failure("g", "echo", json!({}));
    assert!(failure.contains(&format!("as \"url\", often \"{origin}/sse\"\n")), "{failure}");
}

#[test]
fn plain_http_to_a_port_of_tls_is_recognized() {
    let words = "Client sent an HTTP request to an HTTPS server.";
    let go = server_replying(move || Reply::text(400, "text/plain", words));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            drop(std::io::Read::read(&mut connection, &mut [0; 4096]));
        }
    });
    for address in [go.address(), closing.to_string()] {
        let config = json!({"mcpServers": {"g": {"url": format!("http://{address}/mcp")}}});
        let failure = Proxy::new(&config).call_failure("g", "echo", json!({}));
        assert!(failure.contains(&format!("begin the \"url\" with https://{address}")), "{failure}");
    }
}

#[test]
fn a_server_that_comes_back_is_found_by_the_call_that_missed_it() {
    let server = Server::start(|_| None);
    let mut proxy = Proxy::new(&merged(remote(&server, json!({})), json!({})));
    proxy.call_text("g", "echo", json!({}));
    server.close();
    let id = proxy.send_call("g", "echo", json!({"text": "found"}));
    proxy.wait_for_log("connect failed");
    let restarted = Server::on(TcpListener::bind(server.address()).unwrap(), None, |_| None);
    let start = Instant::now();
    let result = proxy.response(id).json()["result"].take();
    assert_eq!(text_of(&result), "found");
    assert!(start.elapsed() < TEST_TIMEOUT);
    assert_eq!(
        (restarted.requests_of("initialize").len(), restarted.requests_of("tools/call").len()),
        (1, 1)
    );
}
