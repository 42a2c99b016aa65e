//! A config file's text, and the places in it.

use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::config::vars::why;

/// Line and column, both from 1; the column counts characters.
pub(super) type At = (usize, usize);

/// A file that was read.
pub(super) struct Text {
    path: PathBuf,
    text: String,
}

impl Text {
    /// Reads it, without its byte order mark.
    pub(super) fn read(path: &Path, hint: &str) -> Result<Self, ConfigError> {
        let unreadable = |message: String| ConfigError {
            file: path.to_owned(),
            at: None,
            message,
            hint: Some(hint.to_owned()),
        };
        let bytes =
            std::fs::read(path).map_err(|error| unreadable(format!("cannot be read: {}", why(&error))))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8 text".to_owned()))?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Self { path: path.to_owned(), text })
    }

    /// The same under another name, the one that the user knows it by.
    pub(super) fn named(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Counts through all text before it.
    pub(super) fn at(&self, offset: usize) -> At {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    pub(super) fn problem(&self, offset: usize, message: impl ToString, hint: Option<String>) -> ConfigError {
        ConfigError { file: self.path.clone(), at: Some(self.at(offset)), message: message.to_string(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let text = Text { path: PathBuf::new(), text: "é{\r\n  \"ü\": 1".to_owned() };
        assert_eq!(text.at(0), (1, 1));
        assert_eq!(text.at(2), (1, 2));
        assert_eq!(text.at(7), (2, 3));
        assert_eq!(text.at(11), (2, 6));
        assert_eq!(text.at(4711), (2, 9));
    }
}
