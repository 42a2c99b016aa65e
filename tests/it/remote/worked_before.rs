//! Servers that worked with their config and fail later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, json};

use super::server::default_reply;
use super::{Reply, Request, Server};
use crate::support::{Proxy, text_of};

/// How a server fails: its answer, and a part of the error.
type Failure = (&'static str, fn(&Request) -> Reply, &'static str);

/// A server with sessions. Once `fails`, it knows no session and makes none.
fn failing_server(fails: &Arc<AtomicBool>, failure: fn(&Request) -> Reply) -> Server {
    let fails = fails.clone();
    Server::start(move |request| match request.rpc_method() {
        "initialize" if fails.load(Ordering::SeqCst) => Some(failure(request)),
        "initialize" => Some(default_reply(request).with_header("Mcp-Session-Id", "s")),
        _ => fails.load(Ordering::SeqCst).then(|| Reply::status(404)),
    })
}

#[test]
fn a_failure_after_a_success_is_not_blamed_on_the_config() {
    let failures: [Failure; 6] = [
        ("missing", |_| Reply::status(404), "HTTP 404 Not Found; it worked until 20"),
        ("forbidden", |_| Reply::status(403), "HTTP 403 Forbidden; it worked until 20"),
        ("gone", |_| Reply::status(410), "HTTP 410 Gone; it worked until 20"),
        ("page", |_| Reply::text(200, "text/html", "<h1>"), "a web page instead of MCP; it worked until 20"),
        ("cut", |_| Reply::events(|out| out.cut(": hello\n\n")), "the answer was complete: "),
        (
            "silent",
            |_| {
                Reply::events(|out| {
                    out.keep_open();
                    false
                })
            },
            "initialize was not answered within 1 s; it worked until 20",
        ),
    ];
    let fails = Arc::new(AtomicBool::new(false));
    let servers = failures.map(|(name, failure, _)| (name, failing_server(&fails, failure)));
    let entries = servers.iter().map(|(name, server)| {
        let entry = json!({"url": server.url(), "lazy_startup": "pure", "timeout": {"initialize": 1}});
        ((*name).to_owned(), entry)
    });
    let mut proxy = Proxy::new(&json!({"mcpServers": entries.collect::<Map<_, _>>()}));
    for (name, _, _) in failures {
        assert_eq!(proxy.call_text(name, "echo", json!({"text": "a"})), "a");
    }
    fails.store(true, Ordering::SeqCst);
    let calls = failures.map(|(name, _, _)| proxy.send_call(name, "echo", json!({})));
    for ((_, _, expected), call) in failures.into_iter().zip(calls) {
        let text = text_of(&proxy.response(call).json()["result"]).to_owned();
        assert!(text.contains(expected) && text.contains("it worked until 20"), "{text}");
        for advice in ["\"url\"", "\"headers\"", "timeout.", "TLS"] {
            assert!(!text.contains(advice), "{text}");
        }
    }
}

#[test]
fn a_refused_call_of_a_connection_that_works_is_not_blamed_on_the_config() {
    for status in [403, 404, 410] {
        let server = Server::start(move |request| request.is_tool_call().then(|| Reply::status(status)));
        let failure = super::proxy(&server).call_failure("g", "echo", json!({}));
        assert!(failure.contains(&format!("HTTP {status}")), "{failure}");
        assert!(!failure.contains("\"url\"") && !failure.contains("\"headers\""), "{failure}");
    }
}
