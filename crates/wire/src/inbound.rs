//! Requests of the other side that are being served, and the scheduler that continues them.
//!
//! Each request is started at once, answered when its future completes, and dropped when it is cancelled.
//!
//! # Theory of operation
//!
//! **Turns.** A task handles the messages that it has read together in one turn ([`in_turn`]). A turn is a closure, so it
//! cannot wait. Everything that a turn sends is written at its end, in one write for each output.
//!
//! **Who polls whom.** No request has a task of its own. A request that is woken in a turn is continued in that turn, on
//! the stack of the task that woke it: the reader of an upstream that has read the answer to a call polls the request of
//! the client, which sends its answer. The reader does so before it handles its next message, so that whatever follows an
//! answer stays behind it ([`run_woken`]). A request that is woken outside a turn is left to the owner of the connection,
//! which continues it when it polls `ended` or `serve`. So is a request that is woken while woken requests are continued:
//! a turn continues each request once, and ends.
//!
//! **Why the clock stands.** Reading the clock takes longer than most steps of handling a message, and a turn asks for the
//! time with every message. Nothing waits in a turn, so one reading is right for all of it. A future that is polled in a
//! turn sees that time, too, whichever task it belongs to.
//!
//! **What breaks without it.** Each answer would wake the task of the client's connection, and that task would wake the
//! writer: two passes through the runtime's queue, and one write for each message. Answers that a server has sent together
//! would reach the client in the order in which their tasks happen to run, and a notification could overtake the answer
//! that was before it.

use super::peer::Peer;
use super::protocol::code;
use super::{Raw, Reply, error_object, raw};
use crate::output::coalesce::{CoalescedWrites, coalesce_writes};
use crate::peer::cancellation::drop_cancelled;
use crate::peer::own_ids::OwnIdMap;
use base::atomic::{AtomicBool, Lock, Ordering};
use base::clock::{self, StoppedClock};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::task::{ArcWake, waker_ref};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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

/// The state that the owner of the requests and the requests share.
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
    /// Leaves the request to the owner of the connection.
    fn leave(self: Arc<Self>) {
        let shared = self.shared.clone();
        shared.woken.push(self);
    }

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
            TURN.with(|turn| turn.add(self));
        }
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

    /// Polls the future once, so that its messages leave in the order of the requests. If it has to wait, it may only
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
            in_turn(|| woken.into_iter().for_each(OpenRequest::poll));
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

/// Whether a request was woken, and has not continued since.
struct WokenFlag(AtomicBool);

impl Default for WokenFlag {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl WokenFlag {
    /// Notes that the request was woken. Returns whether the caller has to have it continued: else somebody else has to.
    fn set(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Notes that the request continues now. Whoever wakes it from here on has it continued again.
    fn clear(&self) {
        // A thread that finds it woken already relies on this continuation, which therefore has to see all that this thread
        // did: a swap, not a store. If it is not woken, no thread relies on this.
        if self.0.load(Ordering::Relaxed) {
            self.0.swap(false, Ordering::AcqRel);
        }
    }
}

/// The requests that their owner has to continue.
struct WokenList<T> {
    waiting: Lock<Waiting<T>>,
    /// Whether there are any. The owner looks at this whenever its task runs.
    has_any: AtomicBool,
}

struct Waiting<T> {
    requests: VecDeque<T>,
    /// Wakes the owner.
    owner: Option<Waker>,
}

impl<T> Default for WokenList<T> {
    fn default() -> Self {
        let waiting = Waiting { requests: VecDeque::new(), owner: None };
        Self { waiting: Lock::new(waiting), has_any: AtomicBool::new(false) }
    }
}

impl<T> WokenList<T> {
    /// Leaves a request to the owner, and wakes the owner.
    fn push(&self, request: T) {
        let owner = {
            let mut waiting = self.waiting.lock();
            waiting.requests.push_back(request);
            self.has_any.store(true, Ordering::Release);
            waiting.owner.clone()
        };
        owner.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the list has any.
    fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Takes the requests. `owner` is woken when there are others.
    fn take(&self, owner: &Waker) -> VecDeque<T> {
        let mut waiting = self.waiting.lock();
        waiting.owner = Some(owner.clone());
        self.has_any.store(false, Ordering::Release);
        std::mem::take(&mut waiting.requests)
    }

    /// Wakes the owner.
    fn wake_owner(&self) {
        let owner = self.waiting.lock().owner.clone();
        owner.into_iter().for_each(Waker::wake);
    }
}

thread_local! {
    static TURN: MessageTurn = const {
        MessageTurn { is_running: Cell::new(false), continues: Cell::new(false), woken: RefCell::new(VecDeque::new()) }
    };
}

/// The turn of one thread.
struct MessageTurn {
    /// Whether a turn is running.
    is_running: Cell<bool>,
    /// Whether woken requests are being continued.
    continues: Cell<bool>,
    /// The requests that were woken in this turn and have not continued.
    woken: RefCell<VecDeque<Arc<OpenRequest>>>,
}

impl MessageTurn {
    /// Continues a request that was woken in this turn, or leaves it to its owner.
    fn add(&self, request: Arc<OpenRequest>) {
        match self.is_running.get() && !self.continues.get() {
            true => self.woken.borrow_mut().push_back(request),
            false => request.leave(),
        }
    }

    fn run_woken(&self) {
        if self.continues.get() || self.woken.borrow().is_empty() {
            return;
        }
        self.continues.set(true);
        while let Some(request) = { self.woken.borrow_mut().pop_front() } {
            request.poll();
        }
        self.continues.set(false);
    }
}

/// Runs `work` as a turn. Inside another turn, `work` is a part of that one.
pub(crate) fn in_turn<T>(work: impl FnOnce() -> T) -> T {
    let is_outermost = !TURN.with(|turn| turn.is_running.replace(true));
    // Ends the turn also if the work panics.
    let _end = is_outermost.then(|| EndOfTurn { _writes: coalesce_writes(), _clock: clock::stop() });
    work()
}

/// Continues the requests that were woken since the turn began, in that order.
pub(crate) fn run_woken() {
    TURN.with(MessageTurn::run_woken);
}

/// Ends a turn when it is dropped: woken requests continue, sent frames are written, and the clock goes on.
struct EndOfTurn {
    _writes: CoalescedWrites,
    _clock: StoppedClock,
}

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        TURN.with(|turn| {
            if std::thread::panicking() {
                turn.continues.set(false);
                turn.woken.take().into_iter().for_each(OpenRequest::leave);
            } else {
                turn.run_woken();
            }
            turn.is_running.set(false);
        });
    }
}

#[cfg(test)]
#[path = "inbound/tests.rs"]
mod tests;

#[cfg(all(test, feature = "loom"))]
#[path = "inbound/models_tests.rs"]
mod models;
