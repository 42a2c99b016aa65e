//! An upstream that is as fast as a pipe, so that the figures are those of the proxy. It is this same executable.
//!
//! It parses no JSON: it looks for the members that it needs in each line. The tool `r100` returns a text of 100 bytes, and
//! there is one for each size.

use std::io::{BufRead, Write, stdin, stdout};

/// The sizes of arguments and results, in bytes.
pub(crate) const SIZES: [usize; 5] = [100, 10_000, 146_000, 1_000_000, 10_000_000];

/// Serves stdin and stdout. An upstream that hangs reads its requests and answers none.
pub(crate) fn serve(hangs: bool) {
    // Each is made when it is first asked for, because this program has to start fast.
    let mut results = [const { Vec::new() }; SIZES.len()];
    let mut input = std::io::BufReader::with_capacity(1 << 20, stdin().lock());
    #[expect(clippy::disallowed_methods, reason = "stdout is the protocol's")]
    let mut output = stdout().lock();
    let (mut line, mut response) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(id) = scalar(&line, b"\"id\":").filter(|_| !hangs) {
            response.clear();
            write!(response, "{{\"jsonrpc\":\"2.0\",\"id\":").unwrap();
            response.extend_from_slice(id);
            response.extend_from_slice(b",\"result\":");
            response.extend_from_slice(result(&line, &mut results));
            response.extend_from_slice(b"}\n");
            if output.write_all(&response).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

fn result<'a>(line: &[u8], results: &'a mut [Vec<u8>; SIZES.len()]) -> &'a [u8] {
    match scalar(line, b"\"method\":").unwrap_or_default() {
        b"\"initialize\"" => {
            br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#
        }
        b"\"tools/list\"" => {
            concat!(
                r#"{"tools":[{"name":"r100","inputSchema":{"type":"object"}},"#,
                r#"{"name":"r10000","inputSchema":{"type":"object"}},"#,
                r#"{"name":"r146000","inputSchema":{"type":"object"}},"#,
                r#"{"name":"r1000000","inputSchema":{"type":"object"}},"#,
                r#"{"name":"r10000000","inputSchema":{"type":"object"}}]}"#,
            )
            .as_bytes()
        }
        b"\"tools/call\"" => {
            let name = scalar(line, b"\"name\":").unwrap_or_default();
            let index = SIZES.iter().position(|size| name == format!("\"r{size}\"").as_bytes()).unwrap();
            let result = &mut results[index];
            if result.is_empty() {
                *result = text_result(SIZES[index]);
            }
            result
        }
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
