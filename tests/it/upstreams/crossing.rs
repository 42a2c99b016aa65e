//! Servers of one era that ask clients of the other.

use serde_json::{Value, json};

use crate::protocol::Record;
use crate::support::{Proxy, Setup, servers, text_of, upstream};

fn able() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
}

/// A session with a handshake of a client that can be asked, and a stateless server.
fn from_a_handshake() -> Proxy {
    let mut proxy = Setup::new().config(&servers([("g", upstream(&["--stateless", "--protocol"]))])).start();
    let info = json!({"name": "e2e", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": able(), "clientInfo": info});
    proxy.ask("initialize", params);
    proxy.notify("notifications/initialized", json!({}));
    proxy
}

/// A client without a handshake, and a server with one.
fn to_a_handshake() -> Proxy {
    Setup::new().config(&servers([("g", upstream(&["--protocol"]))])).start()
}

fn call(name: &str, args: Value) -> Value {
    json!({"name": "call_dynamic_tool", "arguments": {"group": "g", "name": name, "args": args}})
}

/// The result of a stateless request of a client that can be asked.
fn stateless(proxy: &mut Proxy, params: Value) -> Value {
    let id = proxy.send_stateless(&able(), "tools/call", params);
    proxy.answer(id).json()["result"].take()
}

#[test]
fn a_client_with_a_handshake_gets_requests_for_what_a_stateless_server_needs() {
    let mut proxy = from_a_handshake();
    let call = proxy.send("tools/call", call("asks", json!({"rounds": 2})));
    // Two rounds of three questions.
    for n in 0..6 {
        let asked = loop {
            let message = proxy.next().unwrap();
            if message.method().is_some_and(|method| !method.starts_with("notifications/")) {
                break message;
            }
        };
        if asked.method() == Some("elicitation/create") {
            assert!(
                asked.json()["params"]["message"].as_str().unwrap().starts_with("[g] "),
                "{}",
                asked.line
            );
        }
        proxy.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"n":{n}.50}}}}"#, asked.id().unwrap()));
    }
    let answer = proxy.answer(call).json();
    let text = text_of(&answer["result"]);
    assert!(["3.50", "4.50", "5.50"].iter().all(|said| text.contains(said)), "as they were said: {text}");
}

#[test]
fn what_the_client_refuses_is_told_to_it() {
    let mut proxy = from_a_handshake();
    let call = proxy.send("tools/call", call("asks", json!({"kinds": "roots"})));
    let asked = loop {
        let message = proxy.next().unwrap();
        if message.method() == Some("roots/list") {
            break message;
        }
    };
    let error = r#"{"code":-7,"message":"no"}"#;
    proxy.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, asked.id().unwrap()));
    assert_eq!(proxy.answer(call).raw("error"), Some(error));
}

#[test]
fn a_stateless_client_is_asked_by_the_answer_and_comes_again() {
    let mut proxy = to_a_handshake();
    let asks = |more: Value| {
        let mut params = call("asks", json!({"rounds": 2}));
        params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        params
    };
    let mut result = stateless(&mut proxy, asks(json!({})));
    for round in 0..10 {
        if result["resultType"] == "complete" {
            assert!(text_of(&result).contains("said"), "{result}");
            assert!(round > 0, "it asked");
            return;
        }
        let requests = result["inputRequests"].as_object().unwrap();
        let answers = requests.keys().map(|key| (key.clone(), json!({"said": round})));
        let answers = Value::Object(answers.collect());
        result = stateless(
            &mut proxy,
            asks(json!({"requestState": result["requestState"], "inputResponses": answers})),
        );
    }
    panic!("it asks without end: {result}");
}

#[test]
fn only_what_was_answered_is_not_asked_again() {
    let mut proxy = to_a_handshake();
    let asked = stateless(&mut proxy, call("asks", json!({"kinds": "roots"})));
    let mut again = call("asks", json!({"kinds": "roots"}));
    again["requestState"] = asked["requestState"].clone();
    let once_more = stateless(&mut proxy, again);
    assert_eq!(once_more["inputRequests"], asked["inputRequests"], "nothing was answered");
    assert_ne!(once_more["requestState"], asked["requestState"]);
}

#[test]
fn who_comes_too_late_or_with_anothers_ticket_is_refused() {
    let mut proxy = to_a_handshake();
    let asked = stateless(&mut proxy, call("asks", json!({"kinds": "roots"})));
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut again = call("asks", json!({"kinds": "roots"}));
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({key: {"roots": []}});
    assert_eq!(stateless(&mut proxy, again.clone())["resultType"], "complete");
    let id = proxy.send_stateless(&able(), "tools/call", again);
    assert_eq!(proxy.answer(id).code(), Some(-32602), "it was answered already");
}

