//! Calls that the user is to confirm (`tools.ask`).

use serde_json::{Value, json};

use super::{Record, client, heard, hears_nothing, reply, send_tool};
use crate::support::{Proxy, servers, text_of, upstream, with};

fn asking(record: &Record, capabilities: Value) -> Proxy {
    let entry = with(record.of(upstream(&["--tools", "1"])), json!({"tools": {"ask": ["gen*", "echo"]}}));
    client(&servers([("g", entry)]), capabilities)
}

#[test]
fn the_user_sees_group_tool_and_arguments_and_accepts() {
    for elicitation in [json!({}), json!({"form": {}}), json!({"form": {}, "url": {}})] {
        let record = Record::new();
        let mut proxy = asking(&record, json!({"elicitation": elicitation}));
        let call = send_tool(&mut proxy, "g", "generated_0", r#"{"path":"/tmp","n":1e400}"#);
        let asked = heard(&mut proxy, "elicitation/create");
        let question = asked.json();
        let message = question["params"]["message"].as_str().unwrap();
        for part in ["[g] ", "generated_0", "group g", r#"{"path":"/tmp","n":1e400}"#] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(question["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
        assert_eq!(record.lines("tools/call").len(), 0, "before the user has answered");
        reply(&mut proxy, &asked, r#""result":{"action":"accept","content":{}}"#);
        let result = proxy.answer(call).json()["result"].take();
        assert_eq!(text_of(&result), r#"{"path":"/tmp","n":1e400}"#);
    }
}

#[test]
fn what_the_user_does_not_accept_is_not_called() {
    let record = Record::new();
    let mut proxy = asking(&record, json!({"elicitation": {}}));
    for (outcome, part) in [
        (r#""result":{"action":"decline"}"#, "declined it"),
        (r#""result":{"action":"cancel"}"#, "dismissed it"),
        (r#""result":{"action":"whatever"}"#, "tools.ask"),
        (r#""error":{"code":-32603,"message":"no window"}"#, "tools.ask"),
    ] {
        let call = proxy.send("tools/call", json!({"name": "g__generated_0", "arguments": {}}));
        let asked = heard(&mut proxy, "elicitation/create");
        reply(&mut proxy, &asked, outcome);
        let result = proxy.answer(call).json()["result"].take();
        assert!(result["isError"] == true && text_of(&result).contains(part), "{outcome}: {result}");
    }
    assert_eq!(record.lines("tools/call").len(), 0);
}

#[test]
fn a_client_that_cannot_ask_is_told_the_remedy_and_nothing_is_called() {
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let record = Record::new();
        let mut proxy = asking(&record, capabilities);
        let text = proxy.failure("g", "generated_0", json!({}));
        assert!(text.contains("tools.ask in the config") && text.contains("can take it out"), "{text}");
        hears_nothing(&mut proxy);
        assert_eq!(record.lines("tools/call").len(), 0);
    }
}

#[test]
fn the_user_is_not_asked_about_a_call_that_cannot_be_made() {
    let record = Record::new();
    let mut proxy = asking(&record, json!({"elicitation": {}}));
    assert!(proxy.failure("g", "echo", json!({"text": 3})).contains("do not fit"));
    hears_nothing(&mut proxy);
}

#[test]
fn a_call_that_is_cancelled_takes_its_question_back() {
    let record = Record::new();
    let mut proxy = asking(&record, json!({"elicitation": {}}));
    let call = send_tool(&mut proxy, "g", "generated_0", "{}");
    let asked = heard(&mut proxy, "elicitation/create");
    proxy.notify("notifications/cancelled", json!({"requestId": call}));
    let taken_back = heard(&mut proxy, "notifications/cancelled").json();
    assert_eq!(taken_back["params"]["requestId"].to_string(), asked.id().unwrap());
    reply(&mut proxy, &asked, r#""result":{"action":"accept"}"#);
    hears_nothing(&mut proxy);
    assert_eq!(record.lines("tools/call").len(), 0);
}
