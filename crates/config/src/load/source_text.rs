//! The text of a file, and the positions in it.

use std::path::{Path, PathBuf};

use crate::ConfigError;
use crate::vars::read_error_reason;
use base::{files, text};
use std::io::ErrorKind;

/// Line and column, both counted from 1. The column counts characters.
pub(super) type LineColumn = (usize, usize);

/// The text of a file.
pub(super) struct SourceText {
    /// The name of the file in errors.
    path: PathBuf,
    text: String,
}

impl SourceText {
    /// Reads a file of at most `limit` bytes, without its byte order mark. Blocks. `name` is its name in errors, and
    /// `hint` the hint of an error that has no better one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is larger, or is not UTF-8.
    pub(super) fn read(path: &Path, name: &Path, limit: u64, hint: &str) -> Result<Self, ConfigError> {
        let error = |message: String| ConfigError {
            file: name.to_owned(),
            at: None,
            message,
            hint: Some(hint.to_owned()),
        };
        let bytes = files::read(path, limit).map_err(|cause| {
            let word = path.to_str().and_then(text::shell_word).unwrap_or_else(|| "FILE".to_owned());
            let hint = match cause.kind() {
                ErrorKind::PermissionDenied => format!(
                    "run `chmod u+r {word}`, or, if it belongs to another user, `sudo chown \"$USER\" {word}`"
                ),
                _ if path.is_dir() => {
                    format!("write the path of a file in it, or remove it with `rmdir {word}`")
                }
                _ => hint.to_owned(),
            };
            let error = error(format!("cannot be read: {}", read_error_reason(&cause)));
            ConfigError { hint: Some(hint), ..error }
        })?;
        let text = String::from_utf8(bytes).map_err(|_| error("is not UTF-8 text".to_owned()))?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Self { path: name.to_owned(), text })
    }

    /// Makes the text of a file that was read already.
    pub(super) fn new(path: &Path, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the whole text.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the position of a byte offset. Takes time proportional to the offset.
    pub(super) fn position(&self, offset: usize) -> LineColumn {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// Makes an error at a byte offset.
    pub(super) fn error(&self, offset: usize, message: impl ToString, hint: Option<String>) -> ConfigError {
        let at = Some(self.position(offset));
        ConfigError { file: self.path.clone(), at, message: message.to_string(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let text = SourceText { path: PathBuf::new(), text: "é{\r\n  \"ü\": 1".to_owned() };
        assert_eq!(text.position(0), (1, 1));
        assert_eq!(text.position(2), (1, 2));
        assert_eq!(text.position(7), (2, 3));
        assert_eq!(text.position(11), (2, 6));
        assert_eq!(text.position(4711), (2, 9));
    }
}
