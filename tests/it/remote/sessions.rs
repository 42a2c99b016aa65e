//! Sessions: they are used, ended, and replaced when the server has ended them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::server::default_reply;
use super::{Reply, Request, Server, proxy, remote};
use crate::support::{Proxy, config_of, merged, text_of, wait_until};

/// A server that knows only the last session it has created, and how many it has created. `refuses`: its reply to
/// requests of other sessions.
fn session_server(refuses: fn(&Request) -> Reply) -> (Server, Arc<AtomicUsize>) {
    let created = Arc::new(AtomicUsize::new(0));
    let count = created.clone();
    let server = Server::start(move |request| {
        if request.rpc_method() == "initialize" {
            let session = count.fetch_add(1, Ordering::SeqCst) + 1;
            return Some(default_reply(request).with_header("Mcp-Session-Id", &format!("session-{session}")));
        }
        let current = format!("session-{}", count.load(Ordering::SeqCst));
        (request.header("mcp-session-id") != current).then(|| refuses(request))
    });
    (server, created)
}

fn not_found(_: &Request) -> Reply {
    Reply::status(404)
}

#[test]
fn a_session_is_used_for_all_requests_and_ended() {
    let (server, _) = session_server(not_found);
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({}));
    proxy.close_stdin();
    let (status, took) = proxy.wait_for_exit();
    assert!(status.success() && took < Duration::from_millis(1500), "{took:?}");
    for request in server.requests() {
        let session = if request.rpc_method() == "initialize" { "" } else { "session-1" };
        assert_eq!(request.header("mcp-session-id"), session, "{} {}", request.method, request.rpc_method());
    }
    assert_eq!(server.requests().last().unwrap().method, "DELETE");
    assert_eq!(server.requests_of("DELETE")[0].header("mcp-protocol-version"), "2025-11-25");
    assert!(!proxy.log().contains("session-1"), "the session id is a secret");
}

