//! Coalesces writes: what is sent while a task handles messages is written together.
//!
//! A task that handles what it has read does so in [`coalesced`]. What it sends is written at the end: in one write for
//! each output, before the task does anything else, and without waking the writers. The work is a closure that cannot
//! wait, so nothing is held back for long.
//!
//! The requests that the work wakes are continued before that (`run_woken`), each once. So an answer that a task has read
//! is sent on by that task, and the task of the request's owner is not woken.

use base::clock::{self, StoppedClock};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// An output whose writes are coalesced.
pub(crate) trait Flush {
    /// Writes what was sent.
    fn flush(&self);
}

/// What was waiting for something, and can continue.
pub(crate) trait Woken: Send + Sync {
    /// Continues.
    fn run(self: Arc<Self>);
    /// Leaves it to its owner to continue.
    fn leave(self: Arc<Self>);
}

thread_local! {
    /// How many `coalesced` of this thread are running, one inside the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The outputs that have something to write since then.
    static OUTPUTS: RefCell<Vec<Arc<dyn Flush>>> = const { RefCell::new(Vec::new()) };
    /// What was woken since then.
    static WOKEN: RefCell<VecDeque<Arc<dyn Woken>>> = const { RefCell::new(VecDeque::new()) };
    /// Whether `run_woken` is running. What is woken meanwhile is left to its owner, so that it ends.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, then writes what it sent. Inside another `coalesced`, that is left to the outer one. The clock stands
/// still meanwhile.
pub(crate) fn coalesced<T>(work: impl FnOnce() -> T) -> T {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    // Also if the work panics.
    let _end = EndOfWork { _clock: (depth == 0).then(clock::stop) };
    work()
}

/// Notes that an output has something to write. Returns false if writes are not coalesced now.
pub(crate) fn add(output: &Arc<impl Flush + 'static>) -> bool {
    let is_coalesced = DEPTH.get() > 0;
    if is_coalesced {
        OUTPUTS.with_borrow_mut(|outputs| outputs.push(output.clone() as Arc<dyn Flush>));
    }
    is_coalesced
}

/// Notes that something can continue, or leaves it to its owner if writes are not coalesced now.
pub(crate) fn wake(woken: Arc<impl Woken + 'static>) {
    match DEPTH.get() > 0 && !RUNNING.get() {
        true => WOKEN.with_borrow_mut(|all| all.push_back(woken as Arc<dyn Woken>)),
        false => woken.leave(),
    }
}

/// Continues what was woken since `coalesced` began, in that order.
pub(crate) fn run_woken() {
    if RUNNING.get() || WOKEN.with_borrow(VecDeque::is_empty) {
        return;
    }
    RUNNING.set(true);
    // Also if one panics.
    let _ended = EndOfRun;
    while let Some(woken) = WOKEN.with_borrow_mut(VecDeque::pop_front) {
        woken.run();
    }
}

/// Ends a `run_woken`.
struct EndOfRun;

impl Drop for EndOfRun {
    fn drop(&mut self) {
        RUNNING.set(false);
    }
}

/// Ends a `coalesced`.
struct EndOfWork {
    /// Lets the clock go on, if this is the outermost one.
    _clock: Option<StoppedClock>,
}

impl Drop for EndOfWork {
    fn drop(&mut self) {
        let is_last = DEPTH.get() == 1;
        if is_last && std::thread::panicking() {
            WOKEN.take().into_iter().for_each(|woken| woken.leave());
        } else if is_last {
            run_woken();
        }
        DEPTH.set(DEPTH.get() - 1);
        if is_last {
            while let Some(output) = OUTPUTS.with_borrow_mut(Vec::pop) {
                output.flush();
            }
        }
    }
}
