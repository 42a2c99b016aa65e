//! An upstream that is as fast as a pipe, so that what is measured is the proxy: this very program, run once more.
//!
//! No JSON parser: it looks for the members it needs in each line. `echo` gives a text of 100 bytes, `big` one of 1 MB.

use std::cell::LazyCell;
use std::io::{BufRead, Write, stdin, stdout};

const SMALL: usize = 100;
const BIG: usize = 1_000_000;

/// Serves stdin and stdout; one that hangs reads and never answers.
pub(crate) fn serve(hang: bool) {
    // Made when it is asked for first: this program has to start fast.
    let big = LazyCell::new(|| text(BIG));
    let small = text(SMALL);
    let mut input = std::io::BufReader::with_capacity(1 << 20, stdin().lock());
    let mut output = stdout().lock();
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(id) = member(&line, b"\"id\":").filter(|_| !hang) {
            answer.clear();
            write!(answer, "{{\"jsonrpc\":\"2.0\",\"id\":").unwrap();
            answer.extend_from_slice(id);
            answer.extend_from_slice(b",\"result\":");
            answer.extend_from_slice(result(&line, &small, &big));
            answer.extend_from_slice(b"}\n");
            if output.write_all(&answer).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

fn result<'a>(
    line: &[u8],
    small: &'a [u8],
    big: &'a LazyCell<Vec<u8>, impl FnOnce() -> Vec<u8>>,
) -> &'a [u8] {
    match member(line, b"\"method\":").unwrap_or_default() {
        b"\"initialize\"" => {
            br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#
        }
        b"\"tools/list\"" => {
            br#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"big","inputSchema":{"type":"object"}}]}"#
        }
        b"\"tools/call\"" if member(line, b"\"name\":") == Some(b"\"big\"") => big,
        b"\"tools/call\"" => small,
        _ => b"{}",
    }
}

/// The scalar after the first `key` of the line: enough for messages without such words in their strings.
fn member<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = line.windows(key.len()).position(|window| window == key)? + key.len();
    let value = &line[start..];
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}' | b'\n'))?;
    Some(&value[..end])
}

/// A result of so many bytes of text.
fn text(bytes: usize) -> Vec<u8> {
    let mut words = "lorem ipsum dolor sit amet ".repeat(bytes / 27 + 1);
    words.truncate(bytes);
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}]}}").into_bytes()
}
