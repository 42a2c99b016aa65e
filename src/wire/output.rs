//! The writing end of a connection. What the pipe takes is written at once, the rest is queued in order.
//!
//! Sending never waits; whoever feeds an output waits for `ready` before reading more. So the queue is bounded by
//! its mark plus one message of each reader, and a reader that is slow stops those who feed it, nobody else.

use super::Frame;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

#[cfg(unix)]
use tokio::net::{UnixStream, unix::pipe};

/// Queued bytes above which `ready` waits: some hundred small messages. What one side sends without end is what an
/// answer of another waits behind, so this is not more than keeps a pipe busy.
const HIGH_WATER: usize = 64 << 10;
/// Frames handed to one write.
const BATCH: usize = 64;

/// Sends frames. Cheap to clone.
#[derive(Clone)]
pub struct Output(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the writer.
    more: Notify,
    /// Wakes those who wait for `ready`.
    room: Notify,
}

struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The writer holds a frame that is not written whole.
    writing: bool,
    /// No frame is taken any more.
    closed: bool,
    /// Written to at once when nothing is queued; `None` for sinks that cannot be tried.
    direct: Option<Arc<PollableFd>>,
}

/// A descriptor that can be tried without waiting.
#[cfg(unix)]
pub enum PollableFd {
    Pipe(pipe::Sender),
    Socket(Arc<UnixStream>),
}

#[cfg(not(unix))]
pub enum PollableFd {}

#[cfg(unix)]
impl PollableFd {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_write_vectored(slices),
            Self::Socket(socket) => socket.try_write_vectored(slices),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.writable().await,
            Self::Socket(socket) => socket.writable().await,
        }
    }
}

#[cfg(not(unix))]
impl PollableFd {
    fn try_write(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    async fn writable(&self) -> io::Result<()> {
        match *self {}
    }
}

/// Writes what was queued; run by whoever owns the connection.
pub struct Writer {
    shared: Arc<Shared>,
    sink: Sink,
}

enum Sink {
    Direct(Arc<PollableFd>),
    Any(Box<dyn AsyncWrite + Send + Unpin>),
}

impl Output {
    /// On a descriptor that is written at once where it has room.
    pub fn direct(direct: PollableFd) -> (Self, Writer) {
        let direct = Arc::new(direct);
        Self::new(Some(direct.clone()), Sink::Direct(direct))
    }

    /// On anything else, by way of the writer.
    pub fn any(sink: impl AsyncWrite + Send + Unpin + 'static) -> (Self, Writer) {
        Self::new(None, Sink::Any(Box::new(sink)))
    }

    fn new(direct: Option<Arc<PollableFd>>, sink: Sink) -> (Self, Writer) {
        let queue = Queue { frames: VecDeque::new(), bytes: 0, writing: false, closed: false, direct };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), more: Notify::new(), room: Notify::new() });
        (Self(shared.clone()), Writer { shared, sink })
    }

    /// Writes or queues `frame`. False: the output is closed and the frame is gone.
    pub fn send(&self, mut frame: Frame) -> bool {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return false;
        }
        if let (Some(direct), false, true) = (&queue.direct, queue.writing, queue.frames.is_empty()) {
            while !frame.is_empty() {
                let slices: Vec<_> = frame.slices().collect();
                // An error shows again when the writer tries, which is who reports it.
                let Ok(n) = direct.try_write(&slices) else { break };
                frame.advance(n);
            }
            if frame.is_empty() {
                return true;
            }
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        drop(queue);
        self.0.more.notify_one();
        true
    }

    /// Returns when the queue is below its mark, or nothing can be sent any more.
    pub async fn ready(&self) {
        loop {
            let room = self.0.room.notified();
            {
                let queue = self.0.queue.lock();
                if queue.closed || queue.bytes < HIGH_WATER {
                    return;
                }
            }
            room.await;
        }
    }

    /// Takes no more frames; the writer ends, and closes the sink, once the queue is written.
    pub fn close(&self) {
        self.0.queue.lock().closed = true;
        self.0.more.notify_one();
        self.0.room.notify_waiters();
    }
}

