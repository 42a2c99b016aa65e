//! Lines that were meant as messages and are none: their fault, and which request they answer.
//!
//! Only lines that [`super::Message::parse`] rejected come here, so a valid message costs nothing. The members of the
//! outermost objects are found although the text is broken, because a wrong value seldom breaks the braces around it.
//! Nothing deeper counts: an id inside a body may come from anyone.

use super::lines::{BOM, scalar};
use super::tokens::Tokens;
use super::{Message, MessageError, Raw};
use serde::de::IgnoredAny;
use serde_json::error::Category;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// The spellings of Python and JavaScript for numbers that JSON does not have.
const NOT_NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The members of one outermost object that can be recognized.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The values of `id` that can be read.
    ids: Vec<Raw>,
    /// Whether it has `jsonrpc`.
    has_version: bool,
    /// Whether it has `method`.
    has_method: bool,
    /// Whether it has `result` or `error`.
    has_outcome: bool,
}

impl Outline {
    /// Returns the id of the request that it answers. `None`: it is no answer, or it has no id or two.
    pub fn answered_id(&self) -> Option<&Raw> {
        self.only_id().filter(|_| !self.has_method && self.is_message())
    }

    /// Returns the id of the request that it is. `None`: it is no request, or it has no id or two.
    pub fn request_id(&self) -> Option<&Raw> {
        self.only_id().filter(|_| self.has_method && self.has_version)
    }

    /// Returns whether it was meant as a JSON-RPC message. Other objects are lines of a log.
    pub fn is_message(&self) -> bool {
        self.has_version || self.has_outcome && !self.ids.is_empty()
    }

    fn only_id(&self) -> Option<&Raw> {
        match &self.ids[..] {
            [id] => Some(id),
            _ => None,
        }
    }

    /// Notes the member `key`; `rest` is the text after the key.
    fn add(&mut self, key: &[u8], rest: &[u8]) {
        match key {
            b"id" => self.ids.extend(scalar(rest).map(|(id, _)| id)),
            b"jsonrpc" => self.has_version = true,
            b"method" => self.has_method = true,
            b"result" | b"error" => self.has_outcome = true,
            _ => {}
        }
    }
}

