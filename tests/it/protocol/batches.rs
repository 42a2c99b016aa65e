//! Batches, which 2025-03-26 has and no other revision.

use serde_json::json;

use super::{client, heard, reply, send_tool};
use crate::support::{Proxy, servers, text_of, upstream};

fn batching() -> Proxy {
    let entry = upstream(&["--protocol", "--batches", "--version", "2025-03-26"]);
    client(&servers([("g", entry)]), json!({"roots": {}, "sampling": {}, "elicitation": {}}))
}

#[test]
fn notifications_and_the_answer_in_one_batch() {
    let mut proxy = batching();
    proxy.upstream_pid("g");
    let arguments = json!({"group": "g", "name": "progress", "args": {"n": 5}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "the token"}});
    let id = proxy.send("tools/call", params);
    for n in 1..=5 {
        let told = heard(&mut proxy, "notifications/progress").json();
        assert_eq!(
            (&told["params"]["progress"], &told["params"]["progressToken"]),
            (&json!(n), &json!("the token"))
        );
    }
    assert_eq!(text_of(&proxy.answer(id).json()["result"]), "done");
}

#[test]
fn answers_to_several_calls_in_one_batch() {
    let mut proxy = batching();
    proxy.upstream_pid("g");
    let calls = [(); 5].map(|()| proxy.send_call("g", "together", json!({"n": 5})));
    let mut answers = calls.map(|id| text_of(&proxy.answer(id).json()["result"]).to_owned());
    answers.sort();
    assert_eq!(answers, ["0", "1", "2", "3", "4"]);
}

#[test]
fn requests_to_the_client_in_one_batch() {
    let mut proxy = batching();
    proxy.upstream_pid("g");
    let call = send_tool(&mut proxy, "g", "asks", r#"{"kinds":"sampling,roots,elicitation"}"#);
    let methods = ["sampling/createMessage", "roots/list", "elicitation/create"];
    let asked = methods.map(|method| heard(&mut proxy, method));
    for (n, asked) in asked.iter().enumerate().rev() {
        reply(&mut proxy, asked, &format!(r#""result":{{"n":{n}.0}}"#));
    }
    let answer = proxy.answer(call).json();
    let text = text_of(&answer["result"]);
    for (n, kind) in ["sampling", "roots", "elicitation"].iter().enumerate() {
        assert!(text.contains(&format!(r#""{kind} ö/\"1\"":{{"n":{n}.0}}"#)), "{text}");
    }
}
