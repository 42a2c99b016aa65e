//! Calls that the user is to confirm (`tools.ask`).

use serde_json::{Value, json};

use super::{Record, client, heard, hears_nothing, reply, send_tool};
use crate::support::{Proxy, Setup, servers, text_of, upstream, with};

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
        (r#""result":{"action":"decline"}"#, "declined this call"),
        (r#""result":{"action":"cancel"}"#, "dismissed this call"),
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
        assert!(
            text.contains("tools.ask in the config") && text.contains("can remove the tool from tools.ask"),
            "{text}"
        );
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

/// A stateless client's call of a tool of `g`.
fn stateless_call(tool: &str, args: &Value, capabilities: &Value) -> Value {
    json!({
        "name": "call_dynamic_tool",
        "arguments": {"group": "g", "name": tool, "args": args},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
    })
}

/// The same call once more, with the state it was given and an answer to each question: `action` to ours.
fn again(call: &Value, asked: &Value, action: &str) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut call = call.clone();
    call["requestState"] = asked["requestState"].clone();
    for key in asked["inputRequests"].as_object().unwrap().keys() {
        let ours = key == "dynamic-mcp/confirm";
        call["inputResponses"][key] = if ours { json!({"action": action}) } else { json!({"said": key}) };
    }
    call
}

/// A proxy for stateless clients. `flags` are the upstream's.
fn asking_stateless(record: &Record, flags: &[&str]) -> Proxy {
    let ask = json!({"tools": {"ask": ["gen*", "asks"]}});
    let entry = with(record.of(upstream(&[&["--tools", "2"], flags].concat())), ask);
    Setup::new().config(&servers([("g", entry)])).start()
}

#[test]
fn a_stateless_client_asks_the_user_itself_and_calls_again() {
    for flags in [&[][..], &["--stateless", "--protocol"]] {
        let record = Record::new();
        let mut proxy = asking_stateless(&record, flags);
        let call =
            stateless_call("generated_0", &json!({"path": "/tmp"}), &json!({"elicitation": {"form": {}}}));
        let asked = proxy.ask("tools/call", call.clone())["result"].take();
        let question = &asked["inputRequests"]["dynamic-mcp/confirm"];
        assert_eq!(
            (&question["method"], &question["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form"))
        );
        assert_eq!(question["params"]["requestedSchema"], json!({"type": "object", "properties": {}}));
        let message = question["params"]["message"].as_str().unwrap();
        for part in ["[g] ", "generated_0", r#"{"path":"/tmp"}"#] {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert_eq!(record.lines("tools/call").len(), 0, "before the user has answered");
        let done = proxy.ask("tools/call", again(&call, &asked, "accept"))["result"].take();
        assert_eq!(text_of(&done), r#"{"path":"/tmp"}"#, "{flags:?}");
        let seen = record.line("tools/call", 0).json();
        assert!(!seen.to_string().contains("request") && !seen.to_string().contains("confirm"), "{seen}");
    }
}

#[test]
fn consent_that_is_not_given_or_is_to_something_else_calls_nothing() {
    let record = Record::new();
    let mut proxy = asking_stateless(&record, &[]);
    let able = json!({"elicitation": {}});
    let call = stateless_call("generated_0", &json!({"n": 1}), &able);
    let asked = proxy.ask("tools/call", call.clone())["result"].take();
    for (action, part) in
        [("decline", "declined this call"), ("cancel", "dismissed this call"), ("whatever", "tools.ask")]
    {
        let result = proxy.ask("tools/call", again(&call, &asked, action))["result"].take();
        assert!(result["isError"] == true && text_of(&result).contains(part), "{action}: {result}");
    }
    let others = [
        stateless_call("generated_0", &json!({"n": 2}), &able),
        stateless_call("generated_1", &json!({"n": 1}), &able),
    ];
    for other in others {
        let result = proxy.ask("tools/call", again(&other, &asked, "accept"))["result"].take();
        assert_eq!(result["resultType"], "input_required", "asked anew: {result}");
    }
    let mut forged = again(&call, &asked, "accept");
    forged["requestState"] = json!(format!("{}:", asked["requestState"].as_str().unwrap()));
    assert_eq!(proxy.ask("tools/call", forged)["result"]["resultType"], "input_required");
    for unable in [json!({}), json!({"elicitation": {"url": {}}})] {
        let call = stateless_call("generated_0", &json!({}), &unable);
        let result = proxy.ask("tools/call", call)["result"].take();
        assert!(
            result["isError"] == true && text_of(&result).contains("can remove the tool from tools.ask"),
            "{result}"
        );
    }
    assert_eq!(record.lines("tools/call").len(), 0);
}

#[test]
fn what_the_upstream_asks_afterwards_is_not_confirmed_again() {
    let record = Record::new();
    let mut proxy = asking_stateless(&record, &["--stateless", "--protocol"]);
    let able = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
    let call = stateless_call("asks", &json!({"rounds": 2}), &able);
    let mut asked = proxy.ask("tools/call", call.clone())["result"].take();
    assert!(asked["inputRequests"]["dynamic-mcp/confirm"].is_object(), "{asked}");
    // The upstream refuses a state that is not its own to the letter.
    for round in 1..=2 {
        asked = proxy.ask("tools/call", again(&call, &asked, "accept"))["result"].take();
        assert!(asked["inputRequests"]["dynamic-mcp/confirm"].is_null(), "{round}: {asked}");
    }
    let done = proxy.ask("tools/call", again(&call, &asked, "accept"))["result"].take();
    assert_eq!(done["resultType"], "complete", "{done}");
    assert!(text_of(&done).contains("said") && !text_of(&done).contains("dynamic-mcp"), "{done}");
    assert_eq!(record.lines("tools/call").len(), 3);
}
