//! The time limits of a server that several clients have: the looser one counts, so that no client cuts the calls of
//! another one.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::PlannedServer;
use crate::json::members;
use config::{Timeouts, duration};

impl PlannedServer {
    /// Takes the looser of its own limits and those of another entry. An entry without a limit has the default.
    pub(super) fn loosen_timeout(&mut self, other: &Map<String, Value>) {
        let mut limits = Map::new();
        for (entry, beside) in [(&self.entry, other), (other, &self.entry)] {
            for (name, value) in members(entry.get("timeout")) {
                // A default that is looser than the limit needs no limit.
                if !is_stricter(entry, beside, name) {
                    limits.entry(name).or_insert_with(|| value.clone());
                }
            }
        }
        self.entry.shift_remove("timeout");
        if !limits.is_empty() {
            self.entry.insert("timeout".to_owned(), json!(limits));
        }
    }
}

/// Returns whether the first entry has a shorter limit of this name than the second one.
pub(super) fn is_stricter(ours: &Map<String, Value>, theirs: &Map<String, Value>, name: &str) -> bool {
    limit(ours, name) < limit(theirs, name)
}

/// Returns the limit of this name that an entry has, or the default. `None`: neither is known.
fn limit(entry: &Map<String, Value>, name: &str) -> Option<Duration> {
    let value = entry.get("timeout").and_then(|timeout| timeout.get(name));
    let own = value.and_then(duration::of_json).filter(|limit| !limit.is_zero());
    own.or_else(|| {
        let default = Timeouts::default();
        Some(match name {
            "wait" => default.wait,
            "connect" => default.connect,
            // As `upstream::connection::handshake` has it.
            "initialize" if entry.contains_key("url") => Duration::from_secs(5),
            "initialize" => Duration::from_secs(60),
            "list" => default.list,
            "tools" => default.tools,
            "resources" => default.resources,
            "prompts" => default.prompts,
            _ => return None,
        })
    })
}
