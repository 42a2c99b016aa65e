//! Whether a client gives its model only those tools of servers that the model searched for.

use crate::source::{literal, read_text};
use serde_json::{Map, Value};
use std::path::Path;

/// What is known of a client's search for tools. The text is the evidence, as a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSearch {
    /// The model gets the tools that it searches for.
    On(String),
    /// The model gets all tools.
    Off(String),
    /// One or the other.
    Unknown(String),
}

/// Returns the members of a client's file in JSON or TOML; those of a missing file are none. `None` if it cannot be read.
pub(super) fn file_members(file: &Path) -> Option<Map<String, Value>> {
    let text = read_text(file).ok()?.unwrap_or_default();
    match text.trim().is_empty() {
        true => Some(Map::new()),
        false => match literal(file, &text).ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        },
    }
}
