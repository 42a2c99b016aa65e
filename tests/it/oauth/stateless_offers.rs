//! Logins that are offered to a client without a handshake, as an `input_required` result.

use serde_json::{Value, json};

use super::fixture::{Fixture, complete_in_browser};
use super::offered_logins::{result, url_in};
use crate::support::{Proxy, text_of};

/// Sends a call of the tool `echo` for a stateless client with these capabilities. Returns the id of the request.
fn send_stateless_echo(proxy: &mut Proxy, capabilities: &Value, members: &Value) -> u64 {
    let arguments = json!({"group": "g", "name": "echo", "args": {"text": "in"}});
    let mut params = json!({"name": "call_dynamic_tool", "arguments": arguments});
    params.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    proxy.send_stateless_request(capabilities, "tools/call", params)
}

#[test]
fn a_stateless_client_gets_the_question_in_the_result() {
    let fixture = Fixture::new();
    let mut proxy = fixture.stateless_proxy();
    let capabilities = json!({"elicitation": {"url": {}}});
    let call = send_stateless_echo(&mut proxy, &capabilities, &json!({}));
    let first_result = result(&mut proxy, call);
    assert_eq!(first_result["resultType"], "input_required", "{first_result}");
    let (key, question) = first_result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    assert!(question["params"]["message"].as_str().unwrap().starts_with("[g] "));
    assert_eq!(question["params"]["elicitationId"], Value::Null, "this revision has no ids");
    let response =
        json!({"requestState": first_result["requestState"], "inputResponses": {key: {"action": "accept"}}});
    let call = send_stateless_echo(&mut proxy, &capabilities, &response);
    complete_in_browser(question["params"]["url"].as_str().unwrap());
    let done = result(&mut proxy, call);
    assert_eq!((text_of(&done), &done["resultType"]), ("in", &json!("complete")));
    proxy.assert_no_message();
}

#[test]
fn a_stateless_client_without_url_elicitation_gets_the_url_as_text() {
    let fixture = Fixture::new();
    let mut proxy = fixture.stateless_proxy();
    let call = send_stateless_echo(&mut proxy, &json!({"elicitation": {"form": {}}}), &json!({}));
    let failure = result(&mut proxy, call);
    assert_eq!(failure["isError"], true);
    complete_in_browser(url_in(text_of(&failure)));
}
