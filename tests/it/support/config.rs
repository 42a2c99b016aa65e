//! Configs of the program, and their entries.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::scripted_upstream_program;

/// The directory of the cache if `base` is `$XDG_CACHE_HOME`, or what takes its place on Windows.
pub(crate) fn cache_dir_in(base: &Path) -> PathBuf {
    let dir = base.join("dynamic-mcp");
    if cfg!(windows) { dir.join("cache") } else { dir }
}

/// An entry for the scripted upstream.
pub(crate) fn scripted_upstream(flags: &[&str]) -> Value {
    json!({"command": scripted_upstream_program(), "args": flags})
}

/// An entry for the scripted upstream with all features of MCP.
pub(crate) fn full_upstream(flags: &[&str]) -> Value {
    scripted_upstream(&[&["--protocol"], flags].concat())
}

/// `entry` with the members of `more`.
pub(crate) fn merged(mut entry: Value, more: Value) -> Value {
    entry.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    entry
}

/// A config with these servers.
pub(crate) fn config_of<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let servers = entries.map(|(name, entry)| (name.to_owned(), entry));
    json!({"mcpServers": servers.into_iter().collect::<serde_json::Map<_, _>>()})
}

/// A config with these servers, which start at their first use. A session then has only the messages of the test.
pub(crate) fn pure_config<const N: usize>(entries: [(&str, Value); N]) -> Value {
    merged(config_of(entries), json!({"settings": {"lazy_startup": "pure"}}))
}

/// A config with the scripted upstream as its only server, `g`, which starts at its first use.
pub(crate) fn scripted_config(flags: &[&str]) -> Value {
    pure_config([("g", scripted_upstream(flags))])
}
