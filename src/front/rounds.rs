//! A stateless server that needs something of the client says so in its answer, and is asked again with it. For a client
//! with a handshake we do that: it gets the server's requests as requests.

use super::errors;
use crate::config::GroupName;
use crate::protocol::{Era, meta};
use crate::upstream::Lease;
use crate::upstream::audience::client::Client;
use crate::upstream::audience::questions::{self, Question};
use crate::wire::peer::{CallError, CallOptions, CancelParams};
use crate::wire::{Raw, Reply, raw};
use futures_util::future::try_join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How often one call may ask.
const ROUNDS: usize = 16;
/// Before a server is asked again that wants nothing but that: at first, doubling up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// What a client is asked to do.
const ABLE: [&str; 3] = ["elicitation", "sampling", "roots"];

/// Whether the answer to this method may ask for something.
pub fn may_ask(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Asks the server until it has all that it needs.
pub async fn call(
    client: &Arc<Client>,
    group: &GroupName,
    lease: &Lease,
    method: &str,
    params: Raw,
    options: CallOptions,
) -> Result<Reply, CallError> {
    let able = ABLE.iter().fold(Raw::from_static(b"{}"), |able, name| match client.capability(name) {
        Some(value) => raw::set(&able, name, &value),
        None => able,
    });
    let mut params = raw::set_in(&params, "_meta", meta::CAPABILITIES, &able);
    let mut pause = PAUSES.0;
    for _ in 0..ROUNDS {
        let reply = lease.call(method, Some(params.clone()), Era::Handshake, options.clone()).await?;
        let asks = |result: &Raw| raw::get_str(result, "resultType").as_deref() == Some("input_required");
        let Some(result) = reply.as_ref().ok().filter(|result| asks(result)) else { return Ok(reply) };
        if raw::get(result, "inputRequests").is_none() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        match answers(client, group, result).await {
            Ok(answers) => params = again(&params, &answers, result),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Err(errors::not_bridged(group, method, "it asks for input without end").into()))
}

/// The params once more, with the answers and what the server wants to have back.
fn again(params: &Raw, answers: &Raw, result: &Raw) -> Raw {
    let params = raw::set(params, "inputResponses", answers);
    match raw::get(result, "requestState") {
        Some(state) => raw::set(&params, "requestState", &state),
        None => raw::remove(&params, "requestState"),
    }
}

/// The client's answers to all that the result asks for; its error if it refuses something.
async fn answers(client: &Arc<Client>, group: &GroupName, result: &Raw) -> Reply {
    let requests = raw::get(result, "inputRequests").and_then(|requests| raw::entries(&requests));
    let asked = requests.unwrap_or_default().into_iter().map(|(key, request)| async move {
        let question = Question {
            group: group.clone(),
            method: raw::get_str(&request, "method").unwrap_or_default(),
            params: raw::get(&request, "params"),
            progress: None,
            cancelled: CancelParams::default(),
        };
        let answer = questions::ask(client, question).await?;
        Ok::<_, Raw>([json!(key).to_string().as_bytes(), b":", &answer[..]].concat())
    });
    // A refusal ends it: what else was asked is cancelled.
    let answers = try_join_all(asked).await?;
    Ok([b"{", &answers.join(&b","[..])[..], b"}"].concat().into())
}
