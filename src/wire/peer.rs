//! One end of a JSON-RPC connection, the same for both sides: it owns the ids of what it asks, matches answers,
//! maps progress tokens, cancels what nobody waits for any more, and bounds every wait.
//!
//! A call is a future: dropping it cancels the request at the other side. Whoever owns the connection calls `receive`
//! in a loop; it settles answers and progress itself and hands out all else, in the order it came.

use super::batch::Batches;
use super::lines::LineReader;
use super::output::Output;
use super::{Frame, Message, MessageError, Raw, Reply, Request, raw};
use crate::protocol::meta;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

pub use super::call::{CallError, CallOptions, CancelParams, Progress, RetryHint};

/// An answer larger than this is given to its caller before the next line is read, so that large answers do not
/// pile up in memory when the caller's own reader is slow.
const LARGE: usize = 32 << 10;

/// Tasks whose progress is passed on at the same time.
const LASTING: usize = 256;

pub struct Peer {
    output: Output,
    calls: Mutex<Calls>,
    batches: Mutex<Batches>,
}

#[derive(Default)]
struct Calls {
    /// The last id given out; also the progress token of that request.
    last: u64,
    open: HashMap<u64, Call>,
    /// Where the progress of tasks goes whose calls are answered already, latest last.
    lasting: VecDeque<(u64, Progress)>,
    /// Set when no answer can come any more.
    ended: bool,
}

struct Call {
    answer: oneshot::Sender<Result<Reply, CallError>>,
    progress: Option<Progress>,
    acknowledged: Option<watch::Sender<Option<Raw>>>,
    /// Progress may come after the answer.
    lasting: bool,
    /// It is open until one side ends it.
    subscription: bool,
    /// When this call last showed life: sent, or progress came.
    alive: Instant,
}

/// What came in.
#[derive(Debug)]
pub enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Option<Raw>,
    },
    /// An answer or progress, which went to its call.
    Handled,
    /// A line that is no message, and the line (empty where it was too long to be kept).
    Malformed(MessageError, Raw),
}

impl Peer {
    pub fn new(output: Output) -> Arc<Self> {
        Arc::new(Self { output, calls: Mutex::default(), batches: Mutex::default() })
    }

    pub fn output(&self) -> &Output {
        &self.output
    }

    pub fn notify(&self, method: &str, params: Option<Raw>) {
        self.output.send(Frame::notification(method, params));
    }

    /// Sends a request whose answer says nothing that anyone waits for.
    pub fn send(&self, method: &str, params: Raw) {
        let id = {
            let mut calls = self.calls.lock();
            calls.last += 1;
            calls.last
        };
        self.output.send(Frame::request(id, method, Some(params)));
    }

    /// Answers a request, with the others that came with it if it came in a batch.
    pub fn reply(&self, id: &Raw, reply: Reply) {
        // Not in the `match`, which would hold the lock through the write.
        let kept = self.batches.lock().keep(id, reply);
        match kept {
            Err(reply) => drop(self.output.send(Frame::response(id, reply))),
            Ok(batch) => self.send_batch(batch),
        }
    }

    /// Answers what came as `Malformed`, before the next message is received.
    pub fn refuse(&self, id: &Raw, error: Raw) {
        let kept = self.batches.lock().keep_refusal(id, error);
        match kept {
            Err(error) => drop(self.output.send(Frame::response(id, Err(error)))),
            Ok(batch) => self.send_batch(batch),
        }
    }

    /// The request gets no answer: it was cancelled.
    pub fn forget(&self, id: &Raw) {
        let batch = self.batches.lock().forget(id);
        self.send_batch(batch);
    }

    fn send_batch(&self, batch: Option<Frame>) {
        if let Some(batch) = batch {
            self.output.send(batch);
        }
    }

    /// From now on the other side may send several messages at once.
    pub fn accept_batches(&self) {
        self.batches.lock().accepted = true;
    }

