//! One end of a JSON-RPC connection. It assigns the ids of its requests, matches answers to them, maps progress tokens,
//! cancels requests whose caller is gone, and bounds every wait.
//!
//! A call is a future; dropping it cancels the request at the other side. The owner of the connection calls `receive`
//! in a loop. Answers and progress go to their calls; everything else is returned in the order in which it came.

use super::batch::Batches;
use super::body::Body;
use super::log_text::LogText;
use super::output::Output;
use super::{CallReply, Frame, Raw, Reply, raw};
use crate::peer::open_calls::{CallOutcome, OpenCall, OpenCalls};
use crate::peer::own_ids::own_id;
use crate::protocol::meta;
use crate::protocol::methods::{Method, notification};
use base::clock;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::peer::call_options::with_progress_token;
pub use crate::peer::call_options::{CallError, CallOptions, Progress, Rejection, RetryHint};
pub use crate::peer::incoming::{Incoming, Unread};

pub mod call_options;
pub(crate) mod cancellation;
pub mod incoming;
mod open_calls;
pub mod own_ids;

/// One end of a JSON-RPC connection.
pub struct Peer {
    output: Output,
    /// Our own requests that are not answered yet.
    calls: Mutex<OpenCalls>,
    /// The batches of the other side that are not answered yet.
    batches: Mutex<Batches>,
    /// Whether there ever was a batch. Most connections have none.
    has_batches: AtomicBool,
    /// Notified when a call is made whose deadline comes before all other deadlines.
    earlier_deadline: Notify,
}

/// The deadlines of all calls of a peer. They share one timer, because to set one for each call costs more than
/// everything else that a call needs of the runtime.
#[must_use = "without it, calls never time out"]
pub struct Deadlines(Arc<Peer>);

impl Deadlines {
    /// Fails calls whose time is over, forever.
    pub async fn run(self) {
        let Self(peer) = self;
        loop {
            let mut woken = Vec::new();
            let next = peer.calls.lock().expire(Instant::now(), &mut woken);
            woken.into_iter().for_each(Waker::wake);
            let earlier = peer.earlier_deadline.notified();
            match next {
                Some(at) => drop(timeout_at(at, earlier).await),
                None => earlier.await,
            }
        }
    }
}

impl Peer {
    /// Creates a peer that writes to `output`. The owner of the connection runs the deadlines.
    pub fn new(output: Output) -> (Arc<Self>, Deadlines) {
        let peer = Arc::new(Self {
            output,
            calls: Mutex::default(),
            batches: Mutex::default(),
            has_batches: AtomicBool::new(false),
            earlier_deadline: Notify::new(),
        });
        let deadlines = Deadlines(peer.clone());
        (peer, deadlines)
    }

    /// Returns where the peer writes.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Queues a notification, without waiting. It is dropped if the output is closed.
    pub fn notify(&self, method: &str, params: Option<Raw>) {
        self.output.send(Frame::notification(method, params));
    }

    /// Queues a request whose answer does not matter, without waiting. `receive` returns its answer as
    /// [`Incoming::Unmatched`]. The request is dropped if the output is closed.
    pub fn send(&self, method: &str, params: Raw) {
        let id = {
            let mut calls = self.calls.lock();
            calls.last_id += 1;
            calls.last_id
        };
        self.output.send(Frame::request(id, method, Some(&params.into())));
    }

    /// Queues the answer to a request, without waiting. If the request came in a batch, the answer is sent together
    /// with the other answers of the batch.
    pub fn reply(&self, id: &Raw, reply: Reply) {
        // A scrutinee of `match` would hold the lock during the write.
        let held = match self.has_batches() {
            true => self.batches.lock().hold(id, reply),
            false => Err(reply),
        };
        match held {
            Err(reply) => drop(self.output.send(Frame::response(id, reply))),
            Ok(batch) => self.send_batch(batch),
        }
    }

    /// Queues the answer to the malformed message that `receive` returned last, or adds it to the answers of its batch.
    pub fn answer_malformed(&self, id: &Raw, error: Raw) {
        let held = self.batches.lock().hold_error(id, error);
        match held {
            Err(error) => drop(self.output.send(Frame::response(id, Err(error)))),
            Ok(batch) => self.send_batch(batch),
        }
    }

