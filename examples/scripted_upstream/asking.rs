//! What the server wants to know of its client: by requests, or by a result that wants the request again with more in it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::Server;
use crate::stateless::{refuse_incapable, with_meta};
use crate::wire::quote;

/// A request to the client.
pub(crate) struct Question {
    /// Names it among those that are asked together.
    pub(crate) key: String,
    pub(crate) method: String,
    /// Bytes; empty: none.
    pub(crate) params: String,
}

/// The questions of these kinds: `elicitation`, `sampling`, `roots`; all of them where none is named.
pub(crate) fn questions<'a>(kinds: impl Iterator<Item = &'a str>) -> Vec<Question> {
    let kinds: Vec<&str> = kinds.filter(|kind| !kind.is_empty()).collect();
    let kinds = if kinds.is_empty() { vec!["elicitation", "sampling", "roots"] } else { kinds };
    let rest =
        r#""x-unknown":{"exact":1.10,"big":123456789012345678901234567890,"null":null,"":"ö \u00f6 \/"}"#;
    let question = |kind: &str| match kind {
        "sampling" => (
            "sampling/createMessage",
            format!(
                r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"caf\u00e9?"}}}}],"maxTokens":100,{rest}}}"#
            ),
        ),
        "roots" => ("roots/list", String::new()),
        _ => (
            "elicitation/create",
            format!(
                r#"{{"mode":"form","message":"Who \u00e9?","requestedSchema":{{"type":"object","properties":{{"name":{{"type":"string"}}}}}},{rest}}}"#
            ),
        ),
    };
    let named = kinds.into_iter().map(|kind| (kind, question(kind)));
    named
        .map(|(kind, (method, params))| Question {
            key: format!("{kind} ö/\"1\""),
            method: method.to_owned(),
            params,
        })
        .collect()
}

/// The capability that a client needs to be asked this.
fn required(method: &str) -> &'static str {
    match method {
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => "elicitation",
    }
}

/// What a client must send back unchanged, whatever it thinks it is.
fn state(round: u64) -> String {
    format!("\u{0}\u{1f}{{\"round\":{round}}} \\u0041 \" \\ / é \u{2028} 😀 \u{7f}+/=%00\t\n")
}

#[derive(Deserialize)]
struct Retry<'a> {
    #[serde(borrow, rename = "requestState")]
    state: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<&'a RawValue>,
}

/// The answers to `questions` as one object, once the client was asked `rounds` times; `None` where that is not yet so,
/// and the request was answered accordingly. Waits for the client if it is one of the handshake era.
pub(crate) fn inputs(
    server: &Server,
    id: &str,
    params: &str,
    questions: &[Question],
    rounds: u64,
) -> Option<String> {
    let Some(capabilities) = server.wire.stateless.capabilities(id) else {
        return Some(asked(server, questions, rounds));
    };
    let missing = questions.iter().find(|question| capabilities.get(required(&question.method)).is_none());
    if let Some(question) = missing {
        refuse_incapable(server, id, &json!({required(&question.method): {}}));
        return None;
    }
    let retry: Retry<'_> = serde_json::from_str(params).unwrap_or(Retry { state: None, responses: None });
    let round = match &retry.state {
        None => 0,
        Some(given) => match (1..=rounds).find(|round| *given == state(*round)) {
            Some(round) => round,
            None => {
                server.wire.error(id, r#"{"code":-32602,"message":"Invalid requestState"}"#);
                return None;
            }
        },
    };
    let responses = retry.responses.map_or("{}", RawValue::get);
    let given: HashMap<String, &RawValue> = serde_json::from_str(responses).unwrap_or_default();
    let all_given = questions.iter().all(|question| given.contains_key(&question.key));
    if round == rounds && all_given {
        return Some(responses.to_owned());
    }
    let next = if all_given || round == 0 { round + 1 } else { round };
    server.wire.result(id, &input_required(questions, next));
    None
}

/// The questions as an object: each under its key.
pub(crate) fn requests(questions: &[Question]) -> String {
    let each = questions.iter().map(|question| {
        let (key, method) = (quote(&question.key), quote(&question.method));
        let params = match &*question.params {
            "" => String::new(),
            params => format!(r#","params":{params}"#),
        };
        format!(r#"{key}:{{"method":{method}{params}}}"#)
    });
    format!("{{{}}}", each.collect::<Vec<_>>().join(","))
}

fn input_required(questions: &[Question], round: u64) -> String {
    let (requests, state) = (requests(questions), quote(&state(round)));
    format!(
        r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{state},"x-unknown":1.10}}"#
    )
}

/// The same by requests.
fn asked(server: &Server, questions: &[Question], rounds: u64) -> String {
    let mut answers = "{}".to_owned();
    for _ in 0..rounds {
        answers = answers_to(server, questions, None);
    }
    answers
}

/// Sends all the requests, then waits for their answers: an object of results, or of errors in their place. `task` is
/// the id, as JSON, of the task that wants to know.
pub(crate) fn answers_to(server: &Server, questions: &[Question], task: Option<&str>) -> String {
    let related = task.map(|task| format!(r#""io.modelcontextprotocol/related-task":{{"taskId":{task}}}"#));
    let mut waiting = Vec::new();
    server.wire.together(|| {
        for question in questions {
            let params = if question.params.is_empty() { "{}" } else { &question.params };
            let params = match &related {
                Some(related) => Cow::from(with_meta(params, related)),
                None => params.into(),
            };
            waiting.push((&question.key, server.start_asking(&question.method, &params)));
        }
    });
    let answers = waiting.into_iter().map(|(key, answer)| {
        let line = answer.recv().unwrap_or_default();
        let members: HashMap<String, &RawValue> = serde_json::from_str(&line).unwrap_or_default();
        let said = members.get("result").or_else(|| members.get("error")).map_or("null", |said| said.get());
        format!("{}:{said}", quote(key))
    });
    format!("{{{}}}", answers.collect::<Vec<_>>().join(","))
}

/// The names in a text or a list of texts.
pub(crate) fn kinds(given: &Value) -> Vec<String> {
    match given {
        Value::String(text) => text.split([',', '/']).map(str::to_owned).collect(),
        Value::Array(names) => names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
        _ => Vec::new(),
    }
}
