//! Text of the other side, made safe for the log.

use base::text::visible;
use std::fmt::Write;

/// A longer text is cut, unless the format has a precision.
const MAX_CHARACTERS: usize = 200;

/// Displays JSON text in a log line: its beginning, with every character visible.
pub struct LogText<'a>(pub &'a [u8]);

impl std::fmt::Display for LogText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let max_characters = f.precision().unwrap_or(MAX_CHARACTERS);
        // The whole text may have megabytes, and a character has at most four bytes.
        let beginning = &self.0[..self.0.len().min(4 * max_characters)];
        visible(&String::from_utf8_lossy(beginning))
            .chars()
            .take(max_characters)
            .try_for_each(|c| f.write_char(c))
    }
}
