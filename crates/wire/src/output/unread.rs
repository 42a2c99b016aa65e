//! Whether the other side reads the replies to its requests.

use super::shared::{HIGH_WATER, Shared};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long the other side may read nothing while replies to it wait.
pub(super) const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether the other side has read something.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The other side does not read the replies to what it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it did not read the replies to its requests for 10 s, so its connection was ended; a server has to read its input \
     also while it writes"
)]
pub struct NotReading;

impl Shared {
    /// See [`Output::takes_replies`](super::Output::takes_replies).
    pub(super) fn takes_replies(&self) -> bool {
        let queue = self.queue.lock();
        queue.reply_bytes < HIGH_WATER || queue.closed
    }

    /// See [`Output::replies_taken`](super::Output::replies_taken).
    ///
    /// # Errors
    ///
    /// Fails if the other side reads nothing for `UNREAD_TIMEOUT`.
    pub(super) async fn replies_taken(&self) -> Result<(), NotReading> {
        let (mut read, mut since) = (self.read_bytes(), Instant::now());
        loop {
            let room = self.room.notified();
            if self.takes_replies() {
                return Ok(());
            }
            let now_read = self.read_bytes();
            if now_read != read {
                (read, since) = (now_read, Instant::now());
            } else if since.elapsed() >= UNREAD_TIMEOUT {
                return Err(NotReading);
            }
            // A wake-up or the time to look again.
            drop(timeout(LOOK_INTERVAL, room).await);
        }
    }

    /// Returns a number that grows when the other side reads, as far as that can be known.
    fn read_bytes(&self) -> u64 {
        let queue = self.queue.lock();
        // Bytes in a pipe are written and not read.
        let unread = queue.direct.as_ref().map_or(0, |direct| direct.unread_bytes());
        queue.written.saturating_sub(unread)
    }
}
