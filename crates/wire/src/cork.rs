//! Holds back writes for a moment, so that messages that are sent together are written together.
//!
//! A task that handles what it has read corks all outputs. What it sends is written when it uncorks them: in one write
//! for each output, before the task does anything else, and without waking the writers. The work is a closure that cannot
//! wait, so outputs are never corked for long.
//!
//! The requests that the work wakes are continued before that (`run_woken`), each once. So an answer that a task has read
//! is sent on by that task, and the task of the request's owner is not woken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;

/// An output that can be corked.
pub(super) trait Corked {
    /// Writes what was sent.
    fn flush(&self);
}

/// What was waiting for something, and can continue.
pub(super) trait Woken: Send + Sync {
    /// Continues.
    fn run(self: Arc<Self>);
    /// Leaves it to its owner to continue.
    fn leave(self: Arc<Self>);
}

thread_local! {
    /// How many `corked` of this thread are running, one inside the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The outputs that have something to write since then.
    static OUTPUTS: RefCell<Vec<Arc<dyn Corked>>> = const { RefCell::new(Vec::new()) };
    /// What was woken since then.
    static WOKEN: RefCell<VecDeque<Arc<dyn Woken>>> = const { RefCell::new(VecDeque::new()) };
    /// The time, once somebody asked for it since then.
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether `run_woken` is running. What is woken meanwhile is left to its owner, so that it ends.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, then writes what it sent. Inside another `corked`, that is left to the outer one.
pub fn corked<T>(work: impl FnOnce() -> T) -> T {
    DEPTH.set(DEPTH.get() + 1);
    // Also if the work panics.
    let _uncork = Uncork;
    work()
}

/// Notes that an output has something to write. Returns false if outputs are not corked.
pub(super) fn add(output: &Arc<impl Corked + 'static>) -> bool {
    let is_corked = DEPTH.get() > 0;
    if is_corked {
        OUTPUTS.with_borrow_mut(|outputs| outputs.push(output.clone() as Arc<dyn Corked>));
    }
    is_corked
}

/// Notes that something can continue, or leaves it to its owner if outputs are not corked.
pub(super) fn wake(woken: Arc<impl Woken + 'static>) {
    match DEPTH.get() > 0 && !RUNNING.get() {
        true => WOKEN.with_borrow_mut(|all| all.push_back(woken as Arc<dyn Woken>)),
        false => woken.leave(),
    }
}

/// Continues what was woken since outputs were corked, in that order.
pub(super) fn run_woken() {
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

/// The time. While outputs are corked it stands still, because a look at the clock takes longer than most of what a
/// message needs.
pub fn now() -> Instant {
    if DEPTH.get() == 0 {
        return Instant::now();
    }
    let now = NOW.get().unwrap_or_else(Instant::now);
    NOW.set(Some(now));
    now
}

/// Ends a `corked`.
struct Uncork;

impl Drop for Uncork {
    fn drop(&mut self) {
        let is_last = DEPTH.get() == 1;
        if is_last && std::thread::panicking() {
            WOKEN.take().into_iter().for_each(|woken| woken.leave());
        } else if is_last {
            run_woken();
        }
        DEPTH.set(DEPTH.get() - 1);
        if is_last {
            NOW.set(None);
            while let Some(output) = OUTPUTS.with_borrow_mut(Vec::pop) {
                output.flush();
            }
        }
    }
}
