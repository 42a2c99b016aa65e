//! From a stdio server's entry and our own environment to what is to be run.
//!
//! `env` says what a child inherits, `path` where its command is looked for.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::config;

mod env;
mod path;

pub use env::withheld;
pub use path::PathList;

/// Our own environment, read once in `main`.
#[derive(Clone)]
pub struct ProcessEnv {
    pub vars: BTreeMap<OsString, OsString>,
    /// Absolute.
    pub cwd: PathBuf,
}

impl ProcessEnv {
    /// The value of one of our variables.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        env::get(&self.vars, name)
    }

    /// The user's directory, if the environment names one.
    pub fn home(&self) -> Option<PathBuf> {
        let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.var(name).filter(|home| !home.is_empty()).map(PathBuf::from)
    }
}

impl fmt::Debug for ProcessEnv {
    /// Names only: the values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.vars.keys().collect::<Vec<_>>();
        f.debug_struct("Ambient").field("vars", &names).field("cwd", &self.cwd).finish()
    }
}

/// What is to be run: nothing in it needs a lookup any more.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// Absolute.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment of the child; may hold secrets.
    pub env: Vec<(OsString, OsString)>,
    /// Absolute; it existed a moment ago.
    pub cwd: PathBuf,
}

impl fmt::Debug for Launch {
    /// Neither arguments nor values of variables: both may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.env.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Why an entry cannot be run. A retry mends none of these: the config or the machine has to change.
///
/// Of all variables only PATH is ever shown: without it nobody can mend a command that is not found.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("command {command:?} not found in PATH ({searched}); {}", advice(command, found.as_deref()))]
    NotFound {
        command: String,
        searched: PathList,
        /// Where it is instead: in a usual directory for tools, or on our own PATH.
        found: Option<PathBuf>,
    },
    /// A command with a slash in it, for which no PATH is searched.
    #[error(
        "command {command:?} not found: there is no file {path:?} (a relative command starts at the server's \"cwd\")"
    )]
    NoSuchFile { command: String, path: PathBuf },
    #[error(
        "command {path:?} is not an executable file; make it one (chmod +x), or run it by its interpreter"
    )]
    NotExecutable { path: PathBuf },
    #[error("working directory {cwd:?} cannot be used; create it, or set \"cwd\" to one that exists")]
    Cwd { cwd: PathBuf, source: io::Error },
}

/// What to do about a command that is not found.
fn advice(command: &str, found: Option<&Path>) -> String {
    match found {
        Some(found) => format!("it is at {found:?}: write this absolute path as \"command\""),
        None if command.contains(char::is_whitespace) => {
            "if it holds arguments, move them to \"args\"".to_owned()
        }
        None => "install it, or write its absolute path as \"command\"".to_owned(),
    }
}

/// Looks up everything that `stdio` leaves to the environment.
///
/// Takes milliseconds, or up to 2 s the first time that the login shell has to be asked for its PATH.
pub async fn prepare(stdio: &config::StdioConfig, ambient: &ProcessEnv) -> Result<Launch, LaunchError> {
    let login = match path::wants_login(stdio, ambient) {
        true => path::login(ambient).await,
        false => None,
    };
    let (stdio, ambient) = (stdio.clone(), ambient.clone());
    // Off the only thread of the runtime: a directory of PATH may be on a network that hangs.
    let looked_up = tokio::task::spawn_blocking(move || look_up(&stdio, &ambient, login.as_deref()));
    match looked_up.await {
        Ok(launch) => launch,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("nobody cancels this task"),
        },
    }
}

/// `prepare` with the login shell's PATH known, if it is needed.
fn look_up(
    stdio: &config::StdioConfig,
    ambient: &ProcessEnv,
    login: Option<&OsStr>,
) -> Result<Launch, LaunchError> {
    let mut env = env::of_child(stdio, ambient);
    if let Some(path) = path::of_child(stdio, ambient, login) {
        env::set(&mut env, "PATH", path);
    }
    let cwd = cwd(stdio, ambient)?;
    let searched = PathList::of(env::get(&env, "PATH").unwrap_or_default());
    let program = program(&stdio.command, searched, &cwd, ambient)?;
    let args = stdio.args.iter().map(OsString::from).collect();
    Ok(Launch { program, args, env: env.into_iter().collect(), cwd })
}

/// The entry's directory, else ours unless that is the root (a GUI's children start there), then HOME.
pub fn directory(stdio: &config::StdioConfig, ambient: &ProcessEnv) -> PathBuf {
    match &stdio.cwd {
        Some(cwd) => ambient.cwd.join(untilde(cwd, ambient)),
        None if ambient.cwd.parent().is_none() => ambient.home().unwrap_or_else(|| ambient.cwd.clone()),
        None => ambient.cwd.clone(),
    }
}

/// That directory, if it can be used.
fn cwd(stdio: &config::StdioConfig, ambient: &ProcessEnv) -> Result<PathBuf, LaunchError> {
    let cwd = directory(stdio, ambient);
    let usable = cwd.metadata().and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    match usable {
        Ok(()) => Ok(cwd),
        Err(source) => Err(LaunchError::Cwd { cwd, source }),
    }
}

/// The file that `command` means.
fn program(
    command: &str,
    searched: PathList,
    cwd: &Path,
    ambient: &ProcessEnv,
) -> Result<PathBuf, LaunchError> {
    let wanted = untilde(Path::new(command), ambient);
    if let Some(program) = searched.find(&wanted, cwd) {
        return Ok(program);
    }
    let file = match wanted.components().count() {
        // A bare name: perhaps a file of that name is there, only not executable.
        1 if !command.contains('/') => {
            searched.0.iter().map(|dir| dir.join(&wanted)).find(|file| file.is_file())
        }
        _ => Some(cwd.join(&wanted)),
    };
    match file {
        Some(path) if path.exists() => Err(LaunchError::NotExecutable { path }),
        Some(path) => Err(LaunchError::NoSuchFile { command: command.to_owned(), path }),
        None => {
            let found = path::elsewhere(ambient).find(&wanted, cwd);
            Err(LaunchError::NotFound { command: command.to_owned(), searched, found })
        }
    }
}

/// Expands a leading `~/`, as every shell would.
fn untilde(path: &Path, ambient: &ProcessEnv) -> PathBuf {
    match (path.strip_prefix("~"), ambient.home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests;
