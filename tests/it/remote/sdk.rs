//! rmcp's own server over Streamable HTTP, in each of its ways. (Those of the other SDKs need their languages: they are
//! in `tests/real/http.rs`.)

use std::sync::atomic::Ordering;

use hyper::Method;
use serde_json::{Value, json};

use crate::protocol::{client, heard, reply};
use crate::support::{Proxy, servers, text_of, until};
use server::{Sdk, Way};

mod server;

const WAYS: [(Way, &str); 5] = [
    (Way::Sessions, "2025-11-25"),
    (Way::Stateless, "2025-11-25"),
    (Way::StatelessJson, "2025-11-25"),
    (Way::Later, "2026-07-28"),
    (Way::LaterJson, "2026-07-28"),
];

fn proxy(server: &Sdk) -> Proxy {
    client(&servers([("g", json!({"url": server.url}))]), json!({"elicitation": {}}))
}

fn greet(proxy: &mut Proxy) -> Value {
    let id = proxy.send_call("g", "greet", json!({}));
    let asked = heard(proxy, "elicitation/create");
    assert!(asked.json()["params"]["message"].as_str().unwrap().ends_with("Your name?"), "{}", asked.line);
    reply(proxy, &asked, r#""result":{"action":"accept","content":{"name":"Ada"}}"#);
    proxy.answer(id).json()
}

#[test]
fn tools_are_listed_and_called_in_every_way() {
    for (way, revision) in WAYS {
        let server = Sdk::start(way);
        let mut proxy = proxy(&server);
        let tools = proxy.tools(json!({"group": "g"}));
        assert!(["count", "greet", "wait"].iter().all(|tool| tools.contains(tool)), "{way:?}: {tools}");
        let params = json!({
            "name": "call_dynamic_tool",
            "arguments": {"group": "g", "name": "count", "args": {}},
            "_meta": {"progressToken": "mine"},
        });
        let id = proxy.send("tools/call", params);
        for n in 1..=3 {
            let told = heard(&mut proxy, "notifications/progress").json();
            assert_eq!(told["params"]["progressToken"], "mine");
            assert_eq!(told["params"]["progress"].as_f64(), Some(f64::from(n)), "{way:?}");
        }
        assert_eq!(text_of(&proxy.answer(id).json()["result"]), "counted", "{way:?}");
        assert_eq!(proxy.group("g")["protocolVersion"], revision, "{way:?}");
        assert_eq!(server.did.calls(), 1, "{way:?}");
    }
}

#[test]
fn a_question_during_a_call_is_answered_where_there_is_a_way_to_ask() {
    for way in [Way::Sessions, Way::Later, Way::LaterJson] {
        let server = Sdk::start(way);
        let mut proxy = proxy(&server);
        assert_eq!(text_of(&greet(&mut proxy)["result"]), "Hello, \"Ada\"", "{way:?}");
    }
    // Without a session rmcp asks all the same, and takes no answer.
    for way in [Way::Stateless, Way::StatelessJson] {
        let server = Sdk::start(way);
        let config = servers([("g", json!({"url": server.url, "timeout": {"tools": 2}}))]);
        let mut proxy = client(&config, json!({"elicitation": {}}));
        let answer = greet(&mut proxy);
        assert!(text_of(&answer["result"]).contains("no answer within 2 s"), "{way:?}: {answer}");
        proxy.until_logged("the server did not accept the response to its request");
    }
}

#[test]
fn a_cancelled_call_stops_at_the_server() {
    for (way, _) in WAYS {
        let server = Sdk::start(way);
        let mut proxy = proxy(&server);
        let id = proxy.send_call("g", "wait", json!({}));
        until("it runs", || server.did.calls() == 1);
        proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        until(&format!("it stops, {way:?}"), || server.did.cancelled.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn a_session_that_the_server_forgot_is_replaced_and_the_call_made_once() {
    let server = Sdk::start(Way::Sessions);
    let mut proxy = proxy(&server);
    assert_eq!(proxy.text("g", "count", json!({})), "counted");
    server.forget_sessions();
    assert_eq!(proxy.text("g", "count", json!({})), "counted");
    assert_eq!((server.did.calls(), server.sessions()), (2, 1));
}

#[test]
fn a_call_that_ran_when_its_session_ended_is_not_made_again() {
    let server = Sdk::start(Way::Sessions);
    let mut proxy = proxy(&server);
    let id = proxy.send_call("g", "wait", json!({}));
    until("it runs", || server.did.calls() == 1);
    server.forget_sessions();
    let answer = proxy.answer(id).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(server.did.calls(), 1);
    assert_eq!(proxy.text("g", "count", json!({})), "counted");
}

#[test]
fn a_session_is_ended_by_delete() {
    let server = Sdk::start(Way::Sessions);
    let mut proxy = proxy(&server);
    proxy.text("g", "count", json!({}));
    until("it listens", || server.did.requests(&Method::GET) == 1);
    assert_eq!(server.sessions(), 1);
    proxy.close_stdin();
    assert!(proxy.ends().0.success());
    assert_eq!((server.did.requests(&Method::DELETE), server.sessions()), (1, 0));
}
