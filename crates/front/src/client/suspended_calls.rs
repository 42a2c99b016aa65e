//! Calls of stateless clients that wait for input.
//!
//! A server of the handshake era asks its client something while it runs a call. A stateless client learns of that from
//! an `input_required` result with a `requestState`. The call is suspended here until the client sends the same request
//! again with that state and its responses.

use super::input_channels::{InputChannel, PendingInput};
use crate::errors::{self, RpcError};
use base::random;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use wire::inbound::ResponseFuture;
use wire::peer::Progress;
use wire::{Raw, Reply, raw};

/// How long a call is suspended before it is dropped.
const EXPIRY: Duration = Duration::from_secs(10 * 60);
/// How many calls may be suspended at the same time.
const MAX_SUSPENDED: usize = 256;
/// How many requests for input may wait in one call.
const MAX_PENDING: usize = 64;
/// The prefix that marks a `requestState` as ours.
const STATE_PREFIX: &str = "dynamic-mcp/waiting:";

/// The suspended calls of one client.
#[derive(Default)]
pub(crate) struct SuspendedCalls(Mutex<CallsByState>);

#[derive(Default)]
struct CallsByState {
    /// Each call with the task that drops it when it expires.
    calls: HashMap<String, (SuspendedCall, AbortHandle)>,
    /// The tasks that drop expired calls.
    timers: JoinSet<()>,
}

/// A call that its server runs, and the input that it needs. It is suspended while the client is asked for input.
pub(crate) struct SuspendedCall {
    /// The future of the answer.
    answer: ResponseFuture,
    /// Requests for input that were not put to the client yet.
    new_requests: mpsc::Receiver<PendingInput>,
    /// What the client was asked and has not answered, by key.
    pending: Vec<(String, PendingInput)>,
    /// Where progress goes; the client's next request brings another token.
    progress: Option<Progress>,
    /// The number in the key of the last request for input.
    last_key: usize,
    /// Whether the call is suspended. Shared with the call's input channel.
    suspended: Arc<AtomicBool>,
    /// Notified when the call blocks others, and is dropped if it is suspended.
    abandoned: Arc<Notify>,
}

/// Creates the channel through which a new call can ask for input. The receiver and the flag go to
/// `SuspendedCall::new`.
pub(crate) fn input_channel(capabilities: Raw) -> (InputChannel, mpsc::Receiver<PendingInput>) {
    let (requests, receiver) = mpsc::channel(MAX_PENDING);
    let (suspended, abandoned) = (Arc::default(), Arc::default());
    (InputChannel { capabilities, requests, suspended, abandoned }, receiver)
}

impl SuspendedCall {
    /// Creates a call that has just begun and is not suspended. `new_requests` and `channel` come from the same call of
    /// [`input_channel`]; the call sets the channel's flag while it is suspended. `progress`: where the call reports its
    /// progress. It is silent while the call is suspended, and then goes to the token of the client's next request.
    pub(crate) fn new(
        answer: ResponseFuture,
        new_requests: mpsc::Receiver<PendingInput>,
        channel: &InputChannel,
        progress: Option<Progress>,
    ) -> Self {
        let (suspended, abandoned) = (channel.suspended.clone(), channel.abandoned.clone());
        Self { answer, new_requests, pending: Vec::new(), progress, last_key: 0, suspended, abandoned }
    }

    /// Takes the responses and the progress token of the client's next request. What has no response stays pending.
    /// Without a token, no progress is sent.
    pub(crate) fn resume(&mut self, params: &Raw) {
        let responses = raw::get(params, "inputResponses").unwrap_or(Raw::from_static(b"{}"));
        for (key, input) in std::mem::take(&mut self.pending) {
            match raw::get(&responses, &key) {
                Some(response) => drop(input.answer.send(Ok(response))),
                None => self.pending.push((key, input)),
            }
        }
        let token = raw::get(params, "_meta").and_then(|meta| raw::get(&meta, "progressToken"));
        if let Some(progress) = &self.progress {
            progress.redirect(token);
        }
    }

    fn add(&mut self, input: PendingInput) {
        self.last_key += 1;
        self.pending.push((self.last_key.to_string(), input));
    }

    /// Drops requests whose sender no longer waits for the answer.
    fn drop_withdrawn(&mut self) {
        self.pending.retain(|(_, input)| !input.answer.is_closed());
    }

    /// Returns the `input_required` result with everything that is pending.
    fn input_required(&self, state: &str) -> Raw {
        let requests = self.pending.iter().map(|(key, input)| {
            let request = Raw::from(json!({ "method": input.method }).to_string());
            let request = match &input.params {
                Some(params) => raw::set(&request, "params", params),
                None => request,
            };
            [json!(key).to_string().as_bytes(), b":", &request[..]].concat()
        });
        let requests = requests.collect::<Vec<_>>().join(&b","[..]);
        let result = json!({ "resultType": "input_required", "requestState": state }).to_string();
        raw::set(&result.into(), "inputRequests", &[b"{", &requests[..], b"}"].concat())
    }
}

impl SuspendedCalls {
    /// Removes the call that a request continues. Returns `None` if the request continues none.
    ///
    /// # Errors
    ///
    /// The request names a call that does not exist or has expired.
    pub(crate) fn take(&self, params: &Raw) -> Result<Option<SuspendedCall>, RpcError> {
        let state = raw::get_str(params, "requestState");
        let Some(state) = state.filter(|state| state.starts_with(STATE_PREFIX)) else { return Ok(None) };
        let suspended = self.0.lock().calls.remove(&state);
        let (call, timer) = suspended.ok_or_else(|| {
            errors::invalid_params(
                "params.requestState is unknown, expired or already used: make the request again without it",
            )
        })?;
        timer.abort();
        Ok(Some(call))
    }

