//! Puts the questions of a stateless server to a client of the handshake era: the `input_required` result becomes requests
//! to the client, and the request to the server is sent again with the answers. A stateless client is asked in the same
//! way if a result has more questions than may be open at a time.

use crate::client::Client;
use crate::client::client_requests;
use crate::client::input_channels::InputChannel;
use crate::client::question_limit::{MAX_OPEN_QUESTIONS, MAX_QUESTIONS};
use crate::errors;
use config::GroupName;
use futures_util::future::try_join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use upstream::Lease;
use upstream::clients::ClientRequest;
use wire::peer::{CallError, CallOptions};
use wire::protocol::methods::Method;
use wire::protocol::{Era, capability, meta};
use wire::{Raw, Reply, raw};

/// How often one call may ask for input.
const MAX_ROUNDS: usize = 16;
/// The first pause before a request is repeated to a server that needs time but no input. Each pause is twice the one
/// before it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The capabilities of the client that are declared to the server.
const INPUT_CAPABILITIES: [&str; 3] = [capability::ELICITATION, capability::SAMPLING, capability::ROOTS];

/// A call of a stateless server whose questions the proxy puts to the client.
pub(crate) struct InputCall<'a> {
    /// The client.
    pub client: &'a Arc<Client>,
    /// How a stateless client is asked.
    pub channel: Option<&'a InputChannel>,
    /// The group of the server.
    pub group: &'a GroupName,
    /// The connection to the server.
    pub lease: &'a Lease,
    /// The method of the call.
    pub method: Method,
    /// The limits of each request to the server.
    pub options: CallOptions,
}

impl InputCall<'_> {
    /// Sends the request until the server needs no more input, or has asked `MAX_ROUNDS` times. `reply`: the server's
    /// first reply, if it was sent already. An error of the client, and that the server asks without end, are an
    /// `Ok(Err(_))`.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub(crate) async fn answer(&self, mut params: Raw, reply: Option<Reply>) -> Result<Reply, CallError> {
        let mut pause = FIRST_PAUSE;
        let mut reply = match reply {
            Some(reply) => reply,
            None => self.send(&params).await?,
        };
        for _ in 0..MAX_ROUNDS {
            let Some(result) = reply.as_ref().ok().filter(|result| needs_input(result)) else {
                return Ok(reply);
            };
            if raw::get(result, "inputRequests").is_none() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            match self.responses(result).await {
                Ok(responses) => params = with_responses(&params, &responses, result),
                Err(error) => return Ok(Err(error)),
            }
            reply = self.send(&params).await?;
        }
        match reply {
            Ok(result) if needs_input(&result) => {
                let why = "it asks for input without end";
                Ok(Err(errors::untranslatable(self.group, self.method.name(), why).into()))
            }
            reply => Ok(reply),
        }
    }

    async fn send(&self, params: &Raw) -> Result<Reply, CallError> {
        let era = if self.channel.is_some() { Era::Stateless } else { Era::Handshake };
        self.lease.call(self.method.name(), Some(&params.clone().into()), era, &self.options).await
    }

    /// Sends the client every request in the result, and returns its answers.
    ///
    /// # Errors
    ///
    /// The first error among the answers, which cancels the other requests; or there are more questions than can be
    /// open or wait, and none is sent.
    async fn responses(&self, result: &Raw) -> Reply {
        // Otherwise, some would be shown to the user and cancelled at once.
        if count_questions(result) > MAX_QUESTIONS {
            return Err(errors::too_many_questions(self.group).into());
        }
        let answers = requests_in(result).into_iter().map(|(key, request)| async move {
            let request = ClientRequest {
                group: self.group.clone(),
                method: raw::get_str(&request, "method").unwrap_or_default(),
                params: raw::get(&request, "params"),
                call: None,
                progress: None,
            };
            let answer = client_requests::send(self.client, self.channel, request).await?;
            Ok::<_, Raw>([json!(key).to_string().as_bytes(), b":", &answer[..]].concat())
        });
        // The first error drops, and thereby cancels, the other requests.
        let answers = try_join_all(answers).await?;
        Ok([b"{", &answers.join(&b","[..])[..], b"}"].concat().into())
    }
}

/// Returns the params of a request with the capabilities of a client of the handshake era.
pub fn with_capabilities(client: &Client, params: &Raw) -> Raw {
    raw::set_in(params, "_meta", meta::CAPABILITIES, &client.capabilities.offered(&INPUT_CAPABILITIES))
}

/// Returns whether a result asks the user more questions than may be open at a time. The proxy then asks a stateless client
/// itself, a few at a time.
pub(crate) fn has_too_many_questions(result: &Raw) -> bool {
    needs_input(result) && count_questions(result) > MAX_OPEN_QUESTIONS
}

fn count_questions(result: &Raw) -> usize {
    let is_question = |request: &Raw| {
        raw::get_str(request, "method").is_some_and(|method| client_requests::is_question(&method))
    };
    requests_in(result).iter().filter(|(_, request)| is_question(request)).count()
}

/// Returns the requests for input in a result, by key.
fn requests_in(result: &Raw) -> Vec<(String, Raw)> {
    raw::get(result, "inputRequests").and_then(|requests| raw::entries(&requests)).unwrap_or_default()
}

/// Returns whether a result asks for input.
pub(crate) fn needs_input(result: &Raw) -> bool {
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
