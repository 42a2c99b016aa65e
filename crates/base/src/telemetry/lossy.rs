//! A writer that never blocks, because a client that does not read our stderr must not stop us. Events that exceed the
//! queue are lost.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// How many events are queued for a slow reader. Later ones are lost.
const QUEUE_CAPACITY: usize = 1024;

/// How long an exit waits for room in the queue, and then for the queue to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// An element of the queue.
enum QueueItem {
    /// One whole event.
    Event(Vec<u8>),
    /// A request to reply when everything before it is written.
    Flush(SyncSender<()>),
}

/// Queues events for the thread that writes them. Each write is one whole event.
#[derive(Clone)]
pub(super) struct LossyWriter(SyncSender<QueueItem>);

/// On drop, waits at most 200 ms for events that are not written yet.
#[must_use = "without it the last events are lost"]
pub struct FlushGuard(SyncSender<QueueItem>);

/// Starts a thread called `name` that writes events to what `open` returns; without that, events are lost. `open` runs on
/// the thread at the first event, because it may block and may log. Returns a factory of writers to it, and a guard that waits for it.
///
/// # Errors
///
/// Fails if the thread cannot be started.
pub(super) fn writer<W: Write>(
    name: &str,
    open: impl FnOnce() -> Option<W> + Send + 'static,
) -> io::Result<(impl Fn() -> LossyWriter, FlushGuard)> {
    let (sender, receiver) = sync_channel(QUEUE_CAPACITY);
    // Detached, because it may be blocked in a write when the process ends.
    let _thread = thread::Builder::new().name(name.to_owned()).spawn(|| write_all(receiver, open))?;
    let writer = LossyWriter(sender.clone());
    Ok((move || writer.clone(), FlushGuard(sender)))
}

fn write_all<W: Write>(queue: Receiver<QueueItem>, open: impl FnOnce() -> Option<W>) {
    let (mut open, mut to) = (Some(open), None);
    for item in queue {
        match item {
            QueueItem::Event(event) => {
                if let Some(open) = open.take() {
                    to = open();
                }
                if let Some(to) = &mut to {
                    // If stderr is closed or the disk is full, there is nowhere to report it.
                    drop(to.write_all(&event));
                }
            }
            QueueItem::Flush(done) => drop(done.try_send(())),
        }
    }
}

impl Write for LossyWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // If the queue is full, the event is lost.
        drop(self.0.try_send(QueueItem::Event(event.to_owned())));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        let (done, flushed) = sync_channel(1);
        let mut item = QueueItem::Flush(done);
        for _ in 0..FLUSH_TIMEOUT.as_millis() {
            match self.0.try_send(item) {
                Err(TrySendError::Full(returned)) => item = returned,
                _ => {
                    // The process exits even if the log is not written in time.
                    let _in_time = flushed.recv_timeout(FLUSH_TIMEOUT);
                    return;
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