    /// Runs a call until it is answered or needs input. In the latter case it is suspended for ten minutes at most, and
    /// the answer asks for the input.
    ///
    /// # Errors
    ///
    /// That of the call's answer; or too many calls are suspended, and this one is dropped.
    pub(crate) async fn run(self: Arc<Self>, mut call: SuspendedCall) -> Reply {
        call.suspended.store(false, Ordering::Relaxed);
        call.drop_withdrawn();
        while call.pending.is_empty() {
            tokio::select! {
                biased;
                reply = &mut call.answer => return reply,
                Some(input) = call.new_requests.recv() => call.add(input),
            }
            call.drop_withdrawn();
        }
        call.suspended.store(true, Ordering::Relaxed);
        while let Ok(input) = call.new_requests.try_recv() {
            call.add(input);
        }
        let state = format!("{STATE_PREFIX}{}", random::hex_id());
        let result = call.input_required(&state);
        if let Some(progress) = &call.progress {
            progress.redirect(None);
        }
        match self.suspend(state, call) {
            true => Ok(result),
            false => Err(errors::too_many_suspended_calls().into()),
        }
    }

    /// Suspends a call, and drops it after ten minutes, or earlier if it blocks others. Returns false if too many calls are
    /// suspended; the call is dropped then.
    fn suspend(self: &Arc<Self>, state: String, call: SuspendedCall) -> bool {
        let mut suspended = self.0.lock();
        while suspended.timers.try_join_next().is_some() {}
        if suspended.calls.len() >= MAX_SUSPENDED {
            return false;
        }
        let (calls, key, abandoned) = (Arc::downgrade(self), state.clone(), call.abandoned.clone());
        let timer = suspended.timers.spawn(async move {
            drop(tokio::time::timeout(EXPIRY, abandoned.notified()).await);
            if let Some(calls) = calls.upgrade() {
                // Not while the lock is held: dropping a call runs code of others.
                let expired = calls.0.lock().calls.remove(&key);
                drop(expired);
            }
        });
        suspended.calls.insert(state, (call, timer));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    /// Starts a call that asks for input at once. Returns its answer, and what is dropped together with the call.
    async fn suspended(calls: &Arc<SuspendedCalls>) -> (Reply, oneshot::Receiver<()>) {
        let (held, dropped) = oneshot::channel::<()>();
        let answer: ResponseFuture = Box::pin(async move {
            let _held = held;
            std::future::pending().await
        });
        let (channel, requests) = input_channel(Raw::from_static(b"{}"));
        let (response, receiver) = oneshot::channel();
        let input = PendingInput { method: "roots/list".to_owned(), params: None, answer: response };
        channel.requests.send(input).await.ok().unwrap();
        // The server waits for the response as long as the call is open.
        tokio::spawn(receiver);
        let call = SuspendedCall::new(answer, requests, &channel, None);
        let reply = timeout(Duration::from_secs(1), calls.clone().run(call)).await.unwrap();
        (reply, dropped)
    }

    /// The params of the request that continues the call of this answer.
    fn continuation(reply: &Reply) -> Raw {
        let state = raw::get(reply.as_ref().unwrap(), "requestState").unwrap();
        raw::set(&Raw::from_static(b"{}"), "requestState", &state)
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspended_call_is_dropped_when_it_expires() {
        let calls = Arc::<SuspendedCalls>::default();
        let (reply, dropped) = suspended(&calls).await;
        let start = Instant::now();
        assert!(timeout(2 * EXPIRY, dropped).await.unwrap().is_err());
        assert_eq!(start.elapsed().as_secs(), EXPIRY.as_secs());
        let error = calls.take(&continuation(&reply)).err().unwrap();
        assert!(
            error.message.contains("params.requestState is unknown, expired or already used"),
            "{error:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_continued_before_it_expires_is_not_dropped() {
        let calls = Arc::<SuspendedCalls>::default();
        let (reply, mut dropped) = suspended(&calls).await;
        tokio::time::sleep(EXPIRY - Duration::from_secs(1)).await;
        let call = calls.take(&continuation(&reply)).unwrap().unwrap();
        assert!(timeout(2 * EXPIRY, &mut dropped).await.is_err(), "its timer has ended");
        drop(call);
        assert!(dropped.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_suspended_calls_is_bounded() {
        let calls = Arc::<SuspendedCalls>::default();
        let mut open = Vec::new();
        for n in 0..MAX_SUSPENDED {
            let (reply, dropped) = suspended(&calls).await;
            assert!(reply.is_ok(), "{n}: {reply:?}");
            open.push((reply, dropped));
        }
        let (refused, dropped) = suspended(&calls).await;
        let error = String::from_utf8(refused.unwrap_err().to_vec()).unwrap();
        assert!(error.contains("too many calls wait for input"), "{error}");
        assert!(dropped.await.is_err(), "the refused call is dropped");
        drop(calls.take(&continuation(&open[0].0)).unwrap().unwrap());
        assert!(suspended(&calls).await.0.is_ok(), "a call that has ended makes room");
    }
}
