//! Delays exit until refreshed tokens are stored.
//!
//! The answer to a token request has the only refresh token that still works. So the task that sends such a request
//! holds a `ShutdownGuard`, from before the request until the answer is stored.

use tokio::sync::watch;

/// Counts the guards of this process. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(super) struct ShutdownTracker(watch::Sender<ShutdownState>);

#[derive(Debug, Default)]
struct ShutdownState {
    /// Guards that are not dropped yet.
    active: usize,
    /// Set when the process begins to shut down: no further guard is given out.
    closed: bool,
}

/// Delays exit until it is dropped.
pub(super) struct ShutdownGuard(ShutdownTracker);

impl ShutdownTracker {
    /// Returns a guard, or `None` if the process is shutting down: it may be gone before an answer arrives.
    pub(super) fn guard(&self) -> Option<ShutdownGuard> {
        let is_open = self.0.send_if_modified(|state| {
            state.active += usize::from(!state.closed);
            !state.closed
        });
        is_open.then(|| ShutdownGuard(self.clone()))
    }

    /// Gives out no further guard, and waits until all guards are dropped, without a limit.
    pub(super) async fn close_and_wait(&self) {
        self.0.send_modify(|state| state.closed = true);
        // Cannot fail: `self` keeps the sender alive.
        drop(self.0.subscribe().wait_for(|state| state.active == 0).await);
    }
}

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.active -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn closing_waits_for_all_guards_and_rejects_new_ones() {
        let tracker = ShutdownTracker::default();
        let (first, second) = (tracker.guard().unwrap(), tracker.clone().guard().unwrap());
        let mut closing = std::pin::pin!(tracker.close_and_wait());
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(tracker.guard().is_none());
        drop(first);
        assert!(closing.as_mut().now_or_never().is_none());
        drop(second);
        assert!(closing.as_mut().now_or_never().is_some());
    }
}
