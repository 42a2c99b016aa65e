//! Messages as a stream of lines.

use crate::wire::Raw;
use bytes::Buf;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// Reads the messages of a queue, one a line.
pub struct Intake {
    messages: mpsc::Receiver<Raw>,
    /// Of the message that is being read; its line end follows it.
    rest: Option<Raw>,
}

impl Intake {
    pub fn new(messages: mpsc::Receiver<Raw>) -> Self {
        Self { messages, rest: None }
    }
}

impl AsyncRead for Intake {
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

/// JSON text on one line. Within its strings no line ends stand as such, so it is the same JSON.
pub fn one_line(text: Vec<u8>) -> Raw {
    let mut text = text;
    if memchr::memchr2(b'\n', b'\r', &text).is_some() {
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::lines::LineReader;

    #[tokio::test]
    async fn messages_are_read_as_lines_however_small_the_reads() {
        let (sender, receiver) = mpsc::channel(4);
        let large = "x".repeat(100_000);
        let read = tokio::spawn(async move {
            let mut lines = LineReader::new(Intake::new(receiver), 1 << 20);
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
    fn line_ends_become_spaces() {
        assert_eq!(one_line(b"{\r\n\"a\": 1e400\n}".to_vec()), "{  \"a\": 1e400 }");
    }
}
