//! An output without a writer.

use super::batch::WrittenBytes;
use super::queue_limit::QueueLimit;
use super::shared::Shared;
use crate::Frame;
use futures_util::FutureExt;
use std::collections::VecDeque;
use std::sync::Arc;

/// The frames of an output that has no writer. The output is closed when this is dropped.
pub struct FrameQueue {
    pub(super) shared: Arc<Shared>,
    /// The frames that are taken from the queue and not returned yet.
    pub(super) taken: VecDeque<Frame>,
}

impl FrameQueue {
    /// Waits for the next frame. Returns `None` when the output is closed and nothing is queued. Cancel-safe.
    pub async fn next(&mut self) -> Option<Frame> {
        if self.taken.is_empty() && !self.shared.take(&mut self.taken).await {
            return None;
        }
        let frame = self.taken.pop_front()?;
        self.shared.note_written(self.shared.queue.lock(), WrittenBytes::of(&frame));
        let mut queue = self.shared.queue.lock();
        if queue.bytes == 0 {
            queue.limit.reset();
        }
        Some(frame)
    }

    /// Returns the next frame if one is queued.
    pub fn try_next(&mut self) -> Option<Frame> {
        self.next().now_or_never().flatten()
    }
}

impl Drop for FrameQueue {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.frames.clear();
        queue.limit = QueueLimit::fixed(0);
        self.shared.close(queue);
    }
}
