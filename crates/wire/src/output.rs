//! The writing end of a connection. Frames are queued in order, and written together.
//!
//! Frames that are sent in one turn are written together at its end (`coalesce`). All other frames, and the bytes that the
//! descriptor does not take at once, are left to the writer. The writer is a task of its own. The runtime runs it after
//! the tasks that were ready before it, so one write takes everything that they sent, and nothing waits longer than that.
//!
//! Sending never waits. A task that feeds an output awaits `ready` before it reads more. So the queue is bounded by
//! `HIGH_WATER` plus one message of each task that feeds it, and a slow reader stops only those tasks.
//!
//! Who reads the requests of a side also feeds the output to that side. Only replies count there (`replies_taken`): a
//! side that writes a long answer before it reads our next request would wait for us else, and we for it.

use super::Frame;
use crate::budget::Reservation;
pub use crate::output::pollable_fd::PollableFd;
use batch::{WrittenBytes, advance, try_write};
use queue_limit::QueueLimit;
use shared::{HIGH_WATER, Shared};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncWrite, AsyncWriteExt};

mod batch;
pub mod coalesce;
pub mod frame;
mod frame_queue;
#[cfg(unix)]
pub mod pipe_size;
pub mod pollable_fd;
mod queue_limit;
mod shared;
mod unread;

pub use frame_queue::FrameQueue;
pub use unread::NotReading;

/// Sends frames. Cheap to clone.
#[derive(Clone)]
pub struct Output(Arc<Shared>);

/// Writes the queue. The owner of the connection runs it.
pub struct Writer {
    /// The queue, which the output fills.
    shared: Arc<Shared>,
    /// Where it writes.
    sink: Sink,
}

/// Where a writer writes.
enum Sink {
    /// A non-blocking descriptor.
    Direct(Arc<PollableFd>),
    /// Any other sink.
    Any(Box<dyn AsyncWrite + Send + Unpin>),
}

impl Output {
    /// Creates an output on a non-blocking descriptor, which takes many frames in one write.
    pub fn direct(direct: PollableFd) -> (Self, Writer) {
        Self::new(Sink::Direct(Arc::new(direct)))
    }

    /// Creates an output on any other sink.
    pub fn any(sink: impl AsyncWrite + Send + Unpin + 'static) -> (Self, Writer) {
        Self::new(Sink::Any(Box::new(sink)))
    }

    /// Creates an output whose frames another part of the program takes, one after the other. It is closed once more than
    /// `limit` bytes are queued (see [`set_limit`](Self::set_limit)), or if the reservation finds no room for them.
    pub fn queued(limit: usize, reservation: Reservation) -> (Self, FrameQueue) {
        let shared = Shared::new(None, QueueLimit::reserved(limit, reservation));
        (Self(shared.clone()), FrameQueue { shared, taken: VecDeque::new() })
    }

    fn new(sink: Sink) -> (Self, Writer) {
        let direct = match &sink {
            Sink::Direct(direct) => Some(direct.clone()),
            Sink::Any(_) => None,
        };
        let shared = Shared::new(direct, QueueLimit::fixed(usize::MAX));
        (Self(shared.clone()), Writer { shared, sink })
    }

    /// Queues a frame, without waiting. Returns false if the output is closed; the frame is dropped then. Closes the
    /// output if more bytes are queued than `set_limit` allows.
    pub fn send(&self, frame: Frame) -> bool {
        let mut queue = self.0.queue.lock();
        if queue.closed {
            return false;
        }
        let bytes = queue.bytes;
        if bytes > queue.limit.bytes && !queue.limit.raise(bytes) {
            queue.closed = true;
            queue.overflowed = true;
            queue.frames.clear();
            self.0.close(queue);
            return false;
        }
        // If frames are queued, it is known who writes them.
        let is_first = queue.frames.is_empty() && !queue.writing;
        let bytes = frame.len();
        queue.bytes += bytes;
        if frame.is_reply {
            queue.reply_bytes += bytes;
        }
        queue.frames.push_back(frame);
        if queue.bytes >= HIGH_WATER {
            self.0.is_full.store(true, Ordering::Release);
        }
        drop(queue);
        if is_first && !coalesce::add(&self.0) {
            self.0.more.notify_one();
        }
        true
    }

