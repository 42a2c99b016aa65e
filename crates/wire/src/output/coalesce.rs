//! Coalesces writes: frames that are sent in one turn of a thread are written together at its end, without waking the
//! writers.

use super::shared::Shared;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static COALESCED: Coalesced = const { Coalesced { is_on: Cell::new(false), outputs: RefCell::new(Vec::new()) } };
}

/// The coalesced writes of one thread.
struct Coalesced {
    /// Whether writes are coalesced now.
    is_on: Cell<bool>,
    /// The outputs that have something to write.
    outputs: RefCell<Vec<Arc<Shared>>>,
}

/// Coalesces the writes of this thread until the result is dropped. Not nested.
pub(crate) fn coalesce_writes() -> CoalescedWrites {
    COALESCED.with(|coalesced| coalesced.is_on.set(true));
    CoalescedWrites(())
}

/// Notes that an output has something to write. Returns false if writes are not coalesced now.
pub(super) fn add(output: &Arc<Shared>) -> bool {
    COALESCED.with(|coalesced| {
        let is_on = coalesced.is_on.get();
        if is_on {
            coalesced.outputs.borrow_mut().push(output.clone());
        }
        is_on
    })
}

/// Writes the frames of all outputs when it is dropped.
pub(crate) struct CoalescedWrites(());

impl Drop for CoalescedWrites {
    fn drop(&mut self) {
        COALESCED.with(|coalesced| {
            coalesced.is_on.set(false);
            while let Some(output) = { coalesced.outputs.borrow_mut().pop() } {
                output.flush();
            }
        });
    }
}
