//! Validates JSON text (RFC 8259) in one pass, and finds the members of objects on the way.
//!
//! The scanner builds no values. Only the members of the objects that a caller asks for are found; everything else is
//! checked and passed over. It accepts what serde_json accepts: any number, also beyond the range of programs, escaped
//! halves of surrogate pairs, and nesting of any depth.

use std::ops::Range;

/// A position in JSON text. A method that returns `None` has found that the text is not JSON.
pub struct Scanner<'a> {
    text: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    /// All words of strings so far, combined by "or": a byte is above 127 if one of theirs is not ASCII. Words may reach
    /// beyond the end of a string.
    bytes_of_strings: u64,
}

/// A member of an object, as offsets in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key without its quotes, as it is written.
    pub key: Range<usize>,
    /// Whether the key has escapes.
    pub escaped: bool,
    /// The value.
    pub value: Range<usize>,
}

impl<'a> Scanner<'a> {
    /// Begins at the first value of the text.
    pub fn new(text: &'a [u8]) -> Self {
        let mut scanner = Self { text, at: 0, bytes_of_strings: 0 };
        scanner.skip_space();
        scanner
    }

    /// The next byte that is not white space.
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The offset of the next value.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Checks that nothing but white space follows, and that all of the text is UTF-8.
    pub fn end(self) -> Option<()> {
        let is_ascii = self.bytes_of_strings & u64::from_ne_bytes([0x80; WORD]) == 0;
        // Outside of strings, other bytes are errors.
        (self.at == self.text.len() && (is_ascii || std::str::from_utf8(self.text).is_ok())).then_some(())
    }

    /// Moves past an object, and returns where it is. For each member, `value` gets the key, whether that has escapes,
    /// and the scanner before the value, which it has to move past the value.
    pub fn object(
        &mut self,
        mut value: impl FnMut(&mut Self, Range<usize>, bool) -> Option<()>,
    ) -> Option<Range<usize>> {
        let start = self.at;
        self.expect(b'{')?;
        self.skip_space();
        let mut next = self.peek()?;
        while next != b'}' {
            let (key, escaped) = self.key()?;
            value(self, key, escaped)?;
            next = self.peek()?;
            match next {
                b',' => self.step(),
                b'}' => {}
                _ => return None,
            }
        }
        let end = self.at + 1;
        self.step();
        Some(start..end)
    }

    /// Moves past an object, and returns where it is. Its members are added to `members`.
    pub fn members(&mut self, members: &mut Vec<Member>) -> Option<Range<usize>> {
        self.object(|scanner, key, escaped| {
            let value = scanner.value()?;
            members.push(Member { key, escaped, value });
            Some(())
        })
    }

