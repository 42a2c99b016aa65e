//! How much may wait in a queue. Where many queues have no writer, the bytes beyond a few frames count in the memory for
//! messages, so that all queues stay within it.

use crate::budget::{Reservation, UNCOUNTED_BYTES};

/// The limit of a queue.
pub(super) struct QueueLimit {
    /// The limit now, in bytes.
    pub(super) bytes: usize,
    /// The highest limit, and the reservation of the bytes beyond the lowest one; `None`: the limit does not change.
    growth: Option<(usize, Reservation)>,
}

impl QueueLimit {
    /// A limit that does not change.
    pub(super) fn fixed(bytes: usize) -> Self {
        Self { bytes, growth: None }
    }

    /// A limit that is raised up to `highest` bytes as long as the reservation finds room.
    pub(super) fn reserved(highest: usize, reservation: Reservation) -> Self {
        Self { bytes: UNCOUNTED_BYTES.min(highest), growth: Some((highest, reservation)) }
    }

    /// Raises the limit of a queue that has this many bytes. Returns whether there is room for more.
    #[cold]
    pub(super) fn raise(&mut self, queued: usize) -> bool {
        let Some((highest, reservation)) = &mut self.growth else { return false };
        let wanted = (queued + UNCOUNTED_BYTES).min(*highest);
        let is_raised = wanted >= queued && reservation.try_raise(wanted);
        if is_raised {
            self.bytes = wanted;
        }
        is_raised
    }

    /// Gives the reservation back, because nothing is queued.
    pub(super) fn reset(&mut self) {
        if let Some((highest, reservation)) = &mut self.growth {
            reservation.clear();
            self.bytes = UNCOUNTED_BYTES.min(*highest);
        }
    }
}
