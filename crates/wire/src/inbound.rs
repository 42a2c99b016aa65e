//! Requests of the other side that are being served: each is started at once, answered when its future completes, and
//! dropped when it is cancelled.
//!
//! No request has a task of its own. One that is woken while a task handles what it has read (`coalesce`) continues there
//! and then: the reader of an upstream that has the answer to a call also answers the client. All others continue in the
//! task of their owner.

use super::peer::Peer;
use super::protocol::code;
use super::{Raw, Reply, error_object, raw};
use crate::output::coalesce::{self, Woken, coalesced};
use crate::peer::cancellation::drop_cancelled;
use crate::peer::own_ids::OwnIdMap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::task::{ArcWake, waker_ref};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use woken::{WokenFlag, WokenList};

mod woken;

/// The error for a request above the limit.
const TOO_MANY_REQUESTS: &str = "too many open requests; wait for some of the answers";

/// The future that answers one request.
pub type ResponseFuture = BoxFuture<'static, Reply>;

/// The requests of one connection that are not answered yet. They are dropped with it.
pub struct InboundRequests {
    shared: Arc<ServedRequests>,
    /// How many may be open.
    limit: usize,
    /// The waker of the owner as `shared` has it, to be compared without a lock.
    registered: Option<Waker>,
}

/// What the owner of the requests and the requests share.
struct ServedRequests {
    /// Sends the answers.
    peer: Arc<Peer>,
    /// The answer to a request whose future panicked.
    internal_error: Raw,
    /// Which requests there are.
    requests: Mutex<OpenRequests>,
    /// Those that their owner has to continue.
    woken: WokenList<Arc<OpenRequest>>,
}

#[derive(Default)]
struct OpenRequests {
    /// The requests that are not answered yet, by their numbers.
    open: OwnIdMap<Arc<OpenRequest>>,
    /// The number of the last request.
    last: u64,
    /// Whether one was answered since the owner looked last.
    answered: bool,
    /// Whether the owner waits for that.
    awaits_answered: bool,
}

/// A request that is not answered yet.
struct OpenRequest {
    /// The requests that it is one of.
    shared: Arc<ServedRequests>,
    /// Its number among them.
    number: u64,
    /// The id as the other side wrote it.
    id: Raw,
    /// Answers the request. `None` once it is answered or cancelled. It is polled and dropped under this lock.
    answer: Mutex<Option<ResponseFuture>>,
    /// Whether it was woken, and has not continued since.
    is_woken: WokenFlag,
}

impl OpenRequest {
    /// Polls the future once. Answers the request if it completes.
    fn poll(self: Arc<Self>) {
        self.is_woken.clear();
        let mut slot = self.answer.lock();
        let Some(answer) = &mut *slot else { return };
        let waker = waker_ref(&self);
        let polled =
            catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut Context::from_waker(&waker))));
        let reply = match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(reply)) => reply,
            Err(_) => Err(self.shared.internal_error.clone()),
        };
        *slot = None;
        drop(slot);
        let mut requests = self.shared.requests.lock();
        if requests.open.remove(&self.number).is_none() {
            // It was cancelled.
            return;
        }
        requests.answered = true;
        let is_awaited = std::mem::take(&mut requests.awaits_answered);
        drop(requests);
        self.shared.peer.reply(&self.id, reply);
        if is_awaited {
            self.shared.woken.wake_owner();
        }
    }
}

impl ArcWake for OpenRequest {
    fn wake_by_ref(this: &Arc<Self>) {
        this.clone().wake();
    }

    fn wake(self: Arc<Self>) {
        if self.is_woken.set() {
            coalesce::wake(self);
        }
    }
}

impl Woken for OpenRequest {
    fn run(self: Arc<Self>) {
        self.poll();
    }

    fn leave(self: Arc<Self>) {
        let shared = self.shared.clone();
        shared.woken.push(self);
    }
}

impl InboundRequests {
    /// Serves requests that arrive on `peer`, at most `limit` at a time, so that cancellations and the end of the stream
    /// are still read. `internal_error` is the JSON-RPC error for a future that panics.
    pub fn new(peer: Arc<Peer>, limit: usize, internal_error: Raw) -> Self {
        let (requests, woken) = (Mutex::default(), WokenList::default());
        let shared = Arc::new(ServedRequests { peer, internal_error, requests, woken });
        Self { shared, limit, registered: None }
    }

