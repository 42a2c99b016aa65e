//! A writer that never waits: a client that does not read our stderr must not stop us.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// Events that wait for a slow reader; later ones are lost.
const WAITING: usize = 1024;

/// How long an exit waits for room, and for the log to be written.
const FLUSH: Duration = Duration::from_millis(100);

enum Message {
    Event(Vec<u8>),
    /// Answered when all before it is written.
    Flush(SyncSender<()>),
}

/// Gives whole events, one a write, to a thread that writes them.
#[derive(Clone)]
pub(super) struct Lossy(SyncSender<Message>);

/// Waits on drop for what is not written yet, 200 ms at most.
#[must_use = "the last lines are lost without it"]
pub struct Flush(SyncSender<Message>);

pub(super) fn writer(to: impl Write + Send + 'static) -> io::Result<(impl Fn() -> Lossy, Flush)> {
    let (sender, receiver) = sync_channel(WAITING);
    // Detached: it may be stuck in a write when the process ends.
    let _thread = thread::Builder::new().name("log".to_owned()).spawn(|| write_all(receiver, to))?;
    let lossy = Lossy(sender.clone());
    Ok((move || lossy.clone(), Flush(sender)))
}

fn write_all(events: Receiver<Message>, mut to: impl Write) {
    for message in events {
        match message {
            // Whoever closed stderr does not want it; there is nobody else to tell.
            Message::Event(event) => drop(to.write_all(&event)),
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

impl Write for Lossy {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // Full: lost.
        drop(self.0.try_send(Message::Event(event.to_owned())));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, flushed) = sync_channel(1);
        let mut message = Message::Flush(done);
        for _ in 0..FLUSH.as_millis() {
            match self.0.try_send(message) {
                Err(TrySendError::Full(again)) => message = again,
                _ => {
                    // Late or not: the exit goes on.
                    let _in_time = flushed.recv_timeout(FLUSH);
                    return;
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
