//! An error or a warning about a config file.

use base::text;
use std::fmt;
use std::path::PathBuf;

/// An error in a config file: where it is, what is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Line and column, both counted from 1; `None` if the file could not be read.
    pub at: Option<(usize, usize)>,
    /// What is wrong. Never repeats a value, which may be a secret.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Returns this error with the name of the server that it is about.
    pub fn of_server(&self, server: &str) -> Self {
        Self { message: format!("server {server:?}: {}", self.message), ..self.clone() }
    }

    /// Makes one error of several, whose text has a line for each. It is at the place of the first. `None` if there are
    /// none.
    pub fn joined(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        errors.into_iter().reduce(|all, next| {
            let hint = all.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Self { message: format!("{}{hint}\n{next}", all.message), hint: None, ..all }
        })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", text::path(&self.file))?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}
