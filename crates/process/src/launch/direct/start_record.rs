//! Chooses between the launcher and what it starts. Only Linux shows what that is, in /proc.

use super::learned::{FileStates, LearnedStart, file_name};
use super::pinned::{PinnedPackage, pinned_package};
use super::{observe, package};
use crate::launch::Launch;
use base::{blocking, procfs};
use config::{Launcher, StdioConfig};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long files and /proc may take to be read. The start of the server waits for it.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// What is known of starts through launchers. Clones share it.
#[derive(Clone, Default)]
pub struct DirectLaunches {
    /// The directory of what was learned; `None` if nothing is kept.
    dir: Option<Arc<PathBuf>>,
}

/// How a server with `"launcher": "direct"` is started, and where that is kept.
pub struct StartRecord {
    package: PinnedPackage,
    file: PathBuf,
    /// The launch as the config has it.
    written: Launch,
    /// The files that configure the launcher, as they were before it started. `None` if they could not be read.
    before: Option<Arc<FileStates>>,
    /// Whether the server was started without the launcher.
    pub(crate) is_direct: bool,
}

/// What `"launcher": "direct"` did for a server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LauncherUse {
    /// The server was started without its launcher.
    LeftOut,
    /// The launcher has shown what it starts, so the next start needs it no more.
    Learned,
    /// The next start needs it again. Completes "because".
    Needed(String),
}

impl DirectLaunches {
    /// Keeps what is learned in this directory, which is created when it is needed. Without one every server is started
    /// through its launcher.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir: dir.map(Arc::new) }
    }

    /// Returns the command to execute for a server whose config says `written`, and a record of the choice if the
    /// server may start directly. Takes 2 s at most: `written` if the files cannot be read by then.
    pub async fn choose(
        &self,
        launcher: Launcher,
        stdio: &StdioConfig,
        written: Launch,
    ) -> (Launch, Option<StartRecord>) {
        let dir = self.dir.as_ref().filter(|_| launcher == Launcher::Direct && cfg!(target_os = "linux"));
        let (Some(dir), Ok(package)) = (dir, pinned_package(stdio)) else { return (written, None) };
        let file = dir.join(file_name(&written));
        let mut record =
            StartRecord { package, file, written: written.clone(), before: None, is_direct: false };
        let (file, known, package) = (record.file.clone(), written.clone(), record.package.clone());
        let looked = blocking::run(READ_TIMEOUT, move || {
            let direct = LearnedStart::read(&file).and_then(|learned| learned.apply(&known));
            direct.ok_or_else(|| {
                FileStates::read(package::config_files(&package, &known.cwd, &text_vars(&known)))
            })
        });
        match looked.await {
            Ok(Ok(direct)) => {
                record.is_direct = true;
                (direct, Some(record))
            }
            Ok(Err(before)) => (written, Some(StartRecord { before: Some(Arc::new(before)), ..record })),
            Err(_) => (written, Some(record)),
        }
    }
}

impl StartRecord {
    /// Learns from the launcher, which runs as process `pid`, what it has started, and keeps it for the next start.
    /// Takes 2 s at most. Does nothing if the server was started directly. To be called once the server has answered.
    pub async fn learn(&self, pid: u32) -> LauncherUse {
        if self.is_direct {
            return LauncherUse::LeftOut;
        }
        let launcher = self.package.launcher.name();
        let (package, file, written) = (self.package.clone(), self.file.clone(), self.written.clone());
        let before = self.before.clone();
        let learned = blocking::run(READ_TIMEOUT, move || {
            let seen = observe::observe(pid, observe::server_below(pid)?, &written, &package)?;
            let learned = LearnedStart::new(package.launcher, &written, package.own_args, seen)?;
            // With the files as they are now it might have chosen another program.
            match before.is_some_and(|before| before.are_current()) {
                true => learned.write(&file),
                false => Err("a file that configures it changed while it started the server".to_owned()),
            }
        });
        let reason = match learned.await {
            Ok(Ok(())) => {
                tracing::debug!(pid, "the next start needs no {launcher}");
                return LauncherUse::Learned;
            }
            Ok(Err(reason)) => reason,
            Err(error) => format!("looking at it {error}"),
        };
        tracing::debug!(pid, reason, "the next start needs {launcher} again");
        LauncherUse::Needed(reason)
    }

    /// Returns whether the command that was chosen starts the server without the launcher.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Returns the launch as the config has it.
    pub(crate) fn configured_launch(&self) -> Launch {
        self.written.clone()
    }

    /// Forgets what was learned. Takes 2 s at most. Ignores errors.
    pub async fn forget(&self) {
        let file = self.file.clone();
        drop(blocking::run(READ_TIMEOUT, move || fs::remove_file(file)).await);
    }
}

/// Returns the variables whose names and values are text.
fn text_vars(launch: &Launch) -> BTreeMap<String, String> {
    let text = |(name, value): &(OsString, OsString)| Some((name.to_str()?.into(), value.to_str()?.into()));
    launch.env.iter().filter_map(text).collect()
}

/// Returns the process that the launcher `pid` has started as the server, if the server could be started without the
/// launcher. Blocks.
pub fn server_without_launcher(pid: u32, stdio: &StdioConfig) -> Option<u32> {
    let package = pinned_package(stdio).ok()?;
    let written = Launch {
        program: procfs::link(pid, "exe").ok()?,
        args: stdio.args.iter().map(OsString::from).collect(),
        // Launchers write over theirs.
        env: Vec::new(),
        cwd: procfs::link(pid, "cwd").ok()?,
    };
    let server = observe::server_below(pid).ok()?;
    observe::observe(pid, server, &written, &package).ok().map(|_| server)
}
