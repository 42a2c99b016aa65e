//! rmcp's server over Streamable HTTP, in each of its modes. The servers of other SDKs need their languages: they are in
//! `tests/real/http.rs`.

use std::sync::atomic::Ordering;

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{Proxy, pure_config, text_of, wait_until};
use server::{RmcpServer, ServerMode};

mod server;

const MODES: [(ServerMode, &str); 5] = [
    (ServerMode::Sessions, "2025-11-25"),
    (ServerMode::NoSessions, "2025-11-25"),
    (ServerMode::NoSessionsJson, "2025-11-25"),
    (ServerMode::StatelessRevision, "2026-07-28"),
    (ServerMode::StatelessRevisionJson, "2026-07-28"),
];

fn proxy(server: &RmcpServer) -> Proxy {
    Proxy::with_capabilities(&pure_config([("g", json!({"url": server.url}))]), json!({"elicitation": {}}))
}

/// Calls `greet`, answers its elicitation, and returns the answer to the call.
fn greet(proxy: &mut Proxy) -> Value {
    let id = proxy.send_call("g", "greet", json!({}));
    let elicitation = proxy.wait_for_message("elicitation/create");
    assert!(
        elicitation.json()["params"]["message"].as_str().unwrap().ends_with("Your name?"),
        "{}",
        elicitation.line
    );
    proxy.respond(&elicitation, r#""result":{"action":"accept","content":{"name":"Ada"}}"#);
    proxy.response(id).json()
}

#[test]
fn tools_are_listed_and_called_in_every_mode() {
    for (mode, revision) in MODES {
        let server = RmcpServer::start(mode);
        let mut proxy = proxy(&server);
        let tools = proxy.get_dynamic_tools(json!({"group": "g"}));
        assert!(["count", "greet", "wait"].iter().all(|tool| tools.contains(tool)), "{mode:?}: {tools}");
        let params = json!({
            "name": "call_dynamic_tool",
            "arguments": {"group": "g", "name": "count", "args": {}},
            "_meta": {"progressToken": "mine"},
        });
        let id = proxy.send_request("tools/call", params);
        for n in 1..=3 {
            let notification = proxy.wait_for_message("notifications/progress").json();
            assert_eq!(notification["params"]["progressToken"], "mine");
            assert_eq!(notification["params"]["progress"].as_f64(), Some(f64::from(n)), "{mode:?}");
        }
        assert_eq!(text_of(&proxy.response(id).json()["result"]), "counted", "{mode:?}");
        assert_eq!(proxy.group_status("g")["protocolVersion"], revision, "{mode:?}");
        assert_eq!(server.observed.calls(), 1, "{mode:?}");
    }
}

#[test]
fn an_elicitation_during_a_call_is_answered_where_the_mode_allows_one() {
    for mode in [ServerMode::Sessions, ServerMode::StatelessRevision, ServerMode::StatelessRevisionJson] {
        let server = RmcpServer::start(mode);
        let mut proxy = proxy(&server);
        assert_eq!(text_of(&greet(&mut proxy)["result"]), "Hello, \"Ada\"", "{mode:?}");
    }
    // Without sessions rmcp asks too, but does not accept the answer.
    for mode in [ServerMode::NoSessions, ServerMode::NoSessionsJson] {
        let server = RmcpServer::start(mode);
        let config = pure_config([("g", json!({"url": server.url}))]);
        let mut proxy = Proxy::with_capabilities(&config, json!({"elicitation": {}}));
        let answer = greet(&mut proxy);
        let text = text_of(&answer["result"]);
        assert!(text.contains("the server refused the answer to its own question"), "{mode:?}: {text}");
        proxy.wait_for_log("the server did not accept the response to its request");
    }
}

#[test]
fn a_cancelled_call_stops_at_the_server() {
    for (mode, _) in MODES {
        let server = RmcpServer::start(mode);
        let mut proxy = proxy(&server);
        let id = proxy.send_call("g", "wait", json!({}));
        wait_until("the call runs", || server.observed.calls() == 1);
        proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        wait_until(&format!("the call stops, {mode:?}"), || {
            server.observed.cancelled.load(Ordering::SeqCst) == 1
        });
    }
}

#[test]
fn a_session_that_the_server_lost_is_replaced_and_the_call_runs_once() {
    let server = RmcpServer::start(ServerMode::Sessions);
    let mut proxy = proxy(&server);
    assert_eq!(proxy.call_text("g", "count", json!({})), "counted");
    server.lose_sessions();
    assert_eq!(proxy.call_text("g", "count", json!({})), "counted");
    assert_eq!((server.observed.calls(), server.sessions()), (2, 1));
}

#[test]
fn a_call_that_runs_when_its_session_is_lost_is_not_repeated() {
    let server = RmcpServer::start(ServerMode::Sessions);
    let mut proxy = proxy(&server);
    let id = proxy.send_call("g", "wait", json!({}));
    wait_until("the call runs", || server.observed.calls() == 1);
    server.lose_sessions();
    let answer = proxy.response(id).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(server.observed.calls(), 1);
    assert_eq!(proxy.call_text("g", "count", json!({})), "counted");
}

#[test]
fn a_session_is_ended_with_delete() {
    let server = RmcpServer::start(ServerMode::Sessions);
    let mut proxy = proxy(&server);
    proxy.call_text("g", "count", json!({}));
    wait_until("the GET stream is opened", || server.observed.http_requests(&Method::GET) == 1);
    assert_eq!(server.sessions(), 1);
    proxy.close_stdin();
    assert!(proxy.wait_for_exit().0.success());
    assert_eq!((server.observed.http_requests(&Method::DELETE), server.sessions()), (1, 0));
}