    /// Drops a cancelled request, which gets no answer.
    pub fn forget(&self, id: &Raw) {
        let batch = self.batches.lock().forget(id);
        self.send_batch(batch);
    }

    fn has_batches(&self) -> bool {
        self.has_batches.load(Ordering::Acquire)
    }

    fn send_batch(&self, batch: Option<Frame>) {
        if let Some(batch) = batch {
            self.output.send(batch);
        }
    }

    /// Allows the other side to send batches.
    pub fn accept_batches(&self) {
        self.batches.lock().accepted = true;
    }

    /// Sends a request and waits for its answer, as long as `options` allows. The params are sent unchanged except for
    /// the progress token.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. A JSON-RPC error of the other side is an `Ok(Err(_))`.
    pub fn call<'a>(
        &'a self,
        method: &'a str,
        params: Option<impl Into<Body>>,
        options: CallOptions,
    ) -> impl Future<Output = Result<Reply, CallError>> + 'a {
        let params = params.map(Into::into);
        async move {
            let sent = self.send_call(method, params.as_ref(), &options).await?;
            // Large ones count against the budget of all messages.
            drop(params);
            Ok(sent.outcome().await?.reply)
        }
    }

    /// Sends the request of a call, whose answer is then awaited without the params. Waits until the output takes the
    /// request, `options.timeout` at most.
    ///
    /// # Errors
    ///
    /// `Closed` if the connection has ended, `TimedOut` if the output does not take the request in time. It was not
    /// sent then.
    pub async fn send_call<'a>(
        &'a self,
        method: &str,
        params: Option<&Body>,
        options: &CallOptions,
    ) -> Result<SentCall<'a>, CallError> {
        let started = clock::now();
        let mut sent = started;
        if !self.output.is_ready() {
            // The timeout also covers a side that does not read its requests.
            let ready = Box::pin(tokio::time::timeout(options.timeout, self.output.ready())).await;
            ready.map_err(|_| CallError::TimedOut(options.timeout))?;
            sent = Instant::now();
        }
        let call = OpenCall {
            caller: None,
            timed_out: false,
            options: options.clone(),
            is_subscription: method == Method::SubscriptionsListen.name(),
            started,
            last_progress: sent,
        };
        let id = self.open(call)?;
        let sent = SentCall { peer: self, id, is_over: false, timed_out: false };
        let request = match options.progress {
            Some(_) => Frame::request(id, method, Some(&with_progress_token(params, id))),
            None => Frame::request(id, method, params),
        };
        if !self.output.send(request) {
            return Err(CallError::Closed { sent: false, refusal: None });
        }
        Ok(sent)
    }

    fn open(&self, call: OpenCall) -> Result<u64, CallError> {
        let mut calls = self.calls.lock();
        if calls.ended {
            return Err(CallError::Closed { sent: false, refusal: None });
        }
        calls.last_id += 1;
        let id = calls.last_id;
        let is_earlier = calls.add(id, call);
        drop(calls);
        if is_earlier {
            self.earlier_deadline.notify_one();
        }
        Ok(id)
    }

    /// Ends a call. Returns the outcome if no such request is open: its caller is gone, or it was never sent.
    fn complete(&self, id: &Raw, outcome: CallOutcome) -> Option<CallOutcome> {
        let ended = match own_id(id) {
            Some(id) => self.calls.lock().answered(id, outcome),
            None => Err(outcome),
        };
        match ended {
            Ok(caller) => {
                caller.into_iter().for_each(Waker::wake);
                None
            }
            Err(outcome) => {
                tracing::debug!(id = %LogText(id), "dropped an answer to a request that is not open");
                Some(outcome)
            }
        }
    }

    /// Fails one call; the connection stays open. Does nothing if the call is not open.
    pub fn fail(&self, id: &Raw, error: CallError) {
        drop(self.complete(id, Err(error)));
    }

    /// Returns how many calls with an origin are open, and when the first of them began. Subscriptions are not among
    /// them.
    pub fn calls_in_flight(&self) -> (usize, Option<Instant>) {
        self.calls.lock().in_flight()
    }

    /// Returns the id of the only call with an origin that is open; `None` if there are none or several. Subscriptions
    /// are among them.
    pub fn only_call(&self) -> Option<Raw> {
        self.calls.lock().only().map(|id| id.to_string().into())
    }

    /// Returns the caller's own number for an open call; `None` if it has none, or is not open.
    pub fn origin(&self, id: &Raw) -> Option<u64> {
        self.calls.lock().open.get(&own_id(id)?)?.options.origin
    }

    /// Ends a `subscriptions/listen` that the other side cancels, which counts as its answer. Returns false if `id` is
    /// not an open one.
    pub fn end_subscription(&self, id: &Raw) -> bool {
        let is_one = own_id(id)
            .is_some_and(|id| self.calls.lock().open.get(&id).is_some_and(|call| call.is_subscription));
        if is_one {
            drop(self.complete(id, Ok(Ok(Raw::from_static(b"{}")).into())));
        }
        is_one
    }

    /// Fails every open call and every later one, because no answer can come any more.
    pub fn end(&self) {
        let callers = self.calls.lock().end_all();
        callers.into_iter().for_each(Waker::wake);
    }

    /// Passes progress on under the token of the call's client. Returns false if it belongs to no known call.
    fn progress(&self, params: Option<&Raw>) -> bool {
        let Some((params, id)) = params.and_then(|p| Some((p, own_id(&raw::get(p, "progressToken")?)?)))
        else {
            return false;
        };
        let mut calls = self.calls.lock();
        let to = match calls.open.get_mut(&id) {
            Some(call) => {
                call.last_progress = Instant::now();
                call.options.progress.clone()
            }
            None => match calls.progress_of_task(id) {
                Some(progress) => Some(progress.clone()),
                None => return false,
            },
        };
        drop(calls);
        if let Some(to) = to
            && let Some(token) = to.token()
        {
            let params = raw::set(params, "progressToken", &token);
            to.output.send(Frame::notification("notifications/progress", Some(params)));
        }
        true
    }

    /// Passes an acknowledgement to its subscription. Returns false if no open call waits for it.
    fn acknowledged(&self, params: Option<&Raw>) -> bool {
        let Some(params) = params else { return false };
        let id = raw::get(params, "_meta").and_then(|given| raw::get(&given, meta::SUBSCRIPTION));
        let Some(id) = id.and_then(|id| own_id(&id)) else { return false };
        let sender = self.calls.lock().open.get(&id).and_then(|call| call.options.on_acknowledged.clone());
        let Some(sender) = sender else { return false };
        sender.send_replace(Some(params.clone()));
        true
    }

    /// Returns whether a request of ours waits for its answer.
    pub fn is_open(&self, id: &Raw) -> bool {
        own_id(id).is_some_and(|id| self.calls.lock().open.contains_key(&id))
    }
}

