//! A message that is written over several lines, as pretty-printers do. MCP does not allow that for stdio; it is read
//! because the alternative is a call without an answer.
//!
//! The first line comes here after `Message::parse` has rejected it, and so does each line that is no message itself.
//! Only the braces are counted, so that the whole costs one pass; the joined text is parsed like any other line.

use super::Raw;
use super::tokens::Tokens;
use bytes::BytesMut;
use std::time::Duration;
use tokio::time::Instant;

/// How long an incomplete message waits for its next line.
const CONTINUATION_TIMEOUT: Duration = Duration::from_millis(200);
/// The bytes that JSON has outside of strings, with the letters of its literals and of `NaN` and `Infinity`.
const JSON_BYTES: &[u8] = b"{}[]:,+-.0123456789eE \t\rtruefalsnNaInity";

/// The lines of a message that is not complete.
pub struct UnfinishedMessage {
    /// The lines so far, joined by spaces, so that the message fits into one line.
    text: BytesMut,
    /// The number of open braces and brackets.
    depth: usize,
    /// The limit for the message, in bytes.
    limit: usize,
    /// When the message counts as cut off.
    deadline: Instant,
}

/// How a line relates to an unfinished message.
#[derive(Debug, PartialEq, Eq)]
pub enum Continuation {
    /// It continues the message, which is still incomplete.
    Incomplete,
    /// It completes the message, which is this line.
    Complete(Raw),
    /// It does not belong to the message, which is cut off therefore.
    Foreign,
}

impl UnfinishedMessage {
    /// Begins a message of at most `limit` bytes with its first line. `None`: the line is not the beginning of an
    /// object that may go on in the next line.
    pub fn begin(line: &[u8], limit: usize) -> Option<Self> {
        if line.trim_ascii_start().first() != Some(&b'{') {
            return None;
        }
        let depth = depth_after(line, 0).filter(|depth| *depth > 0)?;
        let deadline = Instant::now() + CONTINUATION_TIMEOUT;
        Some(Self { text: line.trim_ascii_end().into(), depth, limit, deadline })
    }

    /// Adds a line, unless it begins another message, cannot belong to this one, or makes it exceed the limit.
    pub fn add(&mut self, line: &[u8]) -> Continuation {
        let line = line.trim_ascii_end();
        let fits = self.text.len() + line.len() < self.limit;
        let Some(depth) = depth_after(line, self.depth).filter(|_| fits && !begins_message(line)) else {
            return Continuation::Foreign;
        };
        self.text.extend_from_slice(b" ");
        self.text.extend_from_slice(line);
        self.depth = depth;
        self.deadline = Instant::now() + CONTINUATION_TIMEOUT;
        match depth {
            0 => Continuation::Complete(self.text.split().freeze()),
            _ => Continuation::Incomplete,
        }
    }

    /// Returns when the message counts as cut off, unless its next line comes: 200 ms after its last line.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Gives the message up and returns its text so far.
    pub fn into_text(self) -> Raw {
        self.text.freeze()
    }
}

/// Returns the number of braces and brackets that are open after a line. `None`: the line has something outside of
/// strings that JSON has not, a string that does not end, or more closing braces than opening ones.
fn depth_after(line: &[u8], mut depth: usize) -> Option<usize> {
    let mut tokens = Tokens::new(line);
    for (_, byte) in tokens.by_ref() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            byte if byte != b'"' && !JSON_BYTES.contains(&byte) => return None,
            _ => {}
        }
    }
    tokens.rest().is_empty().then_some(depth)
}

/// Returns whether a line begins a message of its own: `jsonrpc` is the first member that most servers write.
fn begins_message(line: &[u8]) -> bool {
    let members = line.trim_ascii_start().strip_prefix(b"{");
    members.is_some_and(|members| members.trim_ascii_start().starts_with(b"\"jsonrpc\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join(text: &str, limit: usize) -> Option<Raw> {
        let mut lines = text.lines().map(str::as_bytes);
        let mut message = UnfinishedMessage::begin(lines.next()?, limit)?;
        for line in lines {
            match message.add(line) {
                Continuation::Incomplete => {}
                Continuation::Complete(text) => return Some(text),
                Continuation::Foreign => return None,
            }
        }
        None
    }

    #[tokio::test]
    async fn lines_are_joined_by_spaces_until_the_braces_close() {
        let text = "{\r\n  \"id\": 1,\r\n  \"result\": {\r\n    \"a\": \"}\\\"{\",\r\n    \"b\": [1e400]\r\n  }\r\n}";
        let joined = join(text, 1000).unwrap();
        assert_eq!(joined, r#"{   "id": 1,   "result": {     "a": "}\"{",     "b": [1e400]   } }"#);
        assert_eq!(join(text, 20), None, "above the limit");
    }

    #[tokio::test]
    async fn only_an_open_object_can_go_on() {
        for line in
            ["{not json", "[", "[{", "{}", "{\"a\":1} x", "{\"cut of", "INFO {", "}", "{\"a\": <html>"]
        {
            assert!(UnfinishedMessage::begin(line.as_bytes(), 100).is_none(), "{line}");
        }
        for line in
            ["{", " { \"a\":", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{", "{\"a\": [NaN, -Infinity,"]
        {
            assert!(UnfinishedMessage::begin(line.as_bytes(), 100).is_some(), "{line}");
        }
    }

    #[tokio::test]
    async fn another_message_and_a_line_of_a_log_do_not_continue_it() {
        for line in
            ["{\"jsonrpc\":\"2.0\",\"id\":2,", " { \"jsonrpc\": \"2.0\"", "INFO listening", "}}", "\"cut"]
        {
            let mut message = UnfinishedMessage::begin(b"{", 100).unwrap();
            assert_eq!(message.add(line.as_bytes()), Continuation::Foreign, "{line}");
            assert_eq!(message.into_text(), "{");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_line_restarts_the_wait() {
        let mut message = UnfinishedMessage::begin(b"{", 100).unwrap();
        tokio::time::advance(Duration::from_millis(150)).await;
        message.add(b"\"a\":");
        assert_eq!(message.deadline(), Instant::now() + Duration::from_millis(200));
    }

    proptest! {
        #[test]
        fn every_pretty_printed_object_is_read(value in proptest::collection::btree_map("\\PC{0,8}", proptest::collection::vec(any::<i32>(), 0..4), 1..6)) {
            let value = serde_json::json!(value);
            let text = serde_json::to_string_pretty(&value).unwrap();
            // `lines` of `str` also ends a line at a carriage return, which JSON escapes.
            let joined = join(&text, 100_000).unwrap();
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&joined).unwrap(), value);
        }

        #[test]
        fn arbitrary_lines_never_panic(lines in proptest::collection::vec("[{}\\[\\]:,\"\\\\ a1]{0,10}", 1..6)) {
            let _joined = join(&lines.join("\n"), 50);
        }
    }
}
