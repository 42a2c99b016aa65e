//! The PATH of a child process, and the lookup of its command.
//!
//! A desktop starts programs with a PATH that lacks the user's tools. In that case the child's PATH is extended by the
//! PATH of the user's login shell, which is asked until it has answered once, and by the directories where package managers
//! install tools.

use std::collections::BTreeSet;
use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::text::Visible;
use config::StdioConfig;
use config::env::{Env, is_same_var};

#[cfg(unix)]
mod login_shell;

/// Other systems give the user's PATH to desktop programs too.
#[cfg(not(unix))]
mod login_shell {
    use crate::launch::path::LoginPath;
    use config::env::Env;

    pub(super) async fn path(_: &Env, _: std::time::Duration) -> LoginPath {
        LoginPath::default()
    }
}

/// The PATH of programs that a desktop starts on macOS, and roughly what `login` sets on other systems.
const SYSTEM_DIRS: &[&str] = &["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Directories where package managers install tools. Relative ones are relative to the home directory.
const TOOL_DIRS: &[&str] = &[
    "/opt/homebrew/bin",
    "/usr/local/bin",
    ".local/bin",
    ".cargo/bin",
    ".bun/bin",
    ".deno/bin",
    ".volta/bin",
    ".local/share/mise/shims",
    ".asdf/shims",
    ".local/share/fnm/aliases/default/bin",
    ".pyenv/shims",
];

/// Directories in search order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathList(pub Vec<PathBuf>);

impl PathList {
    /// Splits the value of a PATH. Skips empty parts, which mean the current directory.
    pub fn parse(path: &OsStr) -> Self {
        Self(split_paths(path).filter(|dir| !dir.as_os_str().is_empty()).collect())
    }

    /// Returns the executable for `command`. A command with a slash is resolved against `cwd` and not searched for.
    #[cfg(not(windows))]
    pub fn find(&self, command: &Path, cwd: &Path, _process_env: &Env) -> Option<PathBuf> {
        which::which_in(command, self.to_path(), cwd).ok()
    }

    /// Returns the executable for `command`. A command with a separator is resolved against `cwd` and not searched for.
    #[cfg(windows)]
    pub fn find(&self, command: &Path, cwd: &Path, process_env: &Env) -> Option<PathBuf> {
        super::windows_command::find(command, &self.0, cwd, process_env.var("PATHEXT"))
    }

    /// Joins the directories to the value of a PATH; `None` if it would be empty.
    fn to_path(&self) -> Option<OsString> {
        join_paths(&self.0).ok().filter(|path| !path.is_empty())
    }

    /// Removes every directory that occurs earlier in the list.
    fn deduplicated(self) -> Self {
        let mut seen = BTreeSet::new();
        Self(self.0.into_iter().filter(|dir| seen.insert(dir.clone())).collect())
    }

    fn has_only_system_dirs(&self) -> bool {
        self.0.iter().all(|dir| SYSTEM_DIRS.iter().any(|system| dir == Path::new(system)))
    }
}

impl fmt::Display for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("empty");
        }
        for (i, dir) in self.0.iter().enumerate() {
            let separator = if cfg!(windows) { ";" } else { ":" };
            write!(f, "{}{}", if i > 0 { separator } else { "" }, Visible(&dir.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Returns whether the PATH of the login shell is needed.
///
/// It is never needed when our process has a controlling terminal: then our PATH is the one the user has in that
/// terminal, and an interactive shell would compete for it.
pub(super) fn needs_login_path(stdio: &StdioConfig, process_env: &Env) -> bool {
    cfg!(unix) && should_extend_path(stdio, process_env) && fs::File::open("/dev/tty").is_err()
}

/// The PATH of the user's login shell.
#[derive(Default)]
pub(super) struct LoginPath {
    /// `None`: the shell has printed none.
    pub(super) path: Option<OsString>,
    /// The shell that has printed none, and how long ago it was asked.
    pub(super) lack: Option<(PathBuf, Duration)>,
}

/// Returns the PATH of the login shell, which is awaited until it has had this `time`. It goes on in the background.
pub(super) async fn login_path(process_env: &Env, time: Duration) -> LoginPath {
    login_shell::path(process_env, time).await
}

/// Returns the extended PATH of the child: that of the login shell, ours, on Unix that of the system, then the tool
/// directories. Blocks.
///
/// Returns `None` if the child keeps the PATH that it inherits or its config entry sets.
pub(super) fn extended_path(
    stdio: &StdioConfig,
    process_env: &Env,
    login_path: Option<&OsStr>,
) -> Option<OsString> {
    if !should_extend_path(stdio, process_env) {
        return None;
    }
    let mut dirs = PathList::parse(login_path.unwrap_or_default()).0;
    // A start-up file may have set a literal `$PATH` or `~`, which are not directories.
    dirs.retain(|dir| dir.is_absolute());
    dirs.extend(own_path(process_env).0);
    if cfg!(unix) {
        dirs.extend(SYSTEM_DIRS.iter().map(PathBuf::from));
    }
    dirs.extend(tool_dirs(process_env));
    PathList(dirs).deduplicated().to_path()
}

/// Returns directories that may have a command that is not on the child's PATH, for an error message.
pub(super) fn fallback_dirs(process_env: &Env) -> PathList {
    let mut dirs = own_path(process_env).0;
    dirs.extend(tool_dirs(process_env));
    PathList(dirs)
}

/// Returns whether the config entry sets no PATH and ours lacks the user's tools.
fn should_extend_path(stdio: &StdioConfig, process_env: &Env) -> bool {
    !stdio.env.keys().any(|name| is_same_var(name, "PATH")) && own_path(process_env).has_only_system_dirs()
}

fn own_path(process_env: &Env) -> PathList {
    PathList::parse(process_env.var("PATH").unwrap_or_default())
}

/// Returns the existing directories of [`TOOL_DIRS`], and the directory of the newest Node that nvm installed.
fn tool_dirs(process_env: &Env) -> impl Iterator<Item = PathBuf> {
    let home = process_env.home();
    let node = home.as_ref().and_then(|home| newest_node_bin(&home.join(".nvm/versions/node")));
    let dirs = TOOL_DIRS.iter().filter_map(move |dir| match Path::new(dir) {
        dir if dir.is_absolute() => Some(dir.to_owned()),
        dir => Some(home.as_ref()?.join(dir)),
    });
    dirs.chain(node).filter(|dir| dir.is_dir())
}

/// Returns the `bin` directory of the highest version among directories with names such as `v24.1.0`.
fn newest_node_bin(versions: &Path) -> Option<PathBuf> {
    let version = |dir: &Path| {
        let name = dir.file_name()?.to_str()?.strip_prefix('v')?;
        name.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
    };
    let dirs = fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let newest = dirs.filter_map(|dir| Some((version(&dir)?, dir))).max()?.1;
    Some(newest.join("bin"))
}