    /// Asks the other side. Params go out as they are, but for the progress token.
    pub async fn call(
        &self,
        method: &str,
        params: Option<Raw>,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        let started = Instant::now();
        // A side that does not read its requests is out of time like one that does not answer them.
        if tokio::time::timeout(options.quiet, self.output.ready()).await.is_err() {
            return Err(CallError::TimedOut(options.quiet));
        }
        let (answer, mut answered) = oneshot::channel();
        let (progress, lasting) = (options.progress.clone(), options.lasting);
        let (acknowledged, subscription) = (options.acknowledged.clone(), method == "subscriptions/listen");
        let call = Call { answer, progress, acknowledged, lasting, subscription, alive: Instant::now() };
        let id = self.open(call)?;
        let mut guard = InFlight { peer: self, id, options: &options, why: None };
        let params = match options.progress {
            Some(_) => {
                let params = params.unwrap_or(Raw::from_static(b"{}"));
                Some(raw::set_in(&params, "_meta", "progressToken", id.to_string().as_bytes()))
            }
            None => params,
        };
        if !self.output.send(Frame::request(id, method, params)) {
            return Err(CallError::Closed { sent: false });
        }
        loop {
            let Some(deadline) = self.deadline(id, started, &options) else {
                return answered.await.unwrap_or(Err(CallError::Closed { sent: true }));
            };
            tokio::select! {
                biased;
                outcome = &mut answered => return outcome.unwrap_or(Err(CallError::Closed { sent: true })),
                () = sleep_until(deadline) => {
                    // Progress may have moved it meanwhile.
                    if self.deadline(id, started, &options).is_some_and(|d| d <= Instant::now()) {
                        guard.why = Some("timed out");
                        return Err(CallError::TimedOut(tenths(started.elapsed())));
                    }
                }
            }
        }
    }

    /// When call `id` is out of time; `None` once it is answered.
    fn deadline(&self, id: u64, started: Instant, options: &CallOptions) -> Option<Instant> {
        let alive = self.calls.lock().open.get(&id)?.alive;
        Some((alive + options.quiet).min(started + options.total))
    }

    fn open(&self, call: Call) -> Result<u64, CallError> {
        let mut calls = self.calls.lock();
        if calls.ended {
            return Err(CallError::Closed { sent: false });
        }
        calls.last += 1;
        let id = calls.last;
        calls.open.insert(id, call);
        Ok(id)
    }

    /// The next thing that came in; `None` at the end of the stream, after which the owner says so (`end`).
    /// Returns after each message, so that its owner can stop reading while what it feeds is full. Cancel-safe.
    pub async fn receive<R: AsyncRead + Unpin>(&self, lines: &mut LineReader<R>) -> Option<Incoming> {
        // What is buffered already is no reason to keep the only thread: others have their turn between messages.
        tokio::task::coop::consume_budget().await;
        let finished = self.batches.lock().end_reading();
        self.send_batch(finished);
        let waiting = self.batches.lock().next_unread();
        if let Some(line) = waiting {
            let incoming = self.take(Message::parse(&line), line);
            if let Incoming::Request(request) = &incoming {
                self.batches.lock().expect(&request.id);
            }
            return Some(incoming);
        }
        let line = match lines.next().await? {
            Ok(line) => line,
            Err(MessageError::TooLong { id: Some(id), bytes, limit }) if self.is_open(&id) => {
                self.settle(&id, Err(CallError::TooLong { bytes, limit }));
                return Some(Incoming::Handled);
            }
            Err(malformed) => return Some(Incoming::Malformed(malformed, Raw::new())),
        };
        let message = Message::parse(&line);
        if message == Err(MessageError::Batch) {
            // Its messages come next.
            let taken = self.batches.lock().take(&line);
            return Some(taken.map_or_else(|what| Incoming::Malformed(what, line), |()| Incoming::Handled));
        }
        let large = line.len() > LARGE && matches!(message, Ok(Message::Response { .. }));
        let incoming = self.take(message, line);
        if large {
            tokio::task::yield_now().await;
        }
        Some(incoming)
    }

    /// Settles answers and progress; all else is for the owner.
    fn take(&self, message: Result<Message, MessageError>, line: Raw) -> Incoming {
        match message {
            Ok(Message::Request(request)) => Incoming::Request(request),
            Ok(Message::Notification { method, params }) => {
                let settled = match method.as_str() {
                    "notifications/progress" => self.progress(params.as_ref()),
                    "notifications/subscriptions/acknowledged" => self.acknowledged(params.as_ref()),
                    _ => false,
                };
                if settled { Incoming::Handled } else { Incoming::Notification { method, params } }
            }
            Ok(Message::Response { id, reply }) => {
                self.settle(&id, Ok(reply));
                Incoming::Handled
            }
            Err(malformed) => Incoming::Malformed(malformed, line),
        }
    }