impl Shared {
    /// The next frames to write, or `None` when the output is closed and all is written.
    async fn take(&self) -> Option<VecDeque<Frame>> {
        loop {
            {
                let mut queue = self.queue.lock();
                let n = queue.frames.len().min(BATCH);
                let batch: VecDeque<_> = queue.frames.drain(..n).collect();
                queue.writing = !batch.is_empty();
                if queue.writing {
                    return Some(batch);
                }
                if queue.closed {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }

    fn written(&self, bytes: usize) {
        let mut queue = self.queue.lock();
        queue.bytes -= bytes;
        let room = queue.bytes < HIGH_WATER;
        drop(queue);
        if room {
            self.room.notify_waiters();
        }
    }
}

impl Writer {
    /// Writes until the output is closed and its queue is empty, or the other side is gone.
    pub async fn run(mut self) -> io::Result<()> {
        let outcome = self.write_all().await;
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        queue.writing = false;
        queue.direct = None;
        queue.frames.clear();
        drop(queue);
        self.shared.room.notify_waiters();
        outcome
    }

    async fn write_all(&mut self) -> io::Result<()> {
        while let Some(mut batch) = self.shared.take().await {
            match &mut self.sink {
                Sink::Direct(direct) => write_direct(direct, &mut batch, &self.shared).await?,
                Sink::Any(sink) => {
                    for frame in batch {
                        for part in &frame.0 {
                            sink.write_all(part).await?;
                        }
                        self.shared.written(frame.len());
                    }
                    sink.flush().await?;
                }
            }
        }
        match &mut self.sink {
            Sink::Direct(_) => Ok(()),
            Sink::Any(sink) => sink.shutdown().await,
        }
    }
}

async fn write_direct(direct: &PollableFd, batch: &mut VecDeque<Frame>, shared: &Shared) -> io::Result<()> {
    while !batch.is_empty() {
        let attempt = {
            let slices: Vec<_> = batch.iter().flat_map(Frame::slices).collect();
            direct.try_write(&slices)
        };
        match attempt {
            Ok(written) => {
                shared.written(written);
                let mut left = written;
                while let Some(frame) = batch.front_mut() {
                    left = frame.advance(left);
                    if !frame.is_empty() {
                        break;
                    }
                    batch.pop_front();
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => direct.writable().await?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::time::{Duration, timeout};

    fn frame(n: usize) -> Frame {
        Frame::notification(&format!("n{n}"), None)
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_full_pipe_does_not_take_follows_in_order() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(sender));
        let writer = tokio::spawn(writer.run());
        let expected: String =
            (0..20_000).map(|n| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n{n}\"}}\n")).collect();
        (0..20_000).for_each(|n| assert!(output.send(frame(n))));
        output.close();
        let mut got = String::new();
        receiver.read_to_string(&mut got).await.unwrap();
        assert!(got == expected);
        writer.await.unwrap().unwrap();
        assert!(!output.send(frame(0)));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_reader_that_is_gone_ends_the_writer() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(sender));
        drop(receiver);
        output.send(frame(0));
        assert_eq!(writer.run().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        output.ready().await;
    }

    #[tokio::test(start_paused = true)]
    async fn ready_waits_while_the_queue_is_high() {
        let (sink, mut source) = tokio::io::duplex(64);
        let (output, writer) = Output::any(sink);
        let _writer = tokio::spawn(writer.run());
        let body = super::super::Raw::from(vec![b'1'; HIGH_WATER]);
        output.ready().await;
        output.send(Frame::notification("big", Some(body)));
        assert!(timeout(Duration::from_secs(1), output.ready()).await.is_err());
        let mut sunk = vec![0; HIGH_WATER];
        source.read_exact(&mut sunk).await.unwrap();
        let rest = async { source.read_to_end(&mut sunk).await };
        tokio::select! {
            () = output.ready() => {}
            _ = rest => unreachable!("the output is open"),
        }
    }
}
