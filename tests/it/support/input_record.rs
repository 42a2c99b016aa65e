//! The lines that a scripted upstream received.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Message, wait_until};

/// A file to which an upstream writes every line that it receives.
pub(crate) struct InputRecord(TempDir);

impl InputRecord {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// A path beside the file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The entry `entry` of a scripted upstream, which writes its input to this file.
    pub(crate) fn attached_to(&self, mut entry: Value) -> Value {
        let args = entry["args"].as_array_mut().unwrap();
        args.extend([json!("--record"), json!(self.path("record"))]);
        entry
    }

    /// The complete lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("record")).unwrap_or_default();
        let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        complete.map(str::to_owned).collect()
    }

    /// The lines with this method so far.
    pub(crate) fn lines_of(&self, method: &str) -> Vec<String> {
        let member = format!("\"method\":\"{method}\"");
        self.lines().into_iter().filter(|line| line.contains(&member)).collect()
    }

    /// Waits for the message with this method that has this index, and returns it.
    pub(crate) fn wait_for(&self, method: &str, index: usize) -> Message {
        wait_until(&format!("{method} number {index} arrives"), || self.lines_of(method).len() > index);
        Message::parse(self.lines_of(method).swap_remove(index))
    }
}
