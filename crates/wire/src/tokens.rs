//! Passes over text that may not be JSON: a broken message, or JSON that is not worth a check.

use memchr::memchr2;

/// The bytes of a text outside of its strings, each with its offset. A string counts as its first quotation mark. A
/// string that does not end is the end.
pub struct Tokens<'a> {
    text: &'a [u8],
    /// The offset of the next byte.
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Begins at the start of the text.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the text after the last byte, or string, that was returned.
    pub fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }
}

impl Iterator for Tokens<'_> {
    type Item = (usize, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let (start, byte) = (self.at, *self.text.get(self.at)?);
        self.at = if byte == b'"' { string_end(self.text, start)? } else { start + 1 };
        Some((start, byte))
    }
}

/// Returns where the string that begins at `start` ends, after its closing quotation mark. `None` if it has none.
pub fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
