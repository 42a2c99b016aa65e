//! Sessions: kept, ended, and over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::server::plain;
use super::{Reply, Request, Server, proxy, remote};
use crate::support::{Proxy, as_configured, text_of, until, with};

/// A server that gives out sessions and knows the last one alone; `refuses` says how it refuses others.
fn with_sessions(refuses: fn(&Request) -> Reply) -> (Server, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    let count = given.clone();
    let server = Server::start(move |request| {
        if request.rpc() == "initialize" {
            let session = count.fetch_add(1, Ordering::SeqCst) + 1;
            return Some(plain(request).with("Mcp-Session-Id", &format!("session-{session}")));
        }
        let current = format!("session-{}", count.load(Ordering::SeqCst));
        (request.header("mcp-session-id") != current).then(|| refuses(request))
    });
    (server, given)
}

fn not_found(_: &Request) -> Reply {
    Reply::status(404)
}

#[test]
fn a_session_is_kept_and_ended() {
    let (server, _) = with_sessions(not_found);
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({}));
    proxy.close_stdin();
    let (status, took) = proxy.ends();
    assert!(status.success() && took < Duration::from_millis(1500), "{took:?}");
    for request in server.seen() {
        let session = if request.rpc() == "initialize" { "" } else { "session-1" };
        assert_eq!(request.header("mcp-session-id"), session, "{} {}", request.method, request.rpc());
    }
    assert_eq!(server.seen().last().unwrap().method, "DELETE");
    assert_eq!(server.of("DELETE")[0].header("mcp-protocol-version"), "2025-11-25");
    assert!(!proxy.log().contains("session-1"), "it is a secret");
}

#[test]
fn a_server_that_does_not_take_the_end_of_a_session_holds_nobody_up() {
    let server = Server::start(|request| match (request.method.as_str(), request.rpc()) {
        ("DELETE", _) => Some(Reply::live("text/plain", |out| {
            out.hold();
            false
        })),
        (_, "initialize") => Some(plain(request).with("Mcp-Session-Id", "s")),
        ("GET", _) => Some(Reply::events(|out| {
            out.hold();
            false
        })),
        _ => None,
    });
    let mut proxy = proxy(&server);
    proxy.text("g", "echo", json!({}));
    let id = proxy.send_call("g", "echo", json!({}));
    proxy.answer(id);
    proxy.close_stdin();
    let (status, took) = proxy.ends();
    assert!(status.success() && took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(server.of("DELETE").len(), 1);
}

#[test]
fn calls_on_a_session_that_is_over_are_made_once_on_a_new_one() {
    fn in_words(request: &Request) -> Reply {
        let error = request.error(-32000, "Bad Request: No valid session ID provided");
        Reply::text(400, "application/json", error)
    }
    fn said(request: &Request) -> Reply {
        Reply::text(404, "application/json", request.error(-32001, "Session not found"))
    }
    for refuses in [not_found, said, in_words] {
        let (server, given) = with_sessions(refuses);
        let mut proxy = proxy(&server);
        proxy.text("g", "echo", json!({}));
        given.store(7, Ordering::SeqCst);
        let calls: Vec<_> =
            (0..8).map(|n| proxy.send_call("g", "echo", json!({"text": format!("call {n}")}))).collect();
        for (n, id) in calls.into_iter().enumerate() {
            assert_eq!(text_of(&proxy.answer(id).json()["result"]), format!("call {n}"));
        }
        assert_eq!(server.of("initialize").len(), 2);
        let made = |n: usize| {
            let text = format!("call {n}");
            let on_new = |call: &&Request| {
                call.body["params"]["arguments"]["text"] == text
                    && call.header("mcp-session-id") == "session-8"
            };
            server.of("tools/call").iter().filter(on_new).count()
        };
        assert_eq!((0..8).map(made).collect::<Vec<_>>(), [1; 8]);
        assert_eq!(server.of("DELETE").len(), 0, "there is nothing to end");
    }
}

#[test]
fn an_idle_connection_and_one_that_was_made_for_the_catalog_are_ended() {
    let (server, _) = with_sessions(not_found);
    let entry = json!({"url": server.url(), "idle_timeout": 0.5});
    let mut proxy = Proxy::new(&as_configured([("g", entry)]));
    server.until("DELETE", 1);
    assert_eq!(server.of("tools/call").len(), 0, "hybrid: for its catalog");
    proxy.text("g", "echo", json!({}));
    server.until("DELETE", 2);
    until("it is idle", || proxy.group("g")["state"] == "discovered");
    assert_eq!(server.of("initialize").len(), 2);
}

#[test]
fn an_eager_group_comes_back_when_its_session_is_over() {
    let (server, given) = with_sessions(not_found);
    let entry = json!({"url": server.url(), "lazy_startup": "eager"});
    let mut proxy = Proxy::new(&as_configured([("g", entry)]));
    until("it is connected", || proxy.group("g")["state"] == "connected");
    given.store(7, Ordering::SeqCst);
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(server.of("initialize").len(), 2);
}

#[test]
fn what_a_reload_changes_is_connected_to_anew() {
    let (old, _) = with_sessions(not_found);
    let (new, _) = with_sessions(not_found);
    let mut proxy = proxy(&old);
    proxy.text("g", "echo", json!({}));
    std::fs::write(proxy.config_file(), remote(&new, json!({})).to_string()).unwrap();
    old.until("DELETE", 1);
    assert_eq!(proxy.text("g", "echo", json!({"text": "new"})), "new");
    assert_eq!(new.of("tools/call").len(), 1);
    let headers = with(json!({"url": new.url()}), json!({"headers": {"X-Key": "other"}}));
    let config = crate::support::servers([("g", headers)]);
    std::fs::write(proxy.config_file(), config.to_string()).unwrap();
    new.until("DELETE", 1);
    proxy.text("g", "echo", json!({}));
    assert_eq!(new.of("tools/call").last().unwrap().header("x-key"), "other");
}
