//! The running instances of this user, as commands reach them.
//!
//! # Theory of operation
//!
//! Each instance listens on an endpoint of its own, which is closed to other users. A command connects to all of them,
//! sends one request and reads one reply, each a line of JSON. `socket` is the instance's side, `query` that of a
//! command.
//!
//! An endpoint is a socket (`unix_sockets`), or on Windows a named pipe (`named_pipes`). Either has a file by which
//! commands find it. An instance that cannot create its endpoint works without it; commands do not find it then.

use config::env::Env;
#[cfg(windows)]
use named_pipes as endpoint;
use process::server_log::{LogCursor, LogPage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use unix_sockets as endpoint;

#[cfg(windows)]
mod named_pipes;
pub mod query;
pub mod socket;
#[cfg(unix)]
mod unix_sockets;

/// What a command asks an instance.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InstanceRequest {
    /// What it serves, and how its groups are.
    Status,
    /// To connect a group again.
    Reconnect(String),
    /// The log of a group's server.
    Logs {
        /// The group.
        group: String,
        /// Up to where it was read.
        after: Option<LogCursor>,
    },
}

/// The answer of an instance.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InstanceReply {
    /// What it serves, and how its groups are.
    Status(Box<InstanceStatus>),
    /// The group is being connected again.
    Reconnecting,
    /// The lines.
    Log(LogPage),
    /// It has no group of this name.
    NoSuchGroup,
}

/// An instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Its process.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// How long it has run, in seconds.
    pub up_s: u64,
    /// Its working directory. A path that is not UTF-8 is here as nearly as UTF-8 can say it.
    pub cwd: String,
    /// Its config files.
    pub config: Vec<String>,
    /// What `get_status` reports.
    pub status: Value,
}

/// Returns the file for the page that `dynamic-mcp status --html` writes, in the directory of the endpoints.
///
/// # Errors
///
/// Fails if the directory cannot be used.
pub fn page_file(env: &Env) -> io::Result<PathBuf> {
    Ok(endpoint::dir(endpoint::base(env).as_deref())?.join("status.html"))
}

impl InstanceStatus {
    /// Describes this process, which reads these config files. It has no status, and counts as just started.
    pub fn of_process(files: &[PathBuf], env: &Env) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            up_s: 0,
            cwd: text(env.cwd()),
            config: files.iter().map(|file| text(file)).collect(),
            status: Value::Null,
        }
    }

    /// Returns the groups, as `get_status` reports them.
    pub fn groups(&self) -> &[Value] {
        self.status["groups"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a group, as `get_status` reports it.
    pub fn group(&self, name: &str) -> Option<&Value> {
        self.groups().iter().find(|group| group["group"] == name)
    }

    /// Returns the process of a group's server, if it is shared.
    pub fn shared_server(&self, group: &str) -> Option<u64> {
        let group = self.group(group)?;
        group["pid"].as_u64().filter(|_| group["shared"] == true)
    }

    /// Returns the names of its groups.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.groups().iter().filter_map(|group| Some(group["group"].as_str()?.to_owned()))
    }

    /// Returns whether its config disables a server of this name.
    pub fn disables(&self, name: &str) -> bool {
        self.status["disabled"].as_array().into_iter().flatten().any(|disabled| disabled == name)
    }
}
