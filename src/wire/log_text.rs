//! Text of the other side, made safe for the log.

/// Displays JSON text in a log line: escaped, at most 200 characters.
pub struct LogText<'a>(pub &'a [u8]);

impl std::fmt::Display for LogText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        String::from_utf8_lossy(self.0).escape_debug().take(200).try_for_each(|c| write!(f, "{c}"))
    }
}