/// Finds the outermost objects of a line that begins with one, or with an array of them.
pub fn outlines(line: &[u8]) -> Vec<Outline> {
    let text = line.trim_ascii_start();
    // The depth of the members of an outermost object.
    let top = match text.first() {
        Some(b'{') => 1,
        Some(b'[') => 2,
        _ => return Vec::new(),
    };
    let (mut found, mut current) = (Vec::new(), None::<Outline>);
    let mut depth = 0_usize;
    let mut tokens = Tokens::new(text);
    while let Some((start, byte)) = tokens.next() {
        match byte {
            b'"' => {
                let rest = tokens.rest();
                if let Some(outline) = current.as_mut().filter(|_| depth == top)
                    && rest.trim_ascii_start().first() == Some(&b':')
                {
                    outline.add(&text[start + 1..text.len() - rest.len() - 1], rest);
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == top && byte == b'{' {
                    found.extend(current.replace(Outline::default()));
                }
            }
            b'}' | b']' => {
                if depth == top {
                    found.extend(current.take());
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    found.extend(current);
    found
}

/// Returns a line that is a message except for a byte order mark, or for bytes that are no UTF-8, with U+FFFD in their
/// place. Logs the latter, unless it `was_logged` before. `None` for any other line.
pub fn repaired(line: &Raw, was_logged: &AtomicBool) -> Option<Raw> {
    let without_mark = line.strip_prefix(BOM);
    let text = String::from_utf8_lossy(without_mark.unwrap_or(line));
    let is_replaced = matches!(text, Cow::Owned(_));
    if !is_replaced && without_mark.is_none() {
        return None;
    }
    let text = Raw::from(text.into_owned());
    if matches!(Message::parse(&text), Err(MessageError::NotJson)) {
        return None;
    }
    if is_replaced {
        log_replacement(was_logged);
    }
    Some(text)
}

/// Parses a line, [`repaired`] if that makes it a message. Returns the line with the outcome.
pub fn parse_repaired(line: Raw, was_logged: &AtomicBool) -> (Result<Message, MessageError>, Raw) {
    match Message::parse(&line) {
        Err(MessageError::NotJson) => {
            let line = repaired(&line, was_logged).unwrap_or(line);
            (Message::parse(&line), line)
        }
        parsed => (parsed, line),
    }
}

/// Logs that bytes are no UTF-8, unless it `was_logged` before.
pub fn log_replacement(was_logged: &AtomicBool) {
    if !was_logged.swap(true, Ordering::Relaxed) {
        tracing::warn!("the server sends bytes that are no UTF-8; U+FFFD is read in their place");
    }
}

/// Describes a line that is no JSON-RPC message, such as "not JSON: NaN at byte 57". The bytes are counted from 1.
/// Of `error` only `TooLong` matters; the line tells everything else.
pub fn defect(error: &MessageError, line: &[u8]) -> String {
    if let MessageError::TooLong { bytes, limit, .. } = error {
        return format!("longer than the limit of {limit} bytes ({bytes} bytes)");
    }
    match syntax_error(line) {
        Some(what) => format!("not JSON: {what}"),
        None => "not a JSON-RPC message: its members are those of neither a request, a notification nor a response"
            .to_owned(),
    }
}

/// Returns the first place where a line is not JSON; `None` if it is JSON.
fn syntax_error(line: &[u8]) -> Option<String> {
    let not_utf8 = std::str::from_utf8(line).err().map(|error| error.valid_up_to());
    let error = serde_json::from_slice::<IgnoredAny>(line).err();
    // The column counts bytes, because a line has no line feed.
    let column = error.as_ref().map_or(usize::MAX, serde_json::Error::column);
    if let Some(at) = not_utf8.filter(|at| *at < column) {
        return Some(format!("invalid UTF-8 (0x{:02X}) at byte {}", line[at], at + 1));
    }
    let error = error?;
    if error.classify() == Category::Eof {
        return Some(format!("it is cut off after byte {}", line.len()));
    }
    let near = column.saturating_sub(1);
    if let Some((start, token)) = literal_at(line, near) {
        return Some(format!("{} at byte {}", String::from_utf8_lossy(token), start + 1));
    }
    let what = error.to_string();
    let what = what.rsplit_once(" at line ").map_or(&*what, |(what, _)| what);
    let control = (near..=column).find(|at| line.get(*at).is_some_and(|byte| *byte < b' '));
    Some(match (what, control) {
        ("trailing characters", _) => format!("text after the message at byte {column}"),
        (what, Some(at)) if what.starts_with("control character") => {
            format!("an unescaped control character (0x{:02X}) in a string at byte {}", line[at], at + 1)
        }
        (what, _) => format!("{what} at byte {column}"),
    })
}

/// Returns the literal of `NOT_NUMBERS` that covers byte `at`, and where it begins.
fn literal_at(line: &[u8], at: usize) -> Option<(usize, &'static [u8])> {
    let candidates = |token: &&'static [u8]| {
        (at.saturating_sub(token.len())..=at).rev().find(|start| line[*start..].starts_with(token))
    };
    // The longest first, because `Infinity` is also the end of `-Infinity`.
    NOT_NUMBERS.iter().rev().find_map(|token| Some((candidates(token)?, *token)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn syntax(line: &[u8]) -> String {
        defect(&MessageError::NotJson, line)
    }

    fn answered(line: &str) -> Vec<Option<String>> {
        let text = |id: &Raw| String::from_utf8_lossy(id).into_owned();
        outlines(line.as_bytes()).iter().map(|outline| outline.answered_id().map(text)).collect()
    }

    #[test]
    fn a_defect_names_its_byte() {
        for (line, expected) in [
            (&br#"{"id":1,"result":{"x": NaN}}"#[..], "not JSON: NaN at byte 24"),
            (br#"{"id":1,"result":{"x":Infinity}}"#, "not JSON: Infinity at byte 23"),
            (br#"{"id":1,"result":[1, -Infinity]}"#, "not JSON: -Infinity at byte 22"),
            (b"{\"id\":1,\"result\":\"a\xff\"}", "not JSON: invalid UTF-8 (0xFF) at byte 20"),
            (
                b"{\"id\":1,\"result\":\"a\tb\"}",
                "not JSON: an unescaped control character (0x09) in a string at byte 20",
            ),
            (br#"{"id":1,"result":{"x"#, "not JSON: it is cut off after byte 20"),
            (br#"{"id":1,"result":{}} done"#, "not JSON: text after the message at byte 22"),
            (br#"{"id":1,"result":{}}{"id":2}"#, "not JSON: text after the message at byte 21"),
            (br#"{"id":1,"result":{"x":tru}}"#, "not JSON: expected ident at byte 26"),
            (br#"{"id":1,"result":{"x":1,}}"#, "not JSON: key must be a string at byte 25"),
        ] {
            assert_eq!(syntax(line), expected, "{}", String::from_utf8_lossy(line));
        }
        assert!(syntax(br#"{"jsonrpc":"2.0","id":1}"#).starts_with("not a JSON-RPC message: "));
        let long = MessageError::TooLong { id: None, bytes: 9, limit: 5 };
        assert_eq!(defect(&long, b""), "longer than the limit of 5 bytes (9 bytes)");
    }

    #[test]
    fn the_id_of_a_broken_answer_is_found_only_among_its_own_members() {
        let one = |id: &str| vec![Some(id.to_owned())];
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#, one("7")),
            (r#"{"result":{"x":NaN,"id":3},"jsonrpc":"2.0", "id" : "a" }"#, one("\"a\"")),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"a } \" ] \\","id":3"#, one("7")),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"cut of"#, one("7")),
            (r#"{"id":7,"result":{}} trailing"#, one("7")),
            (r#"{"id":7,"result":{}}{"id":8,"error":{}}"#, [one("7"), one("8")].concat()),
            (r#"[{"id":7,"result":NaN},{"id":8,"result":{"id":9}}]"#, [one("7"), one("8")].concat()),
            // Two ids contradict each other.
            (r#"{"jsonrpc":"2.0","id":7,"id":8,"result":NaN}"#, vec![None]),
            // A request, a part of an id, and lines of a log.
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":NaN}"#, vec![None]),
            (r#"{"jsonrpc":"2.0","id":7"#, vec![None]),
            (r#"{"level":"info","id":7,"msg":NaN}"#, vec![None]),
            (r#"{"result":{"id":7,"x":NaN}}"#, vec![None]),
            (r#"sent {"jsonrpc":"2.0","id":7,"result":{}}"#, vec![]),
        ] {
            assert_eq!(answered(line), expected, "{line}");
        }
    }

    #[test]
    fn a_broken_request_is_told_from_a_line_of_a_log() {
        let first = |line: &str| outlines(line.as_bytes()).remove(0);
        let request = first(r#"{"jsonrpc":"2.0","id":"q","method":"x","params":NaN}"#);
        assert_eq!((request.request_id(), request.is_message()), (Some(&Raw::from("\"q\"")), true));
        let log = first(r#"{"id":3,"method":"GET","time":NaN}"#);
        assert_eq!((log.request_id(), log.is_message()), (None, false));
        assert!(!first("{not json").is_message());
        assert!(first(r#"{"jsonrpc":"2.0","res"#).is_message());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _found = (outlines(&bytes), syntax(&bytes));
        }

        #[test]
        fn what_is_almost_a_message_never_panics(text in "[{}\\[\\]:,\"\\\\ idNaInfty0-9\t\u{e9}-]{0,80}") {
            let _found = (outlines(text.as_bytes()), syntax(text.as_bytes()));
        }

        #[test]
        fn an_id_in_a_body_is_never_taken(body in "[a-z{}\\[\\]:,\"\\\\ ]{0,40}") {
            // The body is a valid string with any content, so that only the NaN breaks the message.
            let body = serde_json::Value::from(format!("{body}\"id\":9,"));
            let line = format!(r#"{{"jsonrpc":"2.0","result":{{"x":NaN,"t":{body}}},"id":4}}"#);
            prop_assert_eq!(answered(&line), [Some("4".to_owned())]);
        }
    }
}
