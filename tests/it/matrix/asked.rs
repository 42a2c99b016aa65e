//! What an upstream wants to know of the client, by a request or by a result.

use serde_json::Value;

use super::session::Session;
use super::{Outcomes, by_form, is_stateless, refused};
use crate::support::{Message, text_of};

pub(super) const METHODS: [&str; 6] = [
    "`roots/list`",
    "`sampling/createMessage`",
    "`elicitation/create`",
    "what `prompts/get` asks",
    "what `resources/read` asks",
    "`ping` of an upstream",
];

const PARAMS: &str = r#"{"x":{"exact":1.10,"big":123456789012345678901234567890,"e":"\u00e9"}}"#;
const ANSWER: &str = r#"{"action":"accept","roots":[],"exact":1.10,"e":"\u00e9"}"#;

pub(super) fn probe(session: &mut Session, upstream: &str) -> Outcomes {
    let mut outcomes: Vec<_> = ["roots/list", "sampling/createMessage", "elicitation/create"]
        .into_iter()
        .map(|method| {
            let args = format!(r#"{{"method":"{method}","params":{PARAMS}}}"#);
            let arguments = format!(r#"{{"group":"{upstream}","name":"ask","args":{args}}}"#);
            let members = format!(r#""name":"call_dynamic_tool","arguments":{arguments}"#);
            exchange(session, upstream, "tools/call", &members, 1)
        })
        .collect();
    let members = format!(r#""group":"{upstream}","name":"asks","arguments":{{"kinds":"roots"}}"#);
    outcomes.push(exchange(session, upstream, "prompts/get", &members, 1));
    let members = format!(r#""group":"{upstream}","uri":"mem://asks/roots""#);
    outcomes.push(exchange(session, upstream, "resources/read", &members, 1));
    outcomes.push(ping(session, upstream));
    METHODS.into_iter().zip(outcomes).collect()
}

/// Sends a request, answers what the client is asked because of it, and tells how that went.
fn exchange(session: &mut Session, upstream: &str, method: &str, members: &str, rounds: usize) -> String {
    let mut id = session.send(method, "", members).to_string();
    let (mut by_request, mut by_result) = (0, 0);
    let last = loop {
        let message = session.next();
        if message.method().is_some() {
            if let Some(asked) = message.id() {
                by_request += 1;
                session.proxy.line(&format!(r#"{{"jsonrpc":"2.0","id":{asked},"result":{ANSWER}}}"#));
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
        by_result += 1;
        let answers: Vec<_> = result["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| format!("{}:{ANSWER}", Value::from(key.clone())))
            .collect();
        let state = &result["requestState"];
        let retry = format!(r#"{members},"inputResponses":{{{}}},"requestState":{state}"#, answers.join(","));
        id = session.send(method, "", &retry).to_string();
    };
    judge(&last, upstream, by_request, by_result, rounds)
}

fn judge(last: &Message, upstream: &str, by_request: usize, by_result: usize, rounds: usize) -> String {
    if by_request + by_result == 0 {
        return declined(last);
    }
    assert_eq!(by_request + by_result, rounds, "{}", last.line);
    // It is in there as text, with its quotes escaped.
    let quoted = Value::from(ANSWER).to_string();
    let arrived = last.line.contains(quoted.trim_matches('"'));
    assert!(arrived, "{quoted} in {}", last.line);
    by_form((by_result > 0) == is_stateless(upstream))
}

/// The client was asked nothing: what the upstream, or the client, heard instead.
fn declined(last: &Message) -> String {
    if let Some(code) = last.code() {
        return refused(code);
    }
    let result = &last.json()["result"];
    let texts = [
        &result["content"][0]["text"],
        &result["messages"][0]["content"]["text"],
        &result["contents"][0]["text"],
    ];
    let said = texts.into_iter().find_map(Value::as_str).unwrap_or_default();
    match said.split(r#""code":"#).nth(1) {
        Some(rest) => refused(rest.split([',', '}']).next().unwrap_or_default()),
        None if result["isError"] == true => "refused".to_owned(),
        None if said.contains(r#""decline""#) => "declined".to_owned(),
        None => panic!("nobody was asked, and yet: {}", last.line),
    }
}

fn ping(session: &mut Session, upstream: &str) -> String {
    if is_stateless(upstream) {
        return "–".to_owned();
    }
    let id = session.send_call(upstream, "ask", r#"{"method":"ping"}"#, "", "");
    let answer = session.proxy.answer(id).json();
    assert!(text_of(&answer["result"]).ends_with(r#""result":{}}"#), "{answer}");
    "answered here".to_owned()
}
