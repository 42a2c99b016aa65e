//! Text of the other side, made safe for the log.

use base::text::visible;
use std::fmt::Write;

/// A longer text is cut.
const MAX_CHARACTERS: usize = 200;

/// Displays JSON text in a log line: its beginning, with every character visible.
pub struct LogText<'a>(pub &'a [u8]);

impl std::fmt::Display for LogText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The whole text may have megabytes, and a character has at most four bytes.
        let beginning = &self.0[..self.0.len().min(4 * MAX_CHARACTERS)];
        visible(&String::from_utf8_lossy(beginning))
            .chars()
            .take(MAX_CHARACTERS)
            .try_for_each(|c| f.write_char(c))
    }
}