#[test]
fn a_server_that_does_not_answer_delete_does_not_delay_the_exit() {
    let server = Server::start(|request| match (request.method.as_str(), request.rpc_method()) {
        ("DELETE", _) => Some(Reply::chunked("text/plain", |out| {
            out.keep_open();
            false
        })),
        (_, "initialize") => Some(default_reply(request).with_header("Mcp-Session-Id", "s")),
        ("GET", _) => Some(Reply::events(|out| {
            out.keep_open();
            false
        })),
        _ => None,
    });
    let mut proxy = proxy(&server);
    proxy.call_text("g", "echo", json!({}));
    let id = proxy.send_call("g", "echo", json!({}));
    proxy.response(id);
    proxy.close_stdin();
    let (status, took) = proxy.wait_for_exit();
    assert!(status.success() && took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(server.requests_of("DELETE").len(), 1);
}

#[test]
fn calls_on_an_ended_session_run_once_on_a_new_one() {
    fn bad_request(request: &Request) -> Reply {
        let error = request.error_response(-32000, "Bad Request: No valid session ID provided");
        Reply::text(400, "application/json", error)
    }
    fn not_found_with_error(request: &Request) -> Reply {
        Reply::text(404, "application/json", request.error_response(-32001, "Session not found"))
    }
    fn not_initialized(request: &Request) -> Reply {
        let error = request.error_response(-32000, "Bad Request: Server not initialized");
        Reply::text(400, "text/event-stream", format!("event: message\ndata: {error}\n\n"))
    }
    fn conflict(_: &Request) -> Reply {
        Reply::text(409, "text/plain", "start again")
    }
    for refuses in [not_found, not_found_with_error, bad_request, not_initialized, conflict] {
        let (server, created) = session_server(refuses);
        let mut proxy = proxy(&server);
        proxy.get_dynamic_tools(json!({"group": "g"}));
        server.wait_for_requests("ping", 1);
        proxy.call_text("g", "echo", json!({}));
        created.store(7, Ordering::SeqCst);
        let calls: Vec<_> =
            (0..8).map(|n| proxy.send_call("g", "echo", json!({"text": format!("call {n}")}))).collect();
        for (n, id) in calls.into_iter().enumerate() {
            assert_eq!(text_of(&proxy.response(id).json()["result"]), format!("call {n}"));
        }
        assert_eq!(server.requests_of("initialize").len(), 2);
        let runs_on_new_session = |n: usize| {
            let text = format!("call {n}");
            let is_match = |call: &&Request| {
                call.body["params"]["arguments"]["text"] == text
                    && call.header("mcp-session-id") == "session-8"
            };
            server.requests_of("tools/call").iter().filter(is_match).count()
        };
        assert_eq!((0..8).map(runs_on_new_session).collect::<Vec<_>>(), [1; 8]);
        assert_eq!(server.requests_of("DELETE").len(), 0, "the old session is not ended again");
    }
}

/// A server that answers a `ping` has the session: what it refuses is refused.
#[test]
fn a_refusal_is_the_answer_if_a_ping_is_answered_or_a_new_session_does_not_help() {
    // `refuses_ping`: never, always, or after a call.
    for (status, refuses_ping, sessions) in [
        (400, "never", 1),
        (200, "never", 1),
        (422, "always", 1),
        (200, "always", 1),
        (422, "afterwards", 2),
        (200, "afterwards", 2),
        (404, "never", 2),
    ] {
        let was_called = AtomicBool::new(false);
        let server = Server::start(move |request| {
            let refused = || {
                let error = request.error_response(-32000, "no such account");
                Reply::text(status, "application/json", error)
            };
            match request.rpc_method() {
                "initialize" => {
                    was_called.store(false, Ordering::SeqCst);
                    Some(default_reply(request).with_header("Mcp-Session-Id", "s"))
                }
                "tools/call" => {
                    was_called.store(refuses_ping == "afterwards", Ordering::SeqCst);
                    Some(refused())
                }
                "ping" if refuses_ping == "always" || was_called.load(Ordering::SeqCst) => Some(refused()),
                _ => None,
            }
        });
        let mut proxy = proxy(&server);
        proxy.get_dynamic_tools(json!({"group": "g"}));
        if status != 404 {
            server.wait_for_requests("ping", 1);
        }
        let id = proxy.send_call("g", "look", json!({}));
        let answer = proxy.response(id).json();
        assert_eq!(
            answer["error"],
            json!({"code": -32000, "message": "no such account"}),
            "{status} {refuses_ping}: {answer}"
        );
        let counts = ["initialize", "tools/call"].map(|method| server.requests_of(method).len());
        assert_eq!(counts, [sessions; 2], "{status} {refuses_ping}");
    }
}

/// A JSON-RPC error does not say that nothing was done, so only a call that does no harm is made again.
#[test]
fn after_a_json_rpc_error_only_a_read_only_call_is_made_again() {
    fn refuses(request: &Request) -> Reply {
        Reply::json(request.error_response(-32600, "unknown session"))
    }
    for (tool, runs_again) in [("look", true), ("echo", false)] {
        let (server, created) = session_server(refuses);
        let mut proxy = proxy(&server);
        proxy.call_text("g", tool, json!({}));
        server.wait_for_requests("ping", 1);
        proxy.call_text("g", tool, json!({}));
        created.store(7, Ordering::SeqCst);
        let id = proxy.send_call("g", tool, json!({"text": "again"}));
        let answer = proxy.response(id).json();
        match runs_again {
            true => assert_eq!(text_of(&answer["result"]), "again"),
            false => assert_eq!(answer["error"]["message"], "unknown session", "{answer}"),
        }
        assert_eq!(proxy.call_text("g", tool, json!({"text": "next"})), "next", "in a new session");
        assert_eq!(server.requests_of("initialize").len(), 2);
    }
}

#[test]
fn the_session_of_an_idle_or_discovery_connection_is_ended() {
    let (server, _) = session_server(not_found);
    let entry = json!({"url": server.url(), "idle_timeout": 0.5});
    let mut proxy = Proxy::new(&config_of([("g", entry)]));
    server.wait_for_requests("DELETE", 1);
    assert_eq!(server.requests_of("tools/call").len(), 0, "the connection was made for the catalog");
    proxy.call_text("g", "echo", json!({}));
    server.wait_for_requests("DELETE", 2);
    wait_until("the group is idle", || proxy.group_status("g")["state"] == "discovered");
    assert_eq!(server.requests_of("initialize").len(), 2);
}

#[test]
fn an_eager_group_reconnects_when_its_session_has_ended() {
    let (server, created) = session_server(not_found);
    let entry = json!({"url": server.url(), "lazy_startup": "eager"});
    let mut proxy = Proxy::new(&config_of([("g", entry)]));
    wait_until("the group is connected", || proxy.group_status("g")["state"] == "connected");
    created.store(7, Ordering::SeqCst);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    assert_eq!(server.requests_of("initialize").len(), 2);
}

#[test]
fn a_group_that_a_reload_changes_is_reconnected() {
    let (old, _) = session_server(not_found);
    let (new, _) = session_server(not_found);
    let mut proxy = proxy(&old);
    proxy.call_text("g", "echo", json!({}));
    std::fs::write(proxy.config_file(), remote(&new, json!({})).to_string()).unwrap();
    old.wait_for_requests("DELETE", 1);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "new"})), "new");
    assert_eq!(new.requests_of("tools/call").len(), 1);
    let headers = merged(json!({"url": new.url()}), json!({"headers": {"X-Key": "other"}}));
    let config = crate::support::pure_config([("g", headers)]);
    std::fs::write(proxy.config_file(), config.to_string()).unwrap();
    new.wait_for_requests("DELETE", 1);
    proxy.call_text("g", "echo", json!({}));
    assert_eq!(new.requests_of("tools/call").last().unwrap().header("x-key"), "other");
}

/// A call that is open when the secret changes is answered on its old connection, and other calls do not wait for it.
#[test]
fn a_rotated_secret_opens_a_connection_beside_the_one_that_is_used() {
    let release = Arc::new(AtomicBool::new(false));
    let released = release.clone();
    let server = Server::start(move |request| {
        request.is_tool_call().then_some(())?;
        if request.body["params"]["arguments"]["text"] == "waits" {
            wait_until("the other call is answered", || released.load(Ordering::SeqCst));
        }
        Some(Reply::json(request.text_response(request.header("authorization"))))
    });
    let config =
        |secret: &str| remote(&server, json!({"headers": {"Authorization": format!("Bearer {secret}")}}));
    let mut proxy = Proxy::new(&config("first-secret"));
    let open = proxy.send_call("g", "echo", json!({"text": "waits"}));
    server.wait_for_requests("tools/call", 1);
    std::fs::write(proxy.config_file(), config("second-secret").to_string()).unwrap();
    wait_until("the config is read again", || {
        let start = tokio::time::Instant::now();
        let answered_with = proxy.call_text("g", "echo", json!({}));
        // It waited for the open call otherwise.
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        answered_with == "Bearer second-secret"
    });
    release.store(true, Ordering::SeqCst);
    assert_eq!(text_of(&proxy.response(open).json()["result"]), "Bearer first-secret");
}
