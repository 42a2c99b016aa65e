//! Validates JSON text (RFC 8259) in one pass, and finds the members of objects on the way.
//!
//! The scanner builds no values. Only the members of the objects that a caller asks for are found; everything else is
//! checked and passed over. It accepts what serde_json accepts: any number, also beyond the range of programs, escaped
//! halves of surrogate pairs, and nesting of any depth.

use super::block::{self, BLOCK, Block};
use super::result_members::ResultMembers;
use memchr::memchr2;
use smallvec::SmallVec;
use std::ops::Range;

/// A position in JSON text. A method that returns `None` has found that the text is not JSON.
#[derive(Clone)]
pub struct Scanner<'a> {
    text: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    /// Whether the text is known to be JSON, so that the content of its long strings needs no check.
    is_json: bool,
    /// Not 0 if a byte of a string so far is not ASCII. The bytes after a string may count, too.
    not_ascii: u32,
    /// Whether there was a string with escapes since this was last set to false.
    has_escapes: bool,
    /// The members so far that are looked for later.
    pub(super) noted: ResultMembers,
}

/// The members of an object, in order. Most objects have few.
pub type Members = SmallVec<[Member; 4]>;

/// A member of an object, as offsets in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key without its quotes, as it is written.
    pub key: Range<usize>,
    /// Whether the key has escapes.
    pub(crate) key_escaped: bool,
    /// The value.
    pub value: Range<usize>,
    /// Whether a string in the value has escapes.
    pub(crate) value_escaped: bool,
}

impl<'a> Scanner<'a> {
    /// Begins at the first value of the text.
    pub fn new(text: &'a [u8]) -> Self {
        let (at, noted) = (token(text, 0).0, ResultMembers::default());
        Self { text, at, is_json: false, not_ascii: 0, has_escapes: false, noted }
    }

    /// Begins at the first value of text that is known to be JSON.
    pub fn of_json(text: &'a [u8]) -> Self {
        Self { is_json: true, ..Self::new(text) }
    }

    /// Returns the next byte that is not white space.
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the offset of the next value.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Checks that nothing but white space follows, and that all of the text is UTF-8.
    pub fn end(self) -> Option<()> {
        let is_ascii = self.not_ascii == 0;
        // Outside of strings, other bytes are errors.
        (self.at == self.text.len() && (is_ascii || std::str::from_utf8(self.text).is_ok())).then_some(())
    }

    /// Moves past an object, and returns where it is. For each member, `value` gets the key, whether that has escapes,
    /// and the scanner before the value, which it has to move past the value.
    #[inline(always)]
    pub fn object(
        &mut self,
        value: impl FnMut(&mut Self, Range<usize>, bool) -> Option<()>,
    ) -> Option<Range<usize>> {
        match self.peek()? {
            b'{' => self.members_after(1, value),
            _ => None,
        }
    }

    /// Moves past the rest of an object whose first bytes are known: its brace, or also members with a comma after
    /// each.
    #[inline(always)]
    pub(crate) fn members_after(
        &mut self,
        known: usize,
        mut value: impl FnMut(&mut Self, Range<usize>, bool) -> Option<()>,
    ) -> Option<Range<usize>> {
        let (text, start) = (self.text, self.at);
        let (mut at, mut byte) = token(text, start + known);
        if known > 1 || byte != b'}' {
            loop {
                let key = self.key(at, byte)?;
                (self.at, _) = key.value;
                value(self, key.text, key.escaped)?;
                at = self.at;
                match *text.get(at)? {
                    b',' => (at, byte) = token(text, at + 1),
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        (self.at, _) = token(text, at + 1);
        Some(start..at + 1)
    }

    /// Moves past an array, and returns where it is. `element` gets the scanner before each element, which it has to move
    /// past the element.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<Range<usize>> {
        let (text, start) = (self.text, self.at);
        if self.peek()? != b'[' {
            return None;
        }
        let (mut at, byte) = token(text, start + 1);
        if byte != b']' {
            loop {
                self.at = at;
                element(self)?;
                at = self.at;
                match *text.get(at)? {
                    b',' => (at, _) = token(text, at + 1),
                    b']' => break,
                    _ => return None,
                }
            }
        }
        (self.at, _) = token(text, at + 1);
        Some(start..at + 1)
    }

    /// Returns whether the text goes on with these bytes.
    #[inline(always)]
    pub fn starts_with(&self, bytes: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(bytes))
    }

    /// Returns a part of the text that was found in it.
    pub fn text(&self, part: Range<usize>) -> &'a [u8] {
        self.text.get(part).unwrap_or_default()
    }