    /// Returns the number of open requests.
    pub fn len(&self) -> usize {
        self.shared.requests.lock().open.len()
    }

    /// Returns whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rejects a request if the limit is reached, and returns whether it did. `held`: how many requests count that were
    /// not started yet.
    pub fn reject_excess(&mut self, id: &Raw, held: usize) -> bool {
        let is_full = |requests: &Self| requests.len() + held >= requests.limit;
        // Requests that can be answered now do not count.
        let rejects = is_full(self) && self.ended().now_or_never().is_none_or(|()| is_full(self));
        if rejects {
            let error = error_object(code::INTERNAL_ERROR, TOO_MANY_REQUESTS, None);
            self.shared.peer.reply(id, Err(error));
        }
        rejects
    }

    /// Polls the future once, so that what it sends leaves in the order of the requests. If it has to wait, it may only
    /// continue when the owner polls `ended` or `serve`, which the owner has to do before it waits for anything.
    pub fn start(&mut self, id: Raw, answer: ResponseFuture) {
        let request = {
            let mut requests = self.shared.requests.lock();
            requests.last += 1;
            let request = Arc::new(OpenRequest {
                shared: self.shared.clone(),
                number: requests.last,
                id,
                answer: Mutex::new(Some(answer)),
                is_woken: WokenFlag::default(),
            });
            requests.open.insert(request.number, request.clone());
            request
        };
        request.poll();
    }

    /// Continues the requests, and returns when some were answered since it was called last. Cancel-safe.
    pub async fn ended(&mut self) {
        poll_fn(|context| {
            self.advance(context);
            let mut requests = self.shared.requests.lock();
            let answered = std::mem::take(&mut requests.answered);
            requests.awaits_answered = !answered;
            if answered { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Continues the requests. Returns when the other side has to read answers before more is done. Cancel-safe.
    pub async fn serve(&mut self) {
        poll_fn(|context| match self.advance(context) {
            true if !self.shared.peer.output().is_ready() => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Continues the requests that are left to the owner, each once, and sends the answers in one write. Returns whether
    /// there were any.
    fn advance(&mut self, context: &Context<'_>) -> bool {
        let is_registered = self.registered.as_ref().is_some_and(|owner| owner.will_wake(context.waker()));
        if is_registered && !self.shared.woken.has_any() {
            return false;
        }
        self.registered = Some(context.waker().clone());
        let woken = self.shared.woken.take(context.waker());
        let any = !woken.is_empty();
        if any {
            coalesced(|| woken.into_iter().for_each(OpenRequest::poll));
        }
        any
    }

    /// Drops the future of the request that a `notifications/cancelled` names. The calls that it made are cancelled
    /// with the same params.
    pub fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let named = {
            let mut requests = self.shared.requests.lock();
            let number = requests.open.values().find(|open| open.id == id).map(|open| open.number);
            number.and_then(|number| requests.open.remove(&number))
        };
        if let Some(open) = named {
            drop_cancelled(open.answer.lock().take(), params);
            self.shared.peer.forget(&id);
        }
    }

    /// Answers every open request with `error` and drops its future.
    pub fn abandon(&mut self, error: &Raw) {
        for open in self.take_all() {
            self.shared.peer.reply(&open.id, Err(error.clone()));
            drop(open.answer.lock().take());
        }
    }

    /// Removes all requests, which are returned in the order in which they came.
    fn take_all(&mut self) -> Vec<Arc<OpenRequest>> {
        let open = std::mem::take(&mut self.shared.requests.lock().open);
        let mut open: Vec<_> = open.into_values().collect();
        open.sort_unstable_by_key(|open| open.number);
        open
    }
}

impl Drop for InboundRequests {
    fn drop(&mut self) {
        for open in self.take_all() {
            drop(open.answer.lock().take());
        }
    }
}

#[cfg(test)]
#[path = "inbound/tests.rs"]
mod tests;