    /// Moves past a value, and returns where it is.
    pub fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let mut open = Brackets::default();
        loop {
            let end = match self.peek()? {
                b'"' => {
                    self.string()?;
                    self.at
                }
                bracket @ (b'{' | b'[') => {
                    self.step();
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    if self.peek()? != close {
                        open.push(bracket == b'{');
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    self.at
                }
                b'-' | b'0'..=b'9' => {
                    self.number()?;
                    self.at
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => return None,
            };
            self.skip_space();
            let mut end = end;
            // What follows a value: a comma and the next one, or the ends of the values around it.
            loop {
                let Some(in_object) = open.top() else { return Some(start..end) };
                match self.peek()? {
                    b',' => {
                        self.step();
                        if in_object {
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == if in_object { b'}' } else { b']' } => {
                        open.pop();
                        self.at += 1;
                        end = self.at;
                        self.skip_space();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Moves past a key and its colon, to the value.
    fn key(&mut self) -> Option<(Range<usize>, bool)> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let escaped = self.string()?;
        let key = start..self.at - 1;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Some((key, escaped))
    }

    /// Moves past a string. Returns whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Option<bool> {
        let start = self.at + 1;
        // Most strings end in their first word.
        if let Some(word) = self.text.get(start..).and_then(<[u8]>::first_chunk) {
            let plain = plain_bytes(u64::from_le_bytes(*word));
            if word.get(plain) == Some(&b'"') {
                self.bytes_of_strings |= u64::from_le_bytes(*word);
                self.at = start + plain + 1;
                return Some(false);
            }
        }
        self.long_string()
    }

    /// Does the same for any string. It is a function of its own, so that short ones do not pay for its registers.
    #[inline(never)]
    fn long_string(&mut self) -> Option<bool> {
        let mut at = self.at + 1;
        let (mut escaped, mut words) = (false, 0);
        loop {
            if let Some(word) = self.text.get(at..).and_then(<[u8]>::first_chunk) {
                let word = u64::from_le_bytes(*word);
                // What follows the string may be counted, too: it costs a check at most.
                self.bytes_of_strings |= word;
                let plain = plain_bytes(word);
                at += plain;
                if plain == WORD {
                    words += 1;
                    if words == LONG / WORD {
                        at = self.skip_blocks(at);
                    }
                    continue;
                }
            }
            match *self.text.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(escaped);
                }
                b'\\' => {
                    escaped = true;
                    at = self.escape(at)?;
                }
                0..0x20 => return None,
                byte => {
                    self.bytes_of_strings |= u64::from(byte);
                    at += 1;
                }
            }
        }
    }

    /// Returns where the blocks of a long string end that have no special bytes. They begin at `at`.
    fn skip_blocks(&mut self, mut at: usize) -> usize {
        for block in self.text[at..].as_chunks::<BLOCK>().0 {
            let (mut special, mut bytes) = (0, 0);
            // The compiler turns this into a few vector instructions.
            for &byte in block {
                special |= u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20);
                bytes |= byte;
            }
            if special != 0 {
                break;
            }
            self.bytes_of_strings |= u64::from(bytes);
            at += BLOCK;
        }
        at
    }

    /// Returns where the escape at `at` ends.
    fn escape(&self, at: usize) -> Option<usize> {
        match self.text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
            b'u' => {
                let digits = self.text.get(at + 2..at + 6)?;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 6)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Moves past digits, at least one.
    fn digits(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<usize> {
        self.text[self.at..].starts_with(word).then_some(())?;
        self.at += word.len();
        Some(self.at)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Moves past one byte and the white space behind it.
    fn step(&mut self) {
        self.at += 1;
        self.skip_space();
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }
}

/// The bytes of a machine word.
const WORD: usize = size_of::<u64>();
/// The bytes that are looked at together in long strings.
const BLOCK: usize = 32;
/// The length in bytes from which a string is looked at in blocks.
const LONG: usize = 32;

/// Counts the bytes of a word before the first one that ends a string, begins an escape, or is a control character.
fn plain_bytes(word: u64) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; WORD]);
    // The highest bit of a byte is set if the byte is below the limit, or above 127. A byte behind the first one that is
    // below may be wrong, but only the first one counts.
    let below = |bytes: u64, limit: u8| bytes.wrapping_sub(ONES * u64::from(limit));
    // The difference of '"' and ' ' is one bit, which makes '"' the first byte after the control characters.
    let end_or_control = below(word ^ (ONES * u64::from(b'"' ^ b' ')), b' ' + 1);
    let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
    let special = (end_or_control | escape) & !word & (ONES << 7);
    special.trailing_zeros() as usize / 8
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

    /// Whether the innermost bracket is that of an object; `None` if none is open.
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
            let mut found = Vec::new();
            let whole = Scanner::new(text.as_bytes()).members(&mut found);
            prop_assert_eq!(whole, Some(0..text.len()));
            let found: Vec<_> = found.into_iter().map(|m| (&text[m.key], m.escaped, &text[m.value])).collect();
            let wanted: std::collections::BTreeMap<std::borrow::Cow<'_, str>, &RawValue> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(found, [("k", false, wanted["k"].get()), ("\\u0061", true, wanted["a"].get())]);
        }
    }
}