#[test]
fn who_did_not_say_that_it_can_be_asked_is_not() {
    let mut proxy = to_a_handshake();
    // The server was told of the first request's client; this one cannot be asked.
    stateless(&mut proxy, call("echo", json!({"text": "x"})));
    let answer = proxy.stateless("tools/call", call("asks", json!({"kinds": "roots"})));
    assert!(answer["result"].to_string().contains("-32601"), "{answer}");
}

#[test]
fn a_call_that_waits_ends_with_its_server() {
    let mut proxy = to_a_handshake();
    let asked = stateless(&mut proxy, call("asks", json!({"kinds": "roots"})));
    proxy.stateless("tools/call", call("crash", json!({})));
    let mut again = call("asks", json!({"kinds": "roots"}));
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"1": {"roots": []}});
    let result = stateless(&mut proxy, again);
    assert_eq!(result["isError"], true, "{result}");
    assert!(text_of(&result).contains("was lost"), "{result}");
}

#[test]
fn what_a_client_can_do_is_what_the_call_says_that_is_open() {
    let mut proxy = to_a_handshake();
    // The first request says that it cannot be asked.
    proxy.stateless("tools/call", call("echo", json!({"text": "x"})));
    let asked = stateless(&mut proxy, call("asks", json!({"kinds": "roots"})));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
}

#[test]
fn servers_are_offered_what_any_request_declared_until_they_connect() {
    let record = Record::new();
    let config = servers([("g", record.of(upstream(&["--protocol"])))]);
    let mut proxy = Setup::new().config(&config).start();
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}}), able(), json!({"x": {}})] {
        let id = proxy.send_stateless(&capabilities, "tools/list", json!({}));
        proxy.answer(id);
    }
    proxy.stateless("tools/call", call("echo", json!({"text": "x"})));
    let greeting = record.line("initialize", 0).json();
    let offered = json!({"roots": {}, "sampling": {}, "elicitation": {"url": {}, "form": {}}});
    assert_eq!(greeting["params"]["capabilities"], offered);
}

#[test]
fn a_question_is_not_given_to_a_call_that_waits_for_its_client() {
    let mut proxy = to_a_handshake();
    let kinds = |rounds: u32| call("asks", json!({"kinds": "roots", "rounds": rounds}));
    let again = |asked: &Value, rounds: u32| {
        let mut params = kinds(rounds);
        params["requestState"] = asked["requestState"].clone();
        let keys = asked["inputRequests"].as_object().unwrap().keys();
        params["inputResponses"] =
            Value::Object(keys.map(|key| (key.clone(), json!({"roots": []}))).collect());
        params
    };
    let first = stateless(&mut proxy, kinds(2));
    let second = stateless(&mut proxy, kinds(1));
    // The first one asks once more, while the second one waits.
    let asked = stateless(&mut proxy, again(&first, 2));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(stateless(&mut proxy, again(&asked, 2))["resultType"], "complete");
    assert_eq!(stateless(&mut proxy, again(&second, 1))["resultType"], "complete");
}

#[test]
fn what_its_asker_took_back_is_not_shown() {
    let mut proxy = to_a_handshake();
    let asked = stateless(&mut proxy, call("ask", json!({"method": "roots/list"})));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    stateless(&mut proxy, call("cancel_asked", json!({})));
    let mut again = call("ask", json!({"method": "roots/list"}));
    again["requestState"] = asked["requestState"].clone();
    let result = stateless(&mut proxy, again);
    assert_eq!(result["resultType"], "complete", "not asked again: {result}");
}

#[test]
fn a_server_that_wants_nothing_but_to_be_asked_again_is_not_asked_at_once() {
    let record = Record::new();
    let config = servers([("g", record.of(upstream(&["--stateless", "--protocol"])))]);
    let mut proxy = Proxy::new(&config);
    let later = json!({"resultType": "input_required", "requestState": "later"});
    proxy.send("prompts/get", json!({"group": "g", "name": "greet", "x-result": later}));
    record.line("prompts/get", 2);
    proxy.text("g", "sleep", json!({"ms": 300}));
    let asked = record.lines("prompts/get").len();
    assert!(asked < 6, "{asked} times within half a second");
}
