//! Turns of tests that work more than they wait. As many run at a time as there are cores, because the deadlines of the
//! programs that they test are those of a user.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// The number of tests that have a turn.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A turn, which ends when it is dropped.
pub(crate) struct Turn;

impl Turn {
    /// Waits for a turn.
    pub(crate) fn take() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let running = ENDED.wait_while(running, |running| *running >= cores);
        *running.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