    /// Returns whether `ready` would return at once.
    pub fn is_ready(&self) -> bool {
        !self.0.is_full.load(Ordering::Acquire)
    }

    /// Returns how many bytes are queued or being written.
    pub fn unwritten_bytes(&self) -> usize {
        self.0.queue.lock().bytes
    }

    /// Waits until the queue is below `HIGH_WATER`, or the output is closed. Tasks that wait take turns. The future whose
    /// turn it is may belong to a task that waits for something else, perhaps for this output; so nobody waits for a turn
    /// once the queue is empty. Cancel-safe, but a task that waits again comes last.
    pub async fn ready(&self) {
        if self.is_ready() {
            return;
        }
        let _turn = tokio::select! {
            biased;
            turn = self.0.turn.acquire() => Some(turn),
            () = self.drained() => None,
        };
        loop {
            let room = self.0.room.notified();
            if self.is_ready() {
                return;
            }
            room.await;
        }
    }

    /// Returns whether `replies_taken` would return at once.
    pub fn takes_replies(&self) -> bool {
        self.0.takes_replies()
    }

    /// Waits until less than `HIGH_WATER` bytes of replies are queued, or the output is closed. Who reads the requests of
    /// the other side awaits this before it handles one.
    ///
    /// # Errors
    ///
    /// Fails if the other side reads nothing for `UNREAD_TIMEOUT`.
    pub async fn replies_taken(&self) -> Result<(), NotReading> {
        self.0.replies_taken().await
    }

    /// Waits until nothing is queued, or the output is closed. Cancel-safe.
    async fn drained(&self) {
        loop {
            let drained = self.0.drained.notified();
            let is_drained = {
                let queue = self.0.queue.lock();
                queue.bytes == 0 || queue.closed
            };
            if is_drained {
                return;
            }
            drained.await;
        }
    }

    /// Gives up a reader that lets more than `bytes` pile up: the output then drops what is queued and takes no more. For
    /// connections whose feeders must not wait for a slow reader.
    pub fn set_limit(&self, bytes: usize) {
        self.0.queue.lock().limit = QueueLimit::fixed(bytes);
    }

    /// Waits until the output was closed because more bytes were queued than the limit allows. Never returns if it is
    /// closed for another reason. Cancel-safe.
    pub async fn overflowed(&self) {
        loop {
            let room = self.0.room.notified();
            if self.0.queue.lock().overflowed {
                return;
            }
            room.await;
        }
    }

    /// Takes no more frames. The writer ends, and closes the sink, once the queue is written. Returns before that.
    pub fn close(&self) {
        self.0.close(self.0.queue.lock());
        self.0.more.notify_one();
    }
}

