//! The state of an output and its writer: the frames that are not written yet.

use super::batch::{WrittenBytes, advance, try_write};
use super::pollable_fd::PollableFd;
use super::queue_limit::QueueLimit;
use crate::Frame;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, Semaphore};

/// The number of queued bytes above which `ready` waits: some hundred small messages. An answer waits behind everything
/// that is queued, so this is no more than keeps a pipe busy.
pub(super) const HIGH_WATER: usize = 64 << 10;
/// The state of an output and its writer.
pub(super) struct Shared {
    /// The frames that are not written yet.
    pub(super) queue: Mutex<Queue>,
    /// Whether the output is open and at least `HIGH_WATER` bytes are queued. It is written under the lock of the queue, and
    /// read without it for every message.
    pub(super) is_full: AtomicBool,
    /// Wakes the writer.
    pub(super) more: Notify,
    /// Wakes the task whose turn it is in `ready`, and the tasks that wait in `overflowed`.
    pub(super) room: Notify,
    /// Whose turn it is in `ready`. The others wait for it in the order in which they came. If all were woken together, the
    /// one that is first each time could fill the queue before the others run.
    pub(super) turn: Semaphore,
    /// Wakes the tasks that wait for their turn: nothing is queued any more, so whoever has the turn does not run.
    pub(super) drained: Notify,
}

/// The frames that are not written yet.
pub(super) struct Queue {
    /// The frames that the writer has not taken.
    pub(super) frames: VecDeque<Frame>,
    /// The number of bytes that are not written, including the frames that the writer has taken.
    pub(super) bytes: usize,
    /// How many of them are of replies.
    pub(super) reply_bytes: usize,
    /// The number of bytes that were written.
    pub(super) written: u64,
    /// Whether frames are being written that are no longer in `frames`.
    pub(super) writing: bool,
    /// Whether new frames are rejected.
    pub(super) closed: bool,
    /// The number of queued bytes above which the output gives up its reader.
    pub(super) limit: QueueLimit,
    /// Whether it did.
    pub(super) overflowed: bool,
    /// The descriptor, if it is a non-blocking one and the writer has not ended.
    pub(super) direct: Option<Arc<PollableFd>>,
}

impl Shared {
    /// Creates an open output with an empty queue. `limit`: the number of queued bytes above which it gives up its reader.
    pub(super) fn new(direct: Option<Arc<PollableFd>>, limit: QueueLimit) -> Arc<Self> {
        let queue = Queue {
            frames: VecDeque::new(),
            bytes: 0,
            reply_bytes: 0,
            written: 0,
            writing: false,
            closed: false,
            limit,
            overflowed: false,
            direct,
        };
        Arc::new(Self {
            queue: Mutex::new(queue),
            is_full: AtomicBool::new(false),
            more: Notify::new(),
            room: Notify::new(),
            turn: Semaphore::new(1),
            drained: Notify::new(),
        })
    }

    /// Moves the queued frames to `batch`, which is empty. Returns false when the output is closed and nothing is queued.
    pub(super) async fn take(&self, batch: &mut VecDeque<Frame>) -> bool {
        loop {
            {
                let mut queue = self.queue.lock();
                // Both keep their memory.
                std::mem::swap(&mut queue.frames, batch);
                queue.writing = !batch.is_empty();
                if queue.writing || queue.closed {
                    return queue.writing;
                }
            }
            self.more.notified().await;
        }
    }

    /// Rejects new frames, and wakes who waits for room.
    pub(super) fn close(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.closed = true;
        self.is_full.store(false, Ordering::Release);
        drop(queue);
        self.room.notify_waiters();
        self.drained.notify_waiters();
    }

    /// Notes how many bytes were written.
    pub(super) fn note_written(&self, mut queue: MutexGuard<'_, Queue>, written: WrittenBytes) {
        queue.bytes -= written.all;
        queue.reply_bytes -= written.replies;
        queue.written += written.all as u64;
        let mut has_room = false;
        if self.is_full.load(Ordering::Relaxed) {
            let had_replies = queue.reply_bytes + written.replies >= HIGH_WATER;
            has_room = had_replies && queue.reply_bytes < HIGH_WATER;
            if queue.bytes < HIGH_WATER {
                self.is_full.store(false, Ordering::Release);
                has_room = true;
            }
        }
        // Nobody waits for a turn that is free.
        let is_drained = queue.bytes == 0 && self.turn.available_permits() == 0;
        drop(queue);
        if has_room {
            self.room.notify_waiters();
        }
        if is_drained {
            self.drained.notify_waiters();
        }
    }

    /// Writes as much of the queue as the descriptor takes at once. The writer gets the rest, and every error.
    pub(super) fn flush(&self) {
        let mut queue = self.queue.lock();
        let Queue { frames, direct, writing, .. } = &mut *queue;
        let mut written = WrittenBytes::default();
        // The lock is held during this write, which does not wait.
        if let Some(direct) = direct.as_ref().filter(|_| !*writing)
            && let Ok(bytes) = try_write(direct, frames)
        {
            written = advance(frames, bytes);
        }
        let is_left = !frames.is_empty();
        self.note_written(queue, written);
        if is_left {
            self.more.notify_one();
        }
    }
}
