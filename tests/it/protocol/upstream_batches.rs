//! Batches from upstreams, which only revision 2025-03-26 has.

use serde_json::json;

use crate::support::{Proxy, pure_config, scripted_upstream, text_of};

/// A session with an upstream that sends its messages in batches.
fn batching_proxy() -> Proxy {
    let entry = scripted_upstream(&["--protocol", "--batches", "--version", "2025-03-26"]);
    Proxy::with_capabilities(
        &pure_config([("g", entry)]),
        json!({"roots": {}, "sampling": {}, "elicitation": {}}),
    )
}

#[test]
fn notifications_and_their_response_may_be_in_one_batch() {
    let mut proxy = batching_proxy();
    proxy.upstream_pid("g");
    let arguments = json!({"group": "g", "name": "progress", "args": {"n": 5}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "the token"}});
    let id = proxy.send_request("tools/call", params);
    for n in 1..=5 {
        let notification = proxy.wait_for_message("notifications/progress").json();
        assert_eq!(
            (&notification["params"]["progress"], &notification["params"]["progressToken"]),
            (&json!(n), &json!("the token"))
        );
    }
    assert_eq!(text_of(&proxy.response(id).json()["result"]), "done");
}

#[test]
fn responses_to_several_calls_may_be_in_one_batch() {
    let mut proxy = batching_proxy();
    proxy.upstream_pid("g");
    let calls = [(); 5].map(|()| proxy.send_call("g", "together", json!({"n": 5})));
    let mut texts = calls.map(|id| text_of(&proxy.response(id).json()["result"]).to_owned());
    texts.sort();
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
}

#[test]
fn requests_to_the_client_may_be_in_one_batch() {
    let mut proxy = batching_proxy();
    proxy.upstream_pid("g");
    let call = proxy.send_raw_call("g", "asks", r#"{"kinds":"sampling,roots,elicitation"}"#);
    let methods = ["sampling/createMessage", "roots/list", "elicitation/create"];
    let requests = methods.map(|method| proxy.wait_for_message(method));
    for (n, request) in requests.iter().enumerate().rev() {
        proxy.respond(request, &format!(r#""result":{{"n":{n}.0}}"#));
    }
    let response = proxy.response(call).json();
    let text = text_of(&response["result"]);
    for (n, kind) in ["sampling", "roots", "elicitation"].iter().enumerate() {
        assert!(text.contains(&format!(r#""{kind} ö/\"1\"":{{"n":{n}.0}}"#)), "{text}");
    }
}