impl Writer {
    /// Writes until the output is closed and its queue is empty. When this returns or is dropped, the output is closed.
    ///
    /// # Errors
    ///
    /// Fails as writing does, such as when the other side no longer reads.
    pub async fn run(mut self) -> io::Result<()> {
        let mut batch = VecDeque::new();
        while self.shared.take(&mut batch).await {
            match &mut self.sink {
                Sink::Direct(direct) => write_direct(direct, &mut batch, &self.shared).await?,
                Sink::Any(sink) => {
                    for frame in batch.drain(..) {
                        for part in frame.parts() {
                            sink.write_all(part).await?;
                        }
                        self.shared.note_written(self.shared.queue.lock(), WrittenBytes::of(&frame));
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

impl Drop for Writer {
    /// Closes the output, and with it the descriptor.
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.writing = false;
        queue.frames.clear();
        let direct = queue.direct.take();
        self.shared.close(queue);
        drop(direct);
    }
}

async fn write_direct(direct: &PollableFd, batch: &mut VecDeque<Frame>, shared: &Shared) -> io::Result<()> {
    while !batch.is_empty() {
        match try_write(direct, batch) {
            Ok(written) => {
                let written = advance(batch, written);
                shared.note_written(shared.queue.lock(), written);
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
    #[cfg(target_os = "linux")]
    use super::unread::{LOOK_INTERVAL, UNREAD_TIMEOUT};
    use super::*;
    use tokio::io::AsyncReadExt;
    #[cfg(unix)]
    use tokio::net::unix::pipe;
    #[cfg(target_os = "linux")]
    use tokio::time::Instant;
    use tokio::time::{Duration, timeout};

    /// Sends small frames until one is refused, and returns the bytes that were sent.
    fn fill(output: &Output) -> usize {
        let params = format!("\"{}\"", "x".repeat(900));
        let frame = || Frame::notification("n", Some(params.clone().into()));
        let sent = std::iter::repeat_with(frame).map(|frame| (frame.len(), output.send(frame)));
        sent.map_while(|(bytes, is_sent)| is_sent.then_some(bytes)).sum()
    }

    #[tokio::test]
    async fn the_queues_of_one_user_share_the_memory_for_messages() {
        let user = || Reservation::of_user(Some("reads nothing".into()));
        let queues: Vec<_> = (0..400).map(|_| Output::queued(1 << 20, user())).collect();
        let waiting: usize = queues.iter().map(|(output, _)| fill(output)).sum();
        assert!((50..90).contains(&(waiting >> 20)), "{waiting}");
        let (other, _queue) = Output::queued(1 << 20, Reservation::of_user(Some("another".into())));
        assert!(fill(&other) >= 1 << 20);
        drop(queues);
        let (again, mut queue) = Output::queued(1 << 20, user());
        assert!(fill(&again) >= 1 << 20);
        assert!(queue.try_next().is_none(), "a queue that overflowed is empty");
    }

    #[tokio::test]
    async fn a_queue_that_is_read_gives_its_memory_back() {
        let (output, mut queue) = Output::queued(1 << 20, Reservation::of_user(Some("reads".into())));
        let is_counted = || output.0.queue.lock().limit.bytes > crate::budget::UNCOUNTED_BYTES;
        for n in 0..100 {
            assert!(output.send(Frame::notification(&"n".repeat(1000 + n), None)));
        }
        assert!(is_counted());
        while queue.try_next().is_some() {}
        assert!(!is_counted());
    }

    #[cfg(unix)]
    fn frame(n: usize) -> Frame {
        Frame::notification(&format!("n{n}"), None)
    }

    #[cfg(unix)]
    #[tokio::test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
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

    /// A pipe that keeps writes apart: a read returns the bytes of one write (`O_DIRECT`, pipe(2)).
    #[cfg(target_os = "linux")]
    #[tokio::test]
    #[cfg_attr(miri, ignore = "Miri has no pipes with O_DIRECT")]
    async fn frames_of_one_wake_up_leave_in_one_write() {
        use nix::fcntl::OFlag;
        let (read, write) =
            nix::unistd::pipe2(OFlag::O_DIRECT | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).unwrap();
        let mut receiver = pipe::Receiver::from_owned_fd(read).unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(pipe::Sender::from_owned_fd(write).unwrap()));
        let writer = tokio::spawn(writer.run());
        for round in 0..3 {
            let expected: String =
                (0..40).map(|n| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n{n}\"}}\n")).collect();
            (0..40).for_each(|n| assert!(output.send(frame(n))));
            let mut got = vec![0; 4096];
            let read = timeout(Duration::from_secs(5), receiver.read(&mut got)).await.unwrap().unwrap();
            assert_eq!(String::from_utf8_lossy(&got[..read]), expected, "round {round}");
        }
        output.close();
        writer.await.unwrap().unwrap();
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

    #[tokio::test(start_paused = true)]
    async fn a_future_that_is_not_polled_keeps_nobody_from_an_empty_output() {
        let (mut reader, sink) = tokio::io::duplex(16);
        let (output, writer) = Output::any(sink);
        let writing = tokio::spawn(writer.run());
        output.send(Frame::notification("large", Some(super::super::Raw::from(vec![b'1'; HIGH_WATER]))));
        let mut not_polled = Box::pin(output.ready());
        assert!(futures_util::poll!(&mut not_polled).is_pending());
        let waiting = tokio::spawn({
            let output = output.clone();
            async move { output.ready().await }
        });
        let mut message = vec![0; HIGH_WATER];
        reader.read_exact(&mut message).await.unwrap();
        let mut rest = vec![0; 1024];
        while timeout(Duration::from_secs(1), reader.read(&mut rest)).await.is_ok() {}
        timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        drop(not_polled);
        writing.abort();
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

    #[cfg(target_os = "linux")]
    #[tokio::test]
    #[cfg_attr(miri, ignore = "Miri has no FIONREAD")]
    async fn a_side_that_reads_slowly_is_waited_for_and_one_that_does_not_read_is_given_up() {
        let (sender, mut receiver) = pipe::pipe().unwrap();
        let (output, writer) = Output::direct(PollableFd::Pipe(sender));
        let writing = tokio::spawn(writer.run());
        let id = super::super::Raw::from_static(b"1");
        while output.takes_replies() {
            output.send(Frame::response(&id, Ok(super::super::Raw::from(vec![b'1'; 1000]))));
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        let start = Instant::now();
        let mut taken = Box::pin(output.replies_taken());
        // So little that the pipe has no more room for a long time.
        let mut line = [0; 40];
        for _ in 0..20 {
            assert!(timeout(UNREAD_TIMEOUT - LOOK_INTERVAL, &mut taken).await.is_err());
            receiver.read_exact(&mut line).await.unwrap();
        }
        let last = Instant::now();
        assert_eq!(taken.await, Err(NotReading));
        assert!(last - start > UNREAD_TIMEOUT * 10);
        let waited = last.elapsed();
        assert!((UNREAD_TIMEOUT..=UNREAD_TIMEOUT + 2 * LOOK_INTERVAL).contains(&waited), "{waited:?}");
        // A request of ours that waits is no reply.
        assert!(output.send(frame(0)) && !output.takes_replies());
        writing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn only_replies_keep_the_other_side_waiting() {
        let (mut reader, sink) = tokio::io::duplex(16);
        let (output, writer) = Output::any(sink);
        let writing = tokio::spawn(writer.run());
        let large = || super::super::Raw::from(vec![b'1'; HIGH_WATER]);
        output.send(Frame::notification("large", Some(large())));
        assert!(!output.is_ready() && output.takes_replies());
        output.send(Frame::response(&super::super::Raw::from_static(b"1"), Ok(large())));
        assert!(!output.takes_replies());
        let reading =
            tokio::spawn(async move { reader.read_exact(&mut vec![0; 2 * HIGH_WATER]).await.map(drop) });
        timeout(Duration::from_secs(5), output.replies_taken()).await.unwrap().unwrap();
        reading.await.unwrap().unwrap();
        writing.abort();
    }

    /// A task that sends much does not keep another one from sending.
    #[tokio::test(start_paused = true)]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    async fn tasks_that_wait_take_turns() {
        let (sink, mut source) = tokio::io::duplex(64);
        let (output, writer) = Output::any(sink);
        let _writer = tokio::spawn(writer.run());
        let flood = |name: &'static str| {
            let output = output.clone();
            async move {
                for _ in 0..20 {
                    output.ready().await;
                    output.send(Frame::notification(
                        name,
                        Some(super::super::Raw::from(vec![b'1'; HIGH_WATER])),
                    ));
                }
            }
        };
        for name in ["a", "b", "c"] {
            tokio::spawn(flood(name));
        }
        let mut text = vec![0; 31 * (HIGH_WATER + 50)];
        source.read_exact(&mut text).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        for name in ["a", "b", "c"] {
            let sent = text.matches(&format!(r#""method":"{name}""#)).count();
            assert!(sent >= 9, "{name}: {sent}");
        }
    }

    #[tokio::test(start_paused = true)]
    #[cfg_attr(miri, ignore = "it takes minutes")]
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
