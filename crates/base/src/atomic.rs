//! Atomics and a lock for what threads share without a lock or wake by hand.
//!
//! With the feature `loom` they are those of the loom crate. A test can then run in every order in which its threads may
//! interleave, with every value that a load may return.

use std::ops::DerefMut;

#[cfg(feature = "loom")]
use loom::sync::Mutex;
#[cfg(feature = "loom")]
pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(feature = "loom"))]
use parking_lot::Mutex;
#[cfg(not(feature = "loom"))]
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs a test in every order in which its threads may interleave, up to the number of preemptions that
/// `LOOM_MAX_PREEMPTIONS` allows (2 if it is not set).
#[cfg(feature = "loom")]
pub fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(test);
}

/// A lock.
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates a lock that nobody holds.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> impl DerefMut<Target = T> {
        let guard = self.0.lock();
        #[cfg(feature = "loom")]
        let guard = guard.expect("no thread of a model panics");
        guard
    }
}
