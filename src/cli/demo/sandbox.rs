//! The files of the demo, in a directory that is removed at the end.

use anyhow::Context;
use base::text;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The groups whose servers work, each with its description.
pub(super) const GROUPS: [(&str, &str); 5] = [
    ("personal", "The user's private notes"),
    ("work", "Notes about work: meetings, plans, the office"),
    ("team", "Notes that the team shares: duties, how-tos"),
    ("recipes", "Recipes and shopping lists"),
    ("travel", "Notes about journeys: trains, places, packing lists"),
];
/// The group whose server is not installed.
pub(super) const BROKEN_GROUP: &str = "archive";
/// Seconds after which an unused server is closed.
pub(super) const IDLE_SECONDS: u64 = 1;

/// The directory: a config, and a PID file for each server that runs.
pub(super) struct Sandbox(PathBuf);

impl Sandbox {
    /// Creates the directory and writes the config.
    ///
    /// # Errors
    ///
    /// Fails if the directory exists or cannot be created, or the config cannot be written.
    pub(super) fn create() -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("dynamic-mcp-demo-{}", std::process::id()));
        // This fails if the directory exists, so that no other user can have prepared it.
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", text::path(&dir)))?;
        let sandbox = Self(dir);
        fs::write(sandbox.config_file(), sandbox.config()?.to_string()).context("cannot write the config")?;
        Ok(sandbox)
    }

    /// Returns the path of the config.
    pub(super) fn config_file(&self) -> PathBuf {
        self.0.join("servers.json")
    }

    /// Returns the servers that run at this moment: their groups and process IDs.
    pub(super) fn running_servers(&self) -> Vec<(&'static str, i32)> {
        let server = |(group, _)| {
            let pid = fs::read_to_string(self.pid_file(group)).ok()?.parse().ok()?;
            is_alive(pid).then_some((group, pid))
        };
        GROUPS.into_iter().filter_map(server).collect()
    }

    fn config(&self) -> anyhow::Result<Value> {
        // A `$` would begin a variable.
        let escape = |path: &Path| path.to_string_lossy().replace('$', "$$");
        let program = escape(&std::env::current_exe()?);
        let server = |(group, description): (&str, _)| {
            let args = ["__demo-server", group, &escape(&self.pid_file(group))];
            (group.to_owned(), json!({ "command": program, "args": args, "description": description }))
        };
        let mut servers = Map::from_iter(GROUPS.map(server));
        // The PATH is part of the error message. The user's may be long.
        let env = json!({ "PATH": "/usr/bin:/bin" });
        let broken = json!({ "command": "notes-archive", "env": env, "description": "Notes of past years" });
        servers.insert(BROKEN_GROUP.to_owned(), broken);
        // Without `prefetch`, each step shows which servers its request needs.
        let settings = json!({ "idle_timeout": IDLE_SECONDS, "prefetch": false });
        Ok(json!({ "mcpServers": servers, "settings": settings }))
    }

    fn pid_file(&self, group: &str) -> PathBuf {
        self.0.join(group).with_extension("pid")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(unix)]
fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

/// Returns whether a server runs. It removes its PID file when it exits.
#[cfg(not(unix))]
fn is_alive(_pid: i32) -> bool {
    true
}
