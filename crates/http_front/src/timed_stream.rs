//! A connection that fails once its other side has read nothing for a while, so that nobody keeps answers in our memory.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a write may wait for the other side.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection with a deadline for each write.
pub(crate) struct TimedStream<S> {
    stream: S,
    /// Ends the wait. Made at the first write that has to wait, which few connections have.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether a write waits.
    waits: bool,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, deadline: None, waits: false }
    }

    /// Passes on the outcome of a write; one that waits too long fails.
    fn within_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        if !std::mem::replace(&mut self.waits, true) {
            deadline.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_deadline(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.within_deadline(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_if_nothing_is_read_for_a_while() {
        let (near, far) = duplex(4);
        let begin = Instant::now();
        let written = TimedStream::new(near).write_all(b"more than fits").await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed(), WRITE_TIMEOUT);
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_everything() {
        let (near, mut far) = duplex(4);
        let writer = tokio::spawn(async move { TimedStream::new(near).write_all(b"more than fits").await });
        let mut read = Vec::new();
        while read.len() < 14 {
            sleep(WRITE_TIMEOUT - Duration::from_secs(1)).await;
            let mut part = [0; 4];
            let length = far.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..length]);
        }
        assert_eq!(read, b"more than fits");
        assert!(writer.await.unwrap().is_ok());
    }
}
