//! Turns the messages that a server sends into the lines that the peer reads.

use bytes::Buf;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use wire::Raw;

/// Reads the messages of a queue as bytes, each followed by a line feed. At the end of the queue it is at its end.
pub(crate) struct MessageReader {
    messages: mpsc::Receiver<Raw>,
    /// The unread rest of the current message, whose line feed is still to be read.
    rest: Option<Raw>,
}

impl MessageReader {
    /// Reads from `messages`, none of which may contain a line feed.
    pub(crate) fn new(messages: mpsc::Receiver<Raw>) -> Self {
        Self { messages, rest: None }
    }
}

impl AsyncRead for MessageReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_none() {
            self.rest = ready!(self.messages.poll_recv(cx));
        }
        if let Some(rest) = &mut self.rest {
            let n = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..n]);
            rest.advance(n);
            if rest.is_empty() && buf.remaining() > 0 {
                buf.put_slice(b"\n");
                self.rest = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Replaces the line ends in a JSON text with spaces. The result is the same JSON, because a JSON string contains no
/// unescaped line end.
pub(crate) fn to_single_line(mut text: Vec<u8>) -> Raw {
    if memchr::memchr2(b'\n', b'\r', &text).is_some() {
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lines::LineReader;

    #[tokio::test]
    async fn messages_of_any_size_are_read_as_lines() {
        let (sender, receiver) = mpsc::channel(4);
        let large = "x".repeat(100_000);
        let read = tokio::spawn(async move {
            let mut lines = LineReader::new(Box::new(MessageReader::new(receiver)), 1 << 20);
            let mut read = Vec::new();
            while let Some(Ok(line)) = lines.next().await {
                read.push(line.len());
            }
            read
        });
        for message in ["{}", &large, "", "[1]"] {
            sender.send(Raw::copy_from_slice(message.as_bytes())).await.unwrap();
        }
        drop(sender);
        assert_eq!(read.await.unwrap(), [2, 100_000, 3]);
    }

    #[test]
    fn line_ends_are_replaced_with_spaces() {
        assert_eq!(to_single_line(b"{\r\n\"a\": 1e400\n}".to_vec()), "{  \"a\": 1e400 }");
    }
}
