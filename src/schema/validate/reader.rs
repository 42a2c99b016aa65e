//! Reads JSON text in place, value by value, without building it.
//!
//! The reader finds where values begin and end. It relies on the text being JSON and does not look for every error; on
//! other bytes it may read values or return [`MalformedJson`], but it never panics and always advances.

use memchr::memchr2;
use std::borrow::Cow;

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedJson;

/// The kind of a JSON value. Its first byte decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// A position in JSON text.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> JsonReader<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The offset of the next byte.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The text between two positions.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Moves to the next value and returns its kind.
    pub(super) fn kind(&mut self) -> Result<JsonKind, MalformedJson> {
        match self.peek()? {
            b'"' => Ok(JsonKind::String),
            b'{' => Ok(JsonKind::Object),
            b'[' => Ok(JsonKind::Array),
            b'-' | b'0'..=b'9' => Ok(JsonKind::Number),
            b't' | b'f' => Ok(JsonKind::Boolean),
            b'n' => Ok(JsonKind::Null),
            _ => Err(MalformedJson),
        }
    }

    /// Moves past the opening bracket of an object or array.
    pub(super) fn enter(&mut self) {
        self.at += 1;
    }

    /// Moves to the value of the next member of the object that was entered, and returns its key as it is written between
    /// the quotes. `None` at the end of the object.
    pub(super) fn next_key(&mut self) -> Result<Option<&'a [u8]>, MalformedJson> {
        match self.peek()? {
            b'}' => {
                self.at += 1;
                return Ok(None);
            }
            b',' => self.at += 1,
            _ => {}
        }
        if self.peek()? != b'"' {
            return Err(MalformedJson);
        }
        let key = self.string()?;
        if self.peek()? != b':' {
            return Err(MalformedJson);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Moves to the next element of the array that was entered. `false` at the end of the array.
    pub(super) fn next_element(&mut self) -> Result<bool, MalformedJson> {
        match self.peek()? {
            b']' => {
                self.at += 1;
                return Ok(false);
            }
            b',' => self.at += 1,
            _ => {}
        }
        Ok(true)
    }

    /// Reads a string, and returns it as it is written between the quotes.
    pub(super) fn string(&mut self) -> Result<&'a [u8], MalformedJson> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            let rest = self.text.get(at..).ok_or(MalformedJson)?;
            at += memchr2(b'"', b'\\', rest).ok_or(MalformedJson)?;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return Ok(&self.text[start..at]);
            }
            at += 2;
        }
    }

    /// Reads a number, `true`, `false` or `null`.
    pub(super) fn scalar(&mut self) -> &'a [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Moves past the next value.
    pub(super) fn skip(&mut self) -> Result<(), MalformedJson> {
        match self.kind()? {
            JsonKind::String => self.string().map(drop),
            JsonKind::Object | JsonKind::Array => self.skip_container(),
            JsonKind::Null | JsonKind::Boolean | JsonKind::Number => {
                self.scalar();
                Ok(())
            }
        }
    }

    /// Whether nothing but white space is left.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_err()
    }

    /// Reads the next bracket, comma, colon, string or scalar, as it is written.
    pub(super) fn next_token(&mut self) -> Option<&'a [u8]> {
        let byte = self.peek().ok()?;
        let start = self.at;
        match byte {
            b'"' => drop(self.string().ok()?),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => self.at += 1,
            _ => drop(self.scalar()),
        }
        Some(self.since(start))
    }

    fn skip_container(&mut self) -> Result<(), MalformedJson> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at).ok_or(MalformedJson)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => {
                    self.at += 1;
                    return Ok(());
                }
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Result<u8, MalformedJson> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(MalformedJson),
            }
        }
    }
}

/// Decodes a string that was read. `None` if it is not Unicode text, for example half of a surrogate pair.
pub(super) fn unescape(content: &[u8]) -> Option<Cow<'_, str>> {
    if !content.contains(&b'\\') {
        return std::str::from_utf8(content).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(&[b"\"", content, b"\""].concat()).ok().map(Cow::Owned)
}

/// Counts the Unicode scalar values of a string that was read. `None` if it is not Unicode text.
pub(super) fn count_characters(content: &[u8]) -> Option<usize> {
    match content.contains(&b'\\') {
        true => unescape(content).map(|text| text.chars().count()),
        false => Some(content.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count()),
    }
}
