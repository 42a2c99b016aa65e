//! The writing end of a connection. What the pipe takes is written at once; the rest is queued in order.
//!
//! Sending never waits. A task that feeds an output awaits `ready` before it reads more. So the queue is bounded by
//! `HIGH_WATER` plus one message of each task that feeds it, and a slow reader stops only those tasks.

use super::Frame;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

#[cfg(unix)]
use tokio::net::{UnixStream, unix::pipe};

/// The number of queued bytes above which `ready` waits: some hundred small messages. An answer waits behind everything
/// that is queued, so this is no more than keeps a pipe busy.
const HIGH_WATER: usize = 64 << 10;
/// The largest number of frames in one write.
const MAX_FRAMES_PER_WRITE: usize = 64;

/// Sends frames. Cheap to clone.
#[derive(Clone)]
pub struct Output(Arc<Shared>);

/// What an output and its writer share.
struct Shared {
    /// The frames that are not written yet.
    queue: Mutex<Queue>,
    /// Wakes the writer.
    more: Notify,
    /// Wakes the tasks that wait in `ready`.
    room: Notify,
}

/// The frames that are not written yet.
struct Queue {
    /// The frames that the writer has not taken.
    frames: VecDeque<Frame>,
    /// The number of bytes that are not written, including those that the writer has taken.
    bytes: usize,
    /// Whether the writer holds frames that are not written yet.
    writing: bool,
    /// Whether new frames are rejected.
    closed: bool,
    /// The number of queued bytes above which the output gives up its reader.
    limit: usize,
    /// Whether it did.
    overflowed: bool,
    /// Written to at once when nothing is queued; `None` for sinks that may block.
    direct: Option<Arc<PollableFd>>,
}

/// A non-blocking descriptor.
#[cfg(unix)]
pub enum PollableFd {
    /// The writing end of a pipe.
    Pipe(pipe::Sender),
    /// A Unix socket.
    Socket(Arc<UnixStream>),
}

/// A non-blocking descriptor. This system has none.
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

/// Writes the queue. The owner of the connection runs it.
pub struct Writer {
    /// What it shares with the output.
    shared: Arc<Shared>,
    /// Where it writes.
    sink: Sink,
}

/// Where a writer writes.
enum Sink {
    /// A non-blocking descriptor, which the output writes, too.
    Direct(Arc<PollableFd>),
    /// Any other sink.
    Any(Box<dyn AsyncWrite + Send + Unpin>),
}

impl Output {
    /// An output on a non-blocking descriptor, which is written at once while it has room.
    pub fn direct(direct: PollableFd) -> (Self, Writer) {
        let direct = Arc::new(direct);
        Self::new(Some(direct.clone()), Sink::Direct(direct))
    }

    /// An output on any other sink, which only the writer writes.
    pub fn any(sink: impl AsyncWrite + Send + Unpin + 'static) -> (Self, Writer) {
        Self::new(None, Sink::Any(Box::new(sink)))
    }

    fn new(direct: Option<Arc<PollableFd>>, sink: Sink) -> (Self, Writer) {
        let queue = Queue {
            frames: VecDeque::new(),
            bytes: 0,
            writing: false,
            closed: false,
            limit: usize::MAX,
            overflowed: false,
            direct,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), more: Notify::new(), room: Notify::new() });
        (Self(shared.clone()), Writer { shared, sink })
    }

    /// Writes or queues a frame. Returns false if the output is closed; the frame is dropped then.
    pub fn send(&self, mut frame: Frame) -> bool {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return false;
        }
        if let (Some(direct), false, true) = (&queue.direct, queue.writing, queue.frames.is_empty()) {
            while !frame.is_empty() {
                let slices: Vec<_> = frame.slices().collect();
                // The writer gets the same error when it tries, and reports it.
                let Ok(n) = direct.try_write(&slices) else { break };
                frame.advance(n);
            }
            if frame.is_empty() {
                return true;
            }
        }
        if queue.bytes > queue.limit {
            queue.closed = true;
            queue.overflowed = true;
            queue.frames.clear();
            drop(queue);
            self.0.room.notify_waiters();
            return false;
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        drop(queue);
        self.0.more.notify_one();
        true
    }

    /// Returns whether `ready` would return at once.
    pub fn is_ready(&self) -> bool {
        let queue = self.0.queue.lock();
        queue.closed || queue.bytes < HIGH_WATER
    }

    /// Waits until the queue is below `HIGH_WATER`, or the output is closed. Cancel-safe.
    pub async fn ready(&self) {
        loop {
            let room = self.0.room.notified();
            if self.is_ready() {
                return;
            }
            room.await;
        }
    }

    /// Gives up a reader that lets more than `bytes` pile up: the output then drops what is queued and takes no more. For
    /// connections whose feeders must not wait for a slow reader.
    pub fn set_limit(&self, bytes: usize) {
        self.0.queue.lock().limit = bytes;
    }

    /// Waits until more bytes are queued than the limit allows. Cancel-safe.
    pub async fn overflowed(&self) {
        loop {
            let room = self.0.room.notified();
            if self.0.queue.lock().overflowed {
                return;
            }
            room.await;
        }
    }

    /// Takes no more frames. The writer ends, and closes the sink, once the queue is written.
    pub fn close(&self) {
        self.0.queue.lock().closed = true;
        self.0.more.notify_one();
        self.0.room.notify_waiters();
    }
}

impl Shared {
    /// Takes the next frames to write; `None` when the output is closed and the queue is empty.
    async fn take(&self) -> Option<VecDeque<Frame>> {
        loop {
            {
                let mut queue = self.queue.lock();
                let n = queue.frames.len().min(MAX_FRAMES_PER_WRITE);
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
    /// Writes until the output is closed and its queue is empty.
    ///
    /// # Errors
    ///
    /// Fails when the other side no longer reads.
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
    async fn frames_that_do_not_fit_the_pipe_follow_in_order() {
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
    async fn the_writer_ends_when_the_reader_is_gone() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(sender));
        drop(receiver);
        output.send(frame(0));
        assert_eq!(writer.run().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        output.ready().await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn an_output_with_a_limit_gives_up_a_reader_that_does_not_read() {
        let (sender, _receiver) = pipe::pipe().unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(sender));
        output.set_limit(1000);
        let writing = tokio::spawn(writer.run());
        let large = || Frame::notification("large", Some(super::super::Raw::from(vec![b'1'; 1 << 20])));
        assert!(output.send(large()));
        assert!(timeout(Duration::from_millis(20), output.overflowed()).await.is_err());
        assert!(!output.send(large()));
        timeout(Duration::from_secs(5), output.overflowed()).await.unwrap();
        writing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn ready_waits_while_the_queue_is_above_the_limit() {
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
