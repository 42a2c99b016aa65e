//! What the demo needs on disk, in a directory of its own that is removed at the end: a config with three groups, the
//! log, and a file for each server that runs.

use super::server::PID_FILE;
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Log lines shown when something failed.
const LAST_LINES: usize = 10;

/// The groups, and what they say of themselves.
pub const GROUPS: [(&str, &str); 3] = [
    ("notes", "The user's notes: write, search, file"),
    ("tasks", "The user's to-do lists: add, list, complete"),
    ("calendar", "The user's calendars: events, free time, invitations"),
];
/// The group that is used.
pub const USED: &str = "notes";
/// Seconds until it is closed when it is not used any more.
pub const IDLE_SECONDS: u64 = 1;

pub struct Stage {
    dir: PathBuf,
    /// This very program.
    pub program: PathBuf,
}

impl Stage {
    pub fn set_up() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let dir = std::env::temp_dir().join(format!("dynamic-mcp-demo-{}", std::process::id()));
        create_private(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let stage = Self { dir, program };
        fs::write(stage.config(), format!("{:#}", stage.servers())).context("cannot write a config")?;
        Ok(stage)
    }

    pub fn config(&self) -> PathBuf {
        self.dir.join("servers.json")
    }

    /// The log, to be appended to.
    pub fn log(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.log_path())
    }

    pub fn last_log_lines(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// The process that serves `group`, if one does at this moment.
    pub fn process(&self, group: &str) -> Option<u32> {
        let pid = fs::read_to_string(self.pid_file(group)).ok()?.parse().ok()?;
        is_alive(pid).then_some(pid)
    }

    /// How many of the servers run.
    pub fn running(&self) -> usize {
        GROUPS.iter().filter(|(group, _)| self.process(group).is_some()).count()
    }

    fn servers(&self) -> Value {
        let mut servers = Map::new();
        for (group, description) in GROUPS {
            let mut server = json!({
                "command": literal(&self.program),
                "args": ["__demo-server", group],
                "env": { PID_FILE: literal(&self.pid_file(group)) },
                "description": description,
                "lazy_startup": "pure",
            });
            if group == USED {
                server["idle_timeout"] = IDLE_SECONDS.into();
            }
            servers.insert(group.to_owned(), server);
        }
        json!({ "mcpServers": servers })
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn pid_file(&self, group: &str) -> PathBuf {
        self.dir.join(group).with_extension("pid")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// A path as strings of a config have it: a dollar would begin a variable.
fn literal(path: &Path) -> String {
    path.to_string_lossy().replace('$', "$$")
}

/// A directory that did not exist and that nobody else can look into.
fn create_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().map(nix::unistd::Pid::from_raw);
    pid.is_some_and(|pid| nix::sys::signal::kill(pid, None).is_ok())
}

/// The file is removed by the server as it ends.
#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    true
}
