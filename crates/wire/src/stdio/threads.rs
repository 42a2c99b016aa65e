//! Reading and writing files that can only be used by blocking, each in a thread of its own that lives as long as the process.
//!
//! A thread is woken once for everything that has come meanwhile, so many messages cost one wake-up. Both directions are
//! bounded: the reader's thread is at most two chunks ahead, and the writer takes no more while `MAX_UNWRITTEN_BYTES` are
//! not written.

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::thread::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// The size of a read, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// The number of unwritten bytes at which the writer takes no more.
const MAX_UNWRITTEN_BYTES: usize = 64 << 10;

/// Reads `source` in a thread.
///
/// # Errors
///
/// Fails if the system refuses a thread.
pub(super) fn reader(mut source: impl Read + Send + 'static) -> io::Result<ThreadReader> {
    let (sender, chunks) = mpsc::channel(1);
    Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut buffer = BytesMut::new();
        loop {
            // Takes the same memory again once it was read.
            buffer.resize(CHUNK_BYTES, 0);
            let chunk = match source.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(buffer.split_to(length).freeze()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The other end is closed (Windows).
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
                Err(error) => Err(error),
            };
            let is_last = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(ThreadReader { chunks, current: Bytes::new() })
}

/// Chunks that a thread reads.
pub(super) struct ThreadReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl AsyncRead for ThreadReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match ready!(self.chunks.poll_recv(context)) {
                Some(chunk) => self.current = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.current.len().min(buffer.remaining());
        buffer.put_slice(&self.current[..length]);
        self.current.advance(length);
        Poll::Ready(Ok(()))
    }
}

/// Writes to `sink` in a thread.
///
/// # Errors
///
/// Fails if the system refuses a thread.
pub(super) fn writer(sink: impl Write + Send + 'static) -> io::Result<ThreadWriter> {
    let shared = Arc::new(Unwritten { state: Mutex::default(), more: Condvar::new() });
    let of_thread = shared.clone();
    Builder::new().name("stdout".to_owned()).spawn(move || of_thread.write_to(sink))?;
    Ok(ThreadWriter(shared))
}

/// The writing end, whose bytes a thread writes.
pub(super) struct ThreadWriter(Arc<Unwritten>);

/// The state of the writer and its thread.
struct Unwritten {
    state: Mutex<UnwrittenState>,
    /// Wakes the thread.
    more: Condvar,
}

#[derive(Default)]
struct UnwrittenState {
    /// The bytes that the thread has not taken yet.
    bytes: Vec<u8>,
    /// Whether the thread is writing bytes that it has taken.
    is_writing: bool,
    /// Whether nothing follows.
    is_closed: bool,
    /// Why nothing can be written any more.
    error: Option<io::ErrorKind>,
    /// Waits until there is room, or everything is written.
    waker: Option<Waker>,
}

impl Unwritten {
    /// The thread.
    fn write_to(&self, mut sink: impl Write) {
        let mut taken = Vec::new();
        loop {
            {
                let mut state = self.state.lock();
                while state.bytes.is_empty() && !state.is_closed {
                    self.more.wait(&mut state);
                }
                if state.bytes.is_empty() {
                    return;
                }
                std::mem::swap(&mut state.bytes, &mut taken);
                state.is_writing = true;
            }
            let written = sink.write_all(&taken).and_then(|()| sink.flush());
            taken.clear();
            let mut state = self.state.lock();
            state.is_writing = false;
            state.error = written.err().map(|error| error.kind());
            let (waker, has_failed) = (state.waker.take(), state.error.is_some());
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
            if has_failed {
                return;
            }
        }
    }
}

impl ThreadWriter {
    /// Waits until `is_ready`, or an error.
    ///
    /// # Errors
    ///
    /// Fails as the thread's last write did.
    fn poll_until(
        &self,
        context: &Context<'_>,
        is_ready: impl Fn(&UnwrittenState) -> bool,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.state.lock();
        if let Some(kind) = state.error {
            return Poll::Ready(Err(kind.into()));
        }
        if is_ready(&state) {
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for ThreadWriter {
    /// Takes at most [`MAX_UNWRITTEN_BYTES`]. Wakes the thread only if there is no room: a flush wakes it otherwise.
    ///
    /// # Errors
    ///
    /// Fails as the thread's last write did.
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let has_room = |state: &UnwrittenState| state.bytes.len() < MAX_UNWRITTEN_BYTES;
        let polled = self.poll_until(context, has_room);
        if polled.is_pending() {
            self.0.more.notify_one();
        }
        ready!(polled)?;
        let mut state = self.0.state.lock();
        let length = bytes.len().min(MAX_UNWRITTEN_BYTES);
        state.bytes.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    /// Wakes the thread, and waits until everything is written.
    ///
    /// # Errors
    ///
    /// Fails as the thread's last write did.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.more.notify_one();
        self.poll_until(context, |state| state.bytes.is_empty() && !state.is_writing)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.more.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    async fn everything_is_read_in_order_until_the_end() {
        let (source, mut sink) = io::pipe().unwrap();
        let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = text.clone();
        let writing = std::thread::spawn(move || sink.write_all(&text));
        let mut read = Vec::new();
        timeout(DEADLINE, reader(source).unwrap().read_to_end(&mut read)).await.unwrap().unwrap();
        assert!(read == expected);
        writing.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_message_is_read_while_the_source_stays_open() {
        let (source, mut sink) = io::pipe().unwrap();
        let mut reader = reader(source).unwrap();
        for _ in 0..3 {
            sink.write_all(b"message").unwrap();
            let mut message = [0; 7];
            timeout(DEADLINE, reader.read_exact(&mut message)).await.unwrap().unwrap();
            assert_eq!(&message, b"message");
        }
    }

    #[tokio::test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    async fn what_is_flushed_is_written_in_order() {
        let (mut source, sink) = io::pipe().unwrap();
        let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = text.clone();
        let reading = std::thread::spawn(move || {
            let mut read = Vec::new();
            source.read_to_end(&mut read).map(|_| read)
        });
        let mut writer = writer(sink).unwrap();
        timeout(DEADLINE, async {
            for part in text.chunks(1000) {
                writer.write_all(part).await.unwrap();
            }
            writer.flush().await.unwrap();
        })
        .await
        .unwrap();
        drop(writer);
        assert!(reading.join().unwrap().unwrap() == expected);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_stops_the_writer_and_one_that_is_gone_is_an_error() {
        let (source, sink) = io::pipe().unwrap();
        let mut writer = writer(sink).unwrap();
        let endless = async {
            loop {
                if let Err(error) = async {
                    writer.write_all(&[0; 1000]).await?;
                    writer.flush().await
                }
                .await
                {
                    return error.kind();
                }
            }
        };
        let mut endless = std::pin::pin!(endless);
        assert!(timeout(Duration::from_millis(100), &mut endless).await.is_err());
        drop(source);
        assert_eq!(timeout(DEADLINE, endless).await.unwrap(), io::ErrorKind::BrokenPipe);
    }
}
