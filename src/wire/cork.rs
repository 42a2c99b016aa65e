//! Holds back writes for a moment, so that messages that are sent together are written together.
//!
//! A task that handles what it has read corks all outputs. What it sends is written when it uncorks them: in one write
//! for each output, before the task does anything else, and without waking the writers. The work is a closure that cannot
//! wait, so outputs are never corked for long.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// An output that can be corked.
pub(super) trait Corked {
    /// Writes what was sent.
    fn flush(&self);
}

thread_local! {
    /// How many `corked` of this thread are running, one inside the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The outputs that have something to write since then.
    static OUTPUTS: RefCell<Vec<Arc<dyn Corked>>> = const { RefCell::new(Vec::new()) };
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

/// Ends a `corked`.
struct Uncork;

impl Drop for Uncork {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            while let Some(output) = OUTPUTS.with_borrow_mut(Vec::pop) {
                output.flush();
            }
        }
    }
}
