//! A call whose server asks the user many questions: three are open at a time, 32 more wait, the rest are refused. In
//! every combination of eras.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{
    InputRecord, Message, Proxy, ProxyCommand, pure_config, scripted_upstream, text_of, wait_until,
};

/// How many questions may be open, and how many there may be in all.
const OPEN: usize = 3;
const ADMITTED: usize = 35;

/// A session without messages so far, whose upstream has these flags.
fn start(flags: &[&str]) -> Proxy {
    start_with(scripted_upstream(&[&["--protocol"], flags].concat()))
}

fn start_with(entry: Value) -> Proxy {
    ProxyCommand::new().config(&pure_config([("g", entry)])).start()
}

fn capabilities() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// The params of a call whose tool asks this many questions.
fn call_params(questions: usize) -> Value {
    let kinds: Vec<_> = (0..questions).map(|n| format!("question {n}")).collect();
    json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": "asks", "args": {"kinds": kinds}}})
}

fn next_question(proxy: &mut Proxy) -> Message {
    proxy.wait_for_message("elicitation/create")
}

fn accept(proxy: &mut Proxy, question: &Message) {
    proxy.respond(question, r#""result":{"action":"accept","content":{}}"#);
}

/// Answers `waiting` questions that are not open yet, and then the open ones.
fn answer_all(proxy: &mut Proxy, mut open: Vec<Message>, waiting: usize) {
    for _ in 0..waiting {
        accept(proxy, &open.remove(0));
        open.push(next_question(proxy));
        assert_no_question(proxy);
    }
    open.iter().for_each(|question| accept(proxy, question));
}

/// Calls the tool again with answers to what its result asks, until it is complete. Returns that result, and the number
/// of questions in each result before it.
fn answer_stateless(proxy: &mut Proxy, questions: usize) -> (Value, Vec<usize>) {
    let mut params = call_params(questions);
    let mut counts = Vec::new();
    loop {
        let id = proxy.send_stateless_request(&capabilities(), "tools/call", params.clone());
        let mut response = proxy.response(id).json();
        let Some(asked) = response["result"]["inputRequests"].as_object().cloned() else {
            return (response, counts);
        };
        counts.push(asked.len());
        params["requestState"] = response["result"]["requestState"].take();
        params["inputResponses"] =
            asked.keys().map(|key| (key.clone(), json!({"action": "accept"}))).collect();
    }
}

/// Asserts that the user is asked nothing more. Lists of tools may change meanwhile.
fn assert_no_question(proxy: &mut Proxy) {
    let ping = proxy.send_request("ping", json!({})).to_string();
    while let Some(message) = proxy.next_message().filter(|message| message.id() != Some(&ping)) {
        assert_ne!(message.method(), Some("elicitation/create"), "{}", message.line);
    }
}

#[test]
fn questions_of_a_handshake_server_wait_and_too_many_are_refused() {
    let record = InputRecord::new();
    let mut proxy = start_with(record.attached_to(scripted_upstream(&["--protocol"])));
    proxy.handshake_with(capabilities());
    let call = proxy.send_request("tools/call", call_params(ADMITTED + 5));
    let open: Vec<_> = (0..OPEN).map(|_| next_question(&mut proxy)).collect();
    let refusal = "too many questions of group g wait for the user; ask again when some are answered";
    let refused = || record.lines().iter().filter(|line| line.contains(refusal)).count();
    wait_until("the upstream gets five errors", || refused() == 5);
    assert_no_question(&mut proxy);
    answer_all(&mut proxy, open, ADMITTED - OPEN);
    let result = proxy.response(call).json()["result"].take();
    assert_eq!(text_of(&result).matches("accept").count(), ADMITTED, "{result}");
    assert_eq!(refused(), 5);
}

#[test]
fn questions_of_a_stateless_server_wait() {
    let mut proxy = start(&["--stateless"]);
    proxy.handshake_with(capabilities());
    let call = proxy.send_request("tools/call", call_params(8));
    let open: Vec<_> = (0..OPEN).map(|_| next_question(&mut proxy)).collect();
    assert_no_question(&mut proxy);
    answer_all(&mut proxy, open, 8 - OPEN);
    let result = proxy.response(call).json()["result"].take();
    assert_eq!(text_of(&result).matches("accept").count(), 8, "{result}");
}

#[test]
fn a_call_of_a_stateless_server_with_too_many_questions_fails() {
    let mut proxy = start(&["--stateless"]);
    proxy.handshake_with(capabilities());
    let call = proxy.send_request("tools/call", call_params(ADMITTED + 1));
    let error = proxy.response(call).json()["error"].take();
    assert!(error["message"].as_str().unwrap().starts_with("too many questions of group g"), "{error}");
    assert_no_question(&mut proxy);
    let next = proxy.send_request("tools/call", call_params(1));
    let question = next_question(&mut proxy);
    accept(&mut proxy, &question);
    assert!(proxy.response(next).json()["result"]["content"].is_array(), "the places are free again");
}

#[test]
fn a_stateless_client_is_asked_a_few_questions_at_a_time() {
    for flags in [&[][..], &["--stateless"]] {
        let mut proxy = start(flags);
        let (response, counts) = answer_stateless(&mut proxy, 8);
        assert!(counts.iter().all(|count| (1..=OPEN).contains(count)), "{flags:?}: {counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 8, "{flags:?}: {counts:?}");
        assert_eq!(text_of(&response["result"]).matches("accept").count(), 8, "{flags:?}: {response}");
    }
}

#[test]
fn a_few_questions_of_a_stateless_server_reach_a_stateless_client_unchanged() {
    let mut proxy = start(&["--stateless"]);
    let id = proxy.send_stateless_request(&capabilities(), "tools/call", call_params(OPEN));
    let result = proxy.response(id).json()["result"].take();
    let keys: BTreeSet<_> = result["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, (0..OPEN).map(|n| format!("question {n} ö/\"1\"")).collect());
    assert!(result["requestState"].as_str().unwrap().contains("\"round\":1"), "{result}");
}