    /// Moves past an object, and returns where it is. Its members are added to `members`.
    pub fn members(&mut self, members: &mut Members) -> Option<Range<usize>> {
        self.object(|scanner, key, key_escaped| {
            members.push(scanner.member(key, key_escaped)?);
            Some(())
        })
    }

    /// Moves past the value of a member, and returns the member.
    #[inline(always)]
    pub fn member(&mut self, key: Range<usize>, key_escaped: bool) -> Option<Member> {
        self.has_escapes = false;
        let value = self.value()?;
        Some(Member { key, key_escaped, value, value_escaped: self.has_escapes })
    }

    /// Moves past a value, and returns where it is.
    pub fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let byte = self.peek()?;
        if let b'{' | b'[' = byte {
            return self.nested();
        }
        let end = self.scalar(start, byte)?;
        (self.at, _) = token(self.text, end);
        Some(start..end)
    }

    /// Returns where the value at `at` ends, which begins with `byte` and is no object or array. Does not move.
    #[inline(always)]
    fn scalar(&mut self, at: usize, byte: u8) -> Option<usize> {
        let text = self.text;
        match byte {
            b'"' => Some(self.string(at)?.end),
            b'-' | b'0'..=b'9' => number(text, at),
            b't' => word(text, at, b"true"),
            b'f' => word(text, at, b"false"),
            b'n' => word(text, at, b"null"),
            _ => None,
        }
    }

    /// Moves past an object or array, and returns where it is.
    #[inline(never)]
    fn nested(&mut self) -> Option<Range<usize>> {
        let (text, start) = (self.text, self.at);
        let (mut at, mut byte) = token(text, start);
        let mut open = Brackets::default();
        loop {
            let mut end = match byte {
                bracket @ (b'{' | b'[') => {
                    let is_object = bracket == b'{';
                    (at, byte) = token(text, at + 1);
                    if byte != bracket + CLOSING {
                        open.push(is_object);
                        if is_object {
                            (at, byte) = self.key(at, byte)?.value;
                        }
                        continue;
                    }
                    at + 1
                }
                _ => self.scalar(at, byte)?,
            };
            (at, byte) = token(text, end);
            // After a value: a comma and the next one, or the ends of the values around it.
            loop {
                let Some(is_object) = open.top() else {
                    self.at = at;
                    return Some(start..end);
                };
                if byte == b',' {
                    (at, byte) = token(text, at + 1);
                    if is_object {
                        (at, byte) = self.key(at, byte)?.value;
                    }
                    break;
                }
                if byte != if is_object { b'}' } else { b']' } {
                    return None;
                }
                open.pop();
                end = at + 1;
                (at, byte) = token(text, end);
            }
        }
    }

    /// Returns the key at `at`, whose first byte is `byte`, and where its value begins. Checks the colon between them. Does not
    /// move: the caller goes on at `Key::value`.
    #[inline(always)]
    fn key(&mut self, at: usize, byte: u8) -> Option<Key> {
        let text = self.text;
        if byte != b'"' {
            return None;
        }
        let StringEnd { end, escaped } = self.string(at)?;
        let (colon, byte) = token(text, end);
        if byte != b':' {
            return None;
        }
        let value = token(text, colon + 1);
        self.noted.add(&text[at + 1..end - 1], escaped, value.1);
        Some(Key { text: at + 1..end - 1, escaped, value })
    }

    /// Finds the end of the string at `at`. Does not move.
    #[inline(always)]
    fn string(&mut self, at: usize) -> Option<StringEnd> {
        let mut at = at + 1;
        // Most strings end in their first block.
        if let Some(bytes) = self.text.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let block = Block::new(bytes);
            self.not_ascii |= block.not_ascii;
            at += block.plain;
            if bytes.get(block.plain) == Some(&b'"') {
                return Some(StringEnd { end: at + 1, escaped: false });
            }
        }
        self.long_string(at)
    }

    /// Finds the end of a string from a place inside it. Does not move. It is a function of its own, so that short ones
    /// do not pay for its registers.
    #[inline(never)]
    fn long_string(&mut self, mut at: usize) -> Option<StringEnd> {
        let (mut escaped, mut not_ascii) = (false, 0);
        while self.is_json {
            at += memchr2(b'"', b'\\', self.text.get(at..)?)?;
            if self.text[at] == b'"' {
                return Some(StringEnd { end: at + 1, escaped });
            }
            (escaped, self.has_escapes) = (true, true);
            at += 2;
        }
        loop {
            let bits;
            (at, bits) = block::skip_plain(self.text, at);
            not_ascii |= bits;
            match *self.text.get(at)? {
                b'"' => {
                    self.not_ascii |= not_ascii;
                    return Some(StringEnd { end: at + 1, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.has_escapes = true;
                    at = escape(self.text, at)?;
                }
                _ => return None,
            }
        }
    }
}

/// Where a string ends.
struct StringEnd {
    end: usize,
    escaped: bool,
}

/// A key.
struct Key {
    text: Range<usize>,
    escaped: bool,
    /// Where its value is, and the first byte of that.
    value: (usize, u8),
}

/// The difference between an opening bracket or brace and the closing one.
const CLOSING: u8 = b'}' - b'{';

/// Returns where the escape at `at` ends.
fn escape(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => {
            let digits = text.get(at + 2..at + 6)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 6)
        }
        _ => None,
    }
}

