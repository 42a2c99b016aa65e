//! A stateless server that needs input from a client of the handshake era: its `input_required` result becomes requests
//! to the client, and the request to the server is sent again with their answers.

use super::client::Client;
use super::client_requests;
use crate::config::GroupName;
use crate::front::errors;
use crate::protocol::methods::Method;
use crate::protocol::{Era, capability, meta};
use crate::upstream::clients::ClientRequest;
use crate::upstream::lease::Lease;
use crate::wire::peer::{CallError, CallOptions, CancelParams};
use crate::wire::{Raw, Reply, raw};
use futures_util::future::try_join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How often one call may ask for input.
const MAX_ROUNDS: usize = 16;
/// The first pause before a request is repeated to a server that needs time but no input. Each pause is twice the one
/// before it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The capabilities of the client that are declared to the server.
const INPUT_CAPABILITIES: [&str; 3] = [capability::ELICITATION, capability::SAMPLING, capability::ROOTS];

/// Sends a request to a stateless server until it needs no more input.
pub async fn call(
    client: &Arc<Client>,
    group: &GroupName,
    lease: &Lease,
    method: Method,
    params: Raw,
    options: CallOptions,
) -> Result<Reply, CallError> {
    let none = Raw::from_static(b"{}");
    let declared = INPUT_CAPABILITIES.iter().fold(none, |declared, name| match client.capability(name) {
        Some(value) => raw::set(&declared, name, &value),
        None => declared,
    });
    let mut params = raw::set_in(&params, "_meta", meta::CAPABILITIES, &declared);
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_ROUNDS {
        let reply = lease.call(method.name(), Some(params.clone()), Era::Handshake, options.clone()).await?;
        let Some(result) = reply.as_ref().ok().filter(|result| needs_input(result)) else { return Ok(reply) };
        if raw::get(result, "inputRequests").is_none() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        match responses(client, group, result).await {
            Ok(responses) => params = with_responses(&params, &responses, result),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Err(errors::untranslatable(group, method.name(), "it asks for input without end").into()))
}

/// Returns whether a result asks for input.
pub fn needs_input(result: &Raw) -> bool {
    raw::get_str(result, "resultType").as_deref() == Some("input_required")
}

/// Adds the client's responses and the server's own state to the params.
fn with_responses(params: &Raw, responses: &Raw, result: &Raw) -> Raw {
    let params = raw::set(params, "inputResponses", responses);
    match raw::get(result, "requestState") {
        Some(state) => raw::set(&params, "requestState", &state),
        None => raw::remove(&params, "requestState"),
    }
}

/// Sends the client every request in the result, and returns its answers, or the first error among them.
async fn responses(client: &Arc<Client>, group: &GroupName, result: &Raw) -> Reply {
    let requests = raw::get(result, "inputRequests").and_then(|requests| raw::entries(&requests));
    let answers = requests.unwrap_or_default().into_iter().map(|(key, request)| async move {
        let request = ClientRequest {
            group: group.clone(),
            method: raw::get_str(&request, "method").unwrap_or_default(),
            params: raw::get(&request, "params"),
            call: None,
            progress: None,
            cancel_params: CancelParams::default(),
        };
        let answer = client_requests::send(client, request).await?;
        Ok::<_, Raw>([json!(key).to_string().as_bytes(), b":", &answer[..]].concat())
    });
    // The first error drops, and thereby cancels, the other requests.
    let answers = try_join_all(answers).await?;
    Ok([b"{", &answers.join(&b","[..])[..], b"}"].concat().into())
}
