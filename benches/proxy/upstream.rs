//! An upstream that is as fast as a pipe, so that the figures are those of the proxy. It is this same executable.
//!
//! It parses no JSON: it looks for the members that it needs in each line. The tool `echo` returns a text of 100 bytes,
//! `big` one of 1 MB.

use std::cell::LazyCell;
use std::io::{BufRead, Write, stdin, stdout};

const SMALL_BYTES: usize = 100;
const BIG_BYTES: usize = 1_000_000;

/// Serves stdin and stdout. An upstream that hangs reads its requests and answers none.
pub(crate) fn serve(hangs: bool) {
    // Made at the first request for it, because this program has to start fast.
    let big = LazyCell::new(|| text_result(BIG_BYTES));
    let small = text_result(SMALL_BYTES);
    let mut input = std::io::BufReader::with_capacity(1 << 20, stdin().lock());
    let mut output = stdout().lock();
    let (mut line, mut response) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(id) = scalar(&line, b"\"id\":").filter(|_| !hangs) {
            response.clear();
            write!(response, "{{\"jsonrpc\":\"2.0\",\"id\":").unwrap();
            response.extend_from_slice(id);
            response.extend_from_slice(b",\"result\":");
            response.extend_from_slice(result(&line, &small, &big));
            response.extend_from_slice(b"}\n");
            if output.write_all(&response).and_then(|()| output.flush()).is_err() {
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
    match scalar(line, b"\"method\":").unwrap_or_default() {
        b"\"initialize\"" => {
            br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#
        }
        b"\"tools/list\"" => {
            br#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"big","inputSchema":{"type":"object"}}]}"#
        }
        b"\"tools/call\"" if scalar(line, b"\"name\":") == Some(b"\"big\"") => big,
        b"\"tools/call\"" => small,
        _ => b"{}",
    }
}

/// The scalar after the first `key` of the line. This suffices for messages that have no such key inside a string.
fn scalar<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = line.windows(key.len()).position(|window| window == key)? + key.len();
    let value = &line[start..];
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}' | b'\n'))?;
    Some(&value[..end])
}

/// The result of a tool call with a text of this many bytes.
fn text_result(bytes: usize) -> Vec<u8> {
    let mut words = "lorem ipsum dolor sit amet ".repeat(bytes / 27 + 1);
    words.truncate(bytes);
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}]}}").into_bytes()
}