/// Returns where the number at `at` ends.
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match text.get(at)? {
        b'0' => at + 1,
        _ => digits(text, at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits(text, at + 1 + usize::from(sign))?;
    }
    Some(at)
}

/// Returns where the digits at `at` end. There must be at least one.
fn digits(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(b'0'..=b'9') = text.get(end) {
        end += 1;
    }
    (end > at).then_some(end)
}

/// Returns where the word at `at` ends.
fn word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text[at..].starts_with(word).then_some(at + word.len())
}

/// Returns the first byte from `at` on that is not white space, and where it is. At the end of the text it is 0, with
/// which no token begins.
#[inline(always)]
fn token(text: &[u8], at: usize) -> (usize, u8) {
    match text.get(at) {
        Some(byte) if *byte > b' ' => (at, *byte),
        _ => token_after_space(text, at),
    }
}

/// `token` where white space may come first, which most messages do not have.
#[cold]
fn token_after_space(text: &[u8], mut at: usize) -> (usize, u8) {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    (at, text.get(at).copied().unwrap_or_default())
}

/// The open brackets around a value, one bit each: 1 for an object. The innermost 64 are in `bits`.
#[derive(Default)]
struct Brackets {
    bits: u64,
    depth: usize,
    outer: Vec<u64>,
}