/// A call whose request was sent. It is cancelled if this is dropped before the answer came.
pub struct SentCall<'a> {
    peer: &'a Peer,
    id: u64,
    /// Whether the call is no longer open.
    is_over: bool,
    /// Whether its time is over, which is the reason to give in the cancellation.
    timed_out: bool,
}

impl SentCall<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. A JSON-RPC error of the other side is an `Ok(Err(_))`.
    pub async fn outcome(mut self) -> Result<CallReply, CallError> {
        let outcome = poll_fn(|context| self.peer.calls.lock().poll_outcome(self.id, context)).await;
        match outcome {
            Err(CallError::TimedOut(_)) => self.timed_out = true,
            _ => self.is_over = true,
        }
        outcome
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let abandoned = self.peer.calls.lock().abandon(self.id);
        if !abandoned.is_some_and(|call| call.options.cancellable) {
            return;
        }
        let params = cancellation::params().unwrap_or(match self.timed_out {
            true => Raw::from_static(b"{\"reason\":\"timed out\"}"),
            false => Raw::from_static(b"{}"),
        });
        let params = raw::set(&params, "requestId", self.id.to_string().as_bytes());
        self.peer.notify(notification::CANCELLED, Some(params));
    }
}

mod receive;

#[cfg(test)]
#[path = "peer/tests.rs"]
mod tests;
