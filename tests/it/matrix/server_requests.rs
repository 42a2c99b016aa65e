//! What an upstream requests from the client: by a request of its own, or by an `input_required` result.

use serde_json::Value;

use super::session::Session;
use super::{Outcomes, is_stateless, not_applicable, passes_or_bridged, refused};
use crate::support::{Message, text_of};

pub(super) const METHODS: [&str; 6] = [
    "`roots/list`",
    "`sampling/createMessage`",
    "`elicitation/create`",
    "input for `prompts/get`",
    "input for `resources/read`",
    "`ping` from an upstream",
];

/// The params of the upstream's request.
const PARAMS: &str = r#"{"x":{"exact":1.10,"big":123456789012345678901234567890,"e":"\u00e9"}}"#;
/// The client's answer.
const ANSWER: &str = r#"{"action":"accept","roots":[],"exact":1.10,"e":"\u00e9"}"#;

pub(super) fn observe(session: &mut Session, upstream: &str) -> Outcomes {
    let mut outcomes: Vec<_> = ["roots/list", "sampling/createMessage", "elicitation/create"]
        .into_iter()
        .map(|method| {
            let args = format!(r#"{{"method":"{method}","params":{PARAMS}}}"#);
            let arguments = format!(r#"{{"group":"{upstream}","name":"ask","args":{args}}}"#);
            let members = format!(r#""name":"call_dynamic_tool","arguments":{arguments}"#);
            answer_input(session, upstream, "tools/call", &members)
        })
        .collect();
    let members = format!(r#""group":"{upstream}","name":"asks","arguments":{{"kinds":"roots"}}"#);
    outcomes.push(answer_input(session, upstream, "prompts/get", &members));
    let members = format!(r#""group":"{upstream}","uri":"mem://asks/roots""#);
    outcomes.push(answer_input(session, upstream, "resources/read", &members));
    outcomes.push(ping(session, upstream));
    METHODS.into_iter().zip(outcomes).collect()
}

/// Sends a request for which the upstream requests input once, gives the input, and returns the outcome.
fn answer_input(session: &mut Session, upstream: &str, method: &str, members: &str) -> String {
    let mut id = session.send_request(method, "", members).to_string();
    let (mut requests, mut results) = (0, 0);
    let last = loop {
        let message = session.next_message();
        if message.method().is_some() {
            if message.id().is_some() {
                requests += 1;
                session.proxy.respond(&message, &format!(r#""result":{ANSWER}"#));
            }
            continue;
        }
        if message.id() != Some(&id) {
            continue;
        }
        let result = message.json()["result"].take();
        if result["resultType"] != "input_required" {
            break message;
        }
        results += 1;
        let keys = result["inputRequests"].as_object().unwrap().keys();
        let answers: Vec<_> = keys.map(|key| format!("{}:{ANSWER}", Value::from(key.clone()))).collect();
        let state = &result["requestState"];
        let retry = format!(r#"{members},"inputResponses":{{{}}},"requestState":{state}"#, answers.join(","));
        id = session.send_request(method, "", &retry).to_string();
    };
    if requests + results == 0 {
        return refusal(&last);
    }
    assert_eq!(requests + results, 1, "{}", last.line);
    // The result has the answer as text, with escaped quotes.
    let quoted = Value::from(ANSWER).to_string();
    assert!(last.line.contains(quoted.trim_matches('"')), "{quoted} in {}", last.line);
    passes_or_bridged((results > 0) == is_stateless(upstream))
}

/// The outcome if the client got no request: the error that the upstream or the client got instead.
fn refusal(last: &Message) -> String {
    if let Some(code) = last.error_code() {
        return refused(code);
    }
    let result = &last.json()["result"];
    let texts = [
        &result["content"][0]["text"],
        &result["messages"][0]["content"]["text"],
        &result["contents"][0]["text"],
    ];
    let text = texts.into_iter().find_map(Value::as_str).unwrap_or_default();
    match text.split(r#""code":"#).nth(1) {
        Some(rest) => refused(rest.split([',', '}']).next().unwrap_or_default()),
        None if result["isError"] == true => "refused".to_owned(),
        None if text.contains(r#""decline""#) => "declined".to_owned(),
        None => panic!("the client was not asked, and nothing was refused: {}", last.line),
    }
}

fn ping(session: &mut Session, upstream: &str) -> String {
    if is_stateless(upstream) {
        return not_applicable();
    }
    let id = session.send_call(upstream, "ask", r#"{"method":"ping"}"#, "", "");
    let response = session.proxy.response(id).json();
    assert!(text_of(&response["result"]).ends_with(r#""result":{}}"#), "{response}");
    "answered here".to_owned()
}
