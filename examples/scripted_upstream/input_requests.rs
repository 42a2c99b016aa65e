//! Input from the client: by requests to it in the handshake era, by `input_required` results in the stateless one.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::Server;
use crate::stateless::{send_missing_capability, with_meta};
use crate::wire::quote;

/// A request to the client.
pub(crate) struct InputRequest {
    /// Names it among those that are sent together.
    pub(crate) key: String,
    pub(crate) method: String,
    /// JSON. Empty: there are none.
    pub(crate) params: String,
}

/// The requests of these kinds: `elicitation`, `sampling`, `roots`. All of them if none is named.
pub(crate) fn of_kinds<'a>(kinds: impl Iterator<Item = &'a str>) -> Vec<InputRequest> {
    let kinds: Vec<&str> = kinds.filter(|kind| !kind.is_empty()).collect();
    let kinds = if kinds.is_empty() { vec!["elicitation", "sampling", "roots"] } else { kinds };
    let unknown_member =
        r#""x-unknown":{"exact":1.10,"big":123456789012345678901234567890,"null":null,"":"ö \u00f6 \/"}"#;
    let request = |kind: &str| match kind {
        "sampling" => (
            "sampling/createMessage",
            format!(
                r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"caf\u00e9?"}}}}],"maxTokens":100,{unknown_member}}}"#
            ),
        ),
        "roots" => ("roots/list", String::new()),
        _ => (
            "elicitation/create",
            format!(
                r#"{{"mode":"form","message":"Who \u00e9?","requestedSchema":{{"type":"object","properties":{{"name":{{"type":"string"}}}}}},{unknown_member}}}"#
            ),
        ),
    };
    let requests = kinds.into_iter().map(|kind| (kind, request(kind)));
    requests
        .map(|(kind, (method, params))| InputRequest {
            key: format!("{kind} ö/\"1\""),
            method: method.to_owned(),
            params,
        })
        .collect()
}

/// The client capability that a request of this method needs.
fn required_capability(method: &str) -> &'static str {
    match method {
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => "elicitation",
    }
}

/// A `requestState` that is hard to return unchanged.
fn request_state(round: u64) -> String {
    format!("\u{0}\u{1f}{{\"round\":{round}}} \\u0041 \" \\ / é \u{2028} 😀 \u{7f}+/=%00\t\n")
}

#[derive(Deserialize)]
struct Retry<'a> {
    #[serde(borrow, rename = "requestState")]
    state: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "inputResponses")]
    responses: Option<&'a RawValue>,
}

/// Returns the client's responses as one object, after `rounds` rounds of `requests`.
///
/// In the handshake era this waits for the client. In the stateless one it returns `None` if a round is missing, or if
/// the request `id` is wrong: then the request is answered already.
pub(crate) fn responses(
    server: &Server,
    id: &str,
    params: &str,
    requests: &[InputRequest],
    rounds: u64,
) -> Option<String> {
    let Some(capabilities) = server.wire.stateless.capabilities(id) else {
        let mut responses = "{}".to_owned();
        for _ in 0..rounds {
            responses = send_and_wait(server, requests, None);
        }
        return Some(responses);
    };
    let is_missing =
        |request: &&InputRequest| capabilities.get(required_capability(&request.method)).is_none();
    if let Some(request) = requests.iter().find(is_missing) {
        send_missing_capability(server, id, &json!({required_capability(&request.method): {}}));
        return None;
    }
    let retry: Retry<'_> = serde_json::from_str(params).unwrap_or(Retry { state: None, responses: None });
    let round = match &retry.state {
        None => 0,
        Some(state) => match (1..=rounds).find(|round| *state == request_state(*round)) {
            Some(round) => round,
            None => {
                server.wire.error(id, r#"{"code":-32602,"message":"Invalid requestState"}"#);
                return None;
            }
        },
    };
    let responses = retry.responses.map_or("{}", RawValue::get);
    let by_key: HashMap<String, &RawValue> = serde_json::from_str(responses).unwrap_or_default();
    let is_complete = requests.iter().all(|request| by_key.contains_key(&request.key));
    if round == rounds && is_complete {
        return Some(responses.to_owned());
    }
    let next_round = if is_complete || round == 0 { round + 1 } else { round };
    server.wire.result(id, &input_required(requests, next_round));
    None
}

/// The requests as an object, each under its key.
pub(crate) fn to_json(requests: &[InputRequest]) -> String {
    let members = requests.iter().map(|request| {
        let (key, method) = (quote(&request.key), quote(&request.method));
        let params = match &*request.params {
            "" => String::new(),
            params => format!(r#","params":{params}"#),
        };
        format!(r#"{key}:{{"method":{method}{params}}}"#)
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn input_required(requests: &[InputRequest], round: u64) -> String {
    let (requests, state) = (to_json(requests), quote(&request_state(round)));
    format!(
        r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{state},"x-unknown":1.10}}"#
    )
}

/// Sends all requests, waits for the responses and returns them as an object of results, or errors in their place.
///
/// `task` is the id, as JSON, of the task that needs them.
pub(crate) fn send_and_wait(server: &Server, requests: &[InputRequest], task: Option<&str>) -> String {
    let related_task =
        task.map(|task| format!(r#""io.modelcontextprotocol/related-task":{{"taskId":{task}}}"#));
    let mut pending = Vec::new();
    server.wire.batch(|| {
        for request in requests {
            let params = if request.params.is_empty() { "{}" } else { &request.params };
            let params = match &related_task {
                Some(member) => Cow::from(with_meta(params, member)),
                None => params.into(),
            };
            pending.push((&request.key, server.send_client_request(&request.method, &params)));
        }
    });
    let members = pending.into_iter().map(|(key, response)| {
        let line = response.recv().unwrap_or_default();
        let response: HashMap<String, &RawValue> = serde_json::from_str(&line).unwrap_or_default();
        let outcome = response.get("result").or_else(|| response.get("error"));
        format!("{}:{}", quote(key), outcome.map_or("null", |outcome| outcome.get()))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The kinds in a string, separated by `,` or `/`, or in a list of strings.
pub(crate) fn parse_kinds(kinds: &Value) -> Vec<String> {
    match kinds {
        Value::String(text) => text.split([',', '/']).map(str::to_owned).collect(),
        Value::Array(names) => names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
        _ => Vec::new(),
    }
}