impl Brackets {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.bits);
        }
        self.bits = self.bits << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.bits >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    /// Returns whether the innermost bracket is that of an object; `None` if none is open.
    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn is_json(text: &[u8]) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value().is_some_and(|_| scanner.end().is_some())
    }

    /// serde_json checks the encoding of strings only where it returns them.
    fn serde_accepts(text: &[u8]) -> bool {
        std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
    }

    #[test]
    fn accepts_what_serde_accepts() {
        let deep = |n| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        let mixed = |n| format!("{}1{}", "[{\"a\":".repeat(n), "}]".repeat(n));
        for text in [
            "0",
            "-0",
            "1.50",
            "1e400",
            "-1E-3",
            "0.0e+0",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "NaN",
            "0x1",
            "true",
            "tru",
            "nulll",
            "",
            " ",
            "\"\\ud800\"",
            "\"\\u00g0\"",
            "\"\\x\"",
            "\"\t\"",
            "\"\u{7f}\"",
            "\"",
            "\"\\\"",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1]",
            "[1}",
            "]",
            "[",
            "{\"a\":",
            " [ 1 , { \"a\" : [ ] , \"b\" : { } } ] ",
            "1 2",
            "[]]",
            "{\"\\u0069d\":5}",
            "\u{feff}1",
            "\"é\"",
        ] {
            assert_eq!(is_json(text.as_bytes()), serde_accepts(text.as_bytes()), "{text:?}");
        }
        for depth in [63, 64, 65, 127, 128, 129, 1000] {
            assert!(is_json(deep(depth).as_bytes()) && is_json(mixed(depth).as_bytes()));
            assert!(
                !is_json(&deep(depth).as_bytes()[1..])
                    && !is_json(mixed(depth).replace("}]", "]}").as_bytes())
            );
        }
    }

    #[test]
    fn every_position_of_a_special_byte_is_found() {
        for length in 0..100 {
            for (special, fine) in [("\"", false), ("\\\"", true), ("\n", false), ("\\", false), ("é", true)]
            {
                let text = format!("\"{}{special}{}\"", "x".repeat(length), "y".repeat(40));
                assert_eq!(is_json(text.as_bytes()), fine, "{text}");
            }
            let mut text = format!("\"{}\"", "x".repeat(length + 1)).into_bytes();
            text[length + 1] = 0xff;
            assert!(!is_json(&text), "byte 255 at {length}");
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
            Just("null".to_owned()),
            Just("true".to_owned()),
            "([a-z{}\\[\\],: é]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-f]{4}){0,50}"
                .prop_map(|text| format!("\"{text}\"")),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            let key = "([a-c é]|\\\\u0061|\\\\\"){0,3}";
            let member = (key, "[ \t]{0,2}", inner.clone())
                .prop_map(|(key, space, value)| format!("\"{key}\"{space}:{space}{value}{space}"));
            prop_oneof![
                proptest::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
                proptest::collection::vec(member, 0..5).prop_map(|items| format!("{{ {}}}", items.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_serde_on_json_with_one_byte_changed(text in json(), at: prop::sample::Index, byte: u8, change: bool) {
            let mut text = text.into_bytes();
            if change {
                let at = at.index(text.len());
                text[at] = byte;
            }
            prop_assert_eq!(is_json(&text), serde_accepts(&text), "{}", String::from_utf8_lossy(&text));
        }

        #[test]
        fn agrees_with_serde_on_arbitrary_text(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ tru-]{0,24}") {
            prop_assert_eq!(is_json(text.as_bytes()), serde_accepts(text.as_bytes()), "{}", text);
        }

        #[test]
        fn finds_the_members_that_serde_finds(text in json()) {
            let text = format!("{{\"k\" : {text},\"\\u0061\":[{text} ]}}");
            let mut found = Members::new();
            let whole = Scanner::new(text.as_bytes()).members(&mut found);
            prop_assert_eq!(whole, Some(0..text.len()));
            let found: Vec<_> = found.into_iter().map(|m| (&text[m.key], m.key_escaped, &text[m.value], m.value_escaped)).collect();
            let wanted: std::collections::BTreeMap<std::borrow::Cow<'_, str>, &RawValue> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(found, [
                ("k", false, wanted["k"].get(), wanted["k"].get().contains('\\')),
                ("\\u0061", true, wanted["a"].get(), wanted["a"].get().contains('\\')),
            ]);
        }
    }
}