    /// The caller may be gone, or may never have been: late answers and answers to nothing end here.
    fn settle(&self, id: &Raw, outcome: Result<Reply, CallError>) {
        let call = our_id(id).and_then(|id| {
            let mut calls = self.calls.lock();
            let call = calls.open.remove(&id)?;
            if let Some(progress) = call.progress.clone().filter(|_| call.lasting) {
                calls.lasting.push_back((id, progress));
                let excess = calls.lasting.len().saturating_sub(LASTING);
                calls.lasting.drain(..excess);
            }
            Some(call)
        });
        match call {
            Some(call) => drop(call.answer.send(outcome)),
            None => tracing::debug!(id = %LogText(id), "dropped an answer to nothing that is open"),
        }
    }

    /// The call `id` has no answer, though others may have theirs.
    pub fn fail(&self, id: &Raw, error: CallError) {
        self.settle(id, Err(error));
    }

    /// The other side ends a subscription of ours by cancelling its request: that is as good as an answer. False: `id` is
    /// of none that is open.
    pub fn end_subscription(&self, id: &Raw) -> bool {
        let is_one = our_id(id)
            .is_some_and(|id| self.calls.lock().open.get(&id).is_some_and(|call| call.subscription));
        if is_one {
            self.settle(id, Ok(Ok(Raw::from_static(b"{}"))));
        }
        is_one
    }

    /// No answer comes any more: every open call, and every later one, fails.
    pub fn end(&self) {
        let open = {
            let mut calls = self.calls.lock();
            calls.ended = true;
            std::mem::take(&mut calls.open)
        };
        for call in open.into_values() {
            drop(call.answer.send(Err(CallError::Closed { sent: true })));
        }
    }

    /// Passes progress on under the token of the call's own client. False: of no call we know.
    fn progress(&self, params: Option<&Raw>) -> bool {
        let Some((params, id)) = params.and_then(|p| Some((p, our_id(&raw::get(p, "progressToken")?)?)))
        else {
            return false;
        };
        let mut calls = self.calls.lock();
        let to = match calls.open.get_mut(&id) {
            Some(call) => {
                call.alive = Instant::now();
                call.progress.clone()
            }
            None => match calls.lasting.iter().find(|(lasting, _)| *lasting == id) {
                Some((_, progress)) => Some(progress.clone()),
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

    /// Tells the call that it is honoured. False: of no call that wants to know.
    fn acknowledged(&self, params: Option<&Raw>) -> bool {
        let Some(params) = params else { return false };
        let id = raw::get(params, "_meta").and_then(|given| raw::get(&given, meta::SUBSCRIPTION));
        let Some(id) = id.and_then(|id| our_id(&id)) else { return false };
        let wants = self.calls.lock().open.get(&id).and_then(|call| call.acknowledged.clone());
        let Some(wants) = wants else { return false };
        wants.send_replace(Some(params.clone()));
        true
    }

    fn is_open(&self, id: &Raw) -> bool {
        our_id(id).is_some_and(|id| self.calls.lock().open.contains_key(&id))
    }
}

/// To a tenth of a second, for people to read.
fn tenths(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis() / 100).unwrap_or(u64::MAX / 100) * 100)
}

/// An id of ours as it comes back. Some servers return numbers as strings.
fn our_id(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.trim_matches('"').parse().ok()
}

/// A request that was sent. Dropped before the answer came, it tells the other side.
struct InFlight<'a> {
    peer: &'a Peer,
    id: u64,
    options: &'a CallOptions,
    why: Option<&'static str>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.peer.calls.lock().open.remove(&self.id).is_none() || !self.options.cancellable {
            return;
        }
        let params = self.options.cancelled.get().cloned().unwrap_or_else(|| match self.why {
            Some(why) => format!("{{\"reason\":\"{why}\"}}").into(),
            None => Raw::from_static(b"{}"),
        });
        let params = raw::set(&params, "requestId", self.id.to_string().as_bytes());
        self.peer.notify("notifications/cancelled", Some(params));
    }
}

/// JSON text in a log line.
pub struct LogText<'a>(pub &'a [u8]);

impl std::fmt::Display for LogText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        String::from_utf8_lossy(self.0).escape_debug().take(200).try_for_each(|c| write!(f, "{c}"))
    }
}

#[cfg(test)]
#[path = "peer/tests.rs"]
mod tests;
