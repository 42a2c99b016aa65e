//! Whether a client gives its model only those tools of servers that the model searched for.

use crate::source::{literal, read_text};
use serde_json::Value;
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

/// Returns the content of a client's file in JSON or TOML. A missing file is empty. `None` if it cannot be read.
pub(super) fn file_content(file: &Path) -> Option<Value> {
    literal(file, &read_text(file).ok()?.unwrap_or_default()).ok()
}
