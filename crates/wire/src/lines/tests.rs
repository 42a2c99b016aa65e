use super::*;
use proptest::prelude::*;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

async fn read_lines(input: Vec<u8>, limit: usize) -> Vec<Result<Bytes, MessageError>> {
    let mut lines = LineReader::new(Box::new(Cursor::new(input)), limit);
    let mut out = Vec::new();
    while let Some(line) = lines.next().await {
        out.push(line);
    }
    out
}

#[tokio::test]
async fn blank_lines_and_byte_order_marks_are_skipped() {
    let lines = read_lines(b"\n\r\n \t\n\xef\xbb\xbf{}\r\nlast".to_vec(), 100).await;
    assert_eq!(lines, [Ok("{}\r".into()), Ok("last".into())]);
}

#[tokio::test]
async fn an_oversized_line_is_reported_with_its_id_and_the_next_one_is_read() {
    let filler = "x".repeat(50_000);
    for message in [
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{filler}"}}}}"#),
        format!(r#"{{"result":{{"t":"{filler}","id":3}},"jsonrpc":"2.0","id":7}}"#),
        format!(r#"{{"result":{{"t":"{filler}"}},"id" : 7 ,"jsonrpc":"2.0"}}"#),
    ] {
        let bytes = message.len() as u64;
        let lines = read_lines(format!("{message}\n{{}}\n").into_bytes(), 10_000).await;
        let id = Some(Bytes::from("7"));
        assert_eq!(lines, [Err(MessageError::TooLong { id, bytes, limit: 10_000 }), Ok("{}".into())]);
    }
}

/// A line of 4 MB, as much at a time as there is room for. Notes the most.
struct Greedy {
    left: usize,
    most: Arc<AtomicUsize>,
}

impl AsyncRead for Greedy {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let given = buf.remaining().min(self.left);
        self.left -= given;
        self.most.fetch_max(given, Ordering::Relaxed);
        buf.put_bytes(b'x', given);
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn little_is_read_before_it_is_reserved() {
    let most = Arc::<AtomicUsize>::default();
    let greedy = Greedy { left: 4 << 20, most: most.clone() };
    let line = LineReader::new(Box::new(greedy), 8 << 20).next().await.unwrap().unwrap();
    assert_eq!((line.len(), most.load(Ordering::Relaxed)), (4 << 20, MAX_READ));
}

#[tokio::test]
async fn the_memory_of_a_long_line_is_its_own() {
    let text = format!("{}\n{{\"half", "x".repeat(5 << 20));
    let mut lines = LineReader::new(Box::new(Cursor::new(text)), 8 << 20);
    assert_eq!(lines.next().await.unwrap().unwrap().len(), 5 << 20);
    assert!(lines.buffer.capacity() <= MAX_READ, "{}", lines.buffer.capacity());
}

#[tokio::test]
async fn the_buffer_shrinks_after_a_large_message() {
    let (mut tx, rx) = tokio::io::duplex(4096);
    let mut lines = LineReader::new(Box::new(rx), 1 << 20);
    let writing = tokio::spawn(async move {
        let large = format!("{}\n{{\"half", "x".repeat(500_000));
        tokio::io::AsyncWriteExt::write_all(&mut tx, large.as_bytes()).await.unwrap();
        tx
    });
    assert_eq!(lines.next().await.unwrap().unwrap().len(), 500_000);
    let _open = writing.await.unwrap();
    let more = tokio::time::timeout(std::time::Duration::from_millis(20), lines.next()).await;
    assert!(more.is_err());
    assert_eq!(lines.buffer, &b"{\"half"[..]);
    assert!(lines.buffer.capacity() <= 2 * MIN_BUFFER, "{}", lines.buffer.capacity());
}

#[tokio::test]
async fn an_id_inside_a_body_is_not_taken_for_the_message_id() {
    let filler = "x".repeat(50_000);
    let lines = read_lines(format!(r#"{{"result":{{"id":3,"t":"{filler}"}}}}"#).into_bytes(), 1000).await;
    assert!(matches!(&lines[..], [Err(MessageError::TooLong { id: None, .. })]), "{lines:?}");
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_the_chunks_of_the_stream(text in "[a-c\n]{0,60}", cut in 1usize..7) {
        let expected: Vec<_> = text.split('\n').filter(|l| !l.is_empty()).map(String::from).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(async {
            let (mut tx, rx) = tokio::io::duplex(cut);
            let writer = async move {
                tokio::io::AsyncWriteExt::write_all(&mut tx, text.as_bytes()).await.unwrap();
            };
            let reader = async {
                let mut lines = LineReader::new(Box::new(rx), 1000);
                let mut out = Vec::new();
                while let Some(line) = lines.next().await {
                    out.push(String::from_utf8(line.unwrap().to_vec()).unwrap());
                }
                out
            };
            tokio::join!(writer, reader).1
        });
        prop_assert_eq!(got, expected);
    }
}
