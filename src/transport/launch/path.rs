//! The PATH of a child, and what is found on it.
//!
//! A program started from a desktop gets a PATH without any of the user's tools. Then the login
//! shell is asked for the PATH that the user has in a terminal, once in the life of the process.

use std::collections::BTreeSet;
use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::ProcessEnv;
use crate::config::StdioConfig;

#[cfg(unix)]
mod login;

/// Elsewhere a desktop's PATH is the user's.
#[cfg(not(unix))]
mod login {
    pub(super) async fn path(_: &super::ProcessEnv) -> Option<std::ffi::OsString> {
        None
    }
}

/// All that a GUI's children have on macOS, and more or less what `login` gives elsewhere.
const POOR: &[&str] = &["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Where package managers put tools, relative to the home directory unless absolute.
const USUAL: &[&str] = &[
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

/// Directories in the order they are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathList(pub Vec<PathBuf>);

impl PathList {
    /// Splits the value of a PATH. Empty parts, which mean the current directory, are left out.
    pub fn of(path: &OsStr) -> Self {
        Self(split_paths(path).filter(|dir| !dir.as_os_str().is_empty()).collect())
    }

    /// The executable that `command` means; one with a slash is relative to `cwd` and not searched for.
    pub fn find(&self, command: &Path, cwd: &Path) -> Option<PathBuf> {
        which::which_in(command, self.joined(), cwd).ok()
    }

    /// As the value of a PATH.
    fn joined(&self) -> Option<OsString> {
        join_paths(&self.0).ok().filter(|path| !path.is_empty())
    }

    /// With every directory once, at its first place.
    fn deduplicated(self) -> Self {
        let mut seen = BTreeSet::new();
        Self(self.0.into_iter().filter(|dir| seen.insert(dir.clone())).collect())
    }

    /// Whether this lacks everything beyond the system's own.
    fn is_poor(&self) -> bool {
        self.0.iter().all(|dir| POOR.iter().any(|poor| dir == Path::new(poor)))
    }
}

impl fmt::Display for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("empty");
        }
        for (i, dir) in self.0.iter().enumerate() {
            let separator = if cfg!(windows) { ";" } else { ":" };
            write!(f, "{}{}", if i > 0 { separator } else { "" }, dir.display().to_string().escape_debug())?;
        }
        Ok(())
    }
}

/// Whether the login shell has to be asked.
///
/// Never where there is a terminal: a PATH that came with one is what the user has there, and an
/// interactive shell would fight for it.
pub(super) fn wants_login(stdio: &StdioConfig, ambient: &ProcessEnv) -> bool {
    cfg!(unix) && is_ours_to_enrich(stdio, ambient) && fs::File::open("/dev/tty").is_err()
}

/// The PATH of the login shell; asked for once.
pub(super) async fn login(ambient: &ProcessEnv) -> Option<OsString> {
    login::path(ambient).await
}

/// The PATH of the child if it differs from what it inherits: the login shell's, ours, the usual places.
pub(super) fn of_child(stdio: &StdioConfig, ambient: &ProcessEnv, login: Option<&OsStr>) -> Option<OsString> {
    if !is_ours_to_enrich(stdio, ambient) {
        return None;
    }
    let mut dirs = PathList::of(login.unwrap_or_default()).0;
    // What the shell could not expand is not a directory.
    dirs.retain(|dir| dir.is_absolute());
    dirs.extend(ours(ambient).0);
    if cfg!(unix) {
        dirs.extend(POOR.iter().map(PathBuf::from));
    }
    dirs.extend(usual(ambient).0);
    PathList(dirs).deduplicated().joined()
}

/// Where a command may be that is not on the child's PATH.
pub(super) fn elsewhere(ambient: &ProcessEnv) -> PathList {
    let mut dirs = ours(ambient).0;
    dirs.extend(usual(ambient).0);
    PathList(dirs)
}

/// Whether the entry leaves PATH to us and ours is no good.
fn is_ours_to_enrich(stdio: &StdioConfig, ambient: &ProcessEnv) -> bool {
    !stdio.env.keys().any(|name| super::env::is_same(name, "PATH")) && ours(ambient).is_poor()
}

fn ours(ambient: &ProcessEnv) -> PathList {
    PathList::of(ambient.var("PATH").unwrap_or_default())
}

/// The directories of `USUAL` that exist, and that of the newest Node under nvm.
fn usual(ambient: &ProcessEnv) -> PathList {
    let home = ambient.home();
    let named = USUAL.iter().filter_map(|dir| match Path::new(dir) {
        dir if dir.is_absolute() => Some(dir.to_owned()),
        dir => Some(home.as_ref()?.join(dir)),
    });
    let node = home.as_ref().and_then(|home| newest_node(&home.join(".nvm/versions/node")));
    PathList(named.chain(node).filter(|dir| dir.is_dir()).collect())
}

/// The `bin` of the highest version among directories named `v24.1.0`.
fn newest_node(versions: &Path) -> Option<PathBuf> {
    let version = |dir: &Path| {
        let name = dir.file_name()?.to_str()?.strip_prefix('v')?;
        name.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
    };
    let dirs = fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let newest = dirs.filter_map(|dir| Some((version(&dir)?, dir))).max()?.1;
    Some(newest.join("bin"))
}
