//! Turns the config entry of a stdio server into a command that can be executed.
//!
//! # Theory of operation
//!
//! A config entry leaves much to the environment: which variables the server inherits, where its command is installed
//! and where it runs. [`prepare`] settles all of that before the process is spawned, so that an entry that cannot work
//! fails with an error that says what to change, not with an errno.
//!
//! - `child_env` decides which of our variables the child gets; `launcher_vars` has those of launchers.
//! - `path` decides on the child's PATH and finds its command there.
//! - `direct` replaces `npx` and `uvx` by what they start; `command_advice` says what to do if there is no command.
//!
//! The result, [`Launch`], needs no further lookup. Neither it nor an error shows the value of a variable other than
//! PATH, because values may be secrets.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf, is_separator};
use std::sync::Arc;
use std::time::Duration;

use base::blocking;
use config::dirs::expand_home;
use config::env::{Env, get_var, is_same_var, set_var};
use config::{GroupName, StdioConfig};
use serde::{Deserialize, Serialize};

mod child_env;
mod command_advice;
pub mod direct;
mod launch_error;
mod launcher_args;
mod launcher_vars;
mod path;
#[cfg(any(windows, test))]
pub(super) mod windows_command;

pub use child_env::{ANCESTORS_VAR, OWN_VAR_PREFIX, OWNER_VAR, withheld_vars};
pub use launch_error::LaunchError;
pub use path::PathList;

/// How long [`find_broken`] may take. The client waits for it.
const CHECK_TIMEOUT: Duration = Duration::from_millis(200);
/// How long each start waits for the login shell: a program that is found without it may be another version.
const SHELL_TIME: Duration = Duration::from_secs(2);
/// How long the search for a command may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A command that can be executed without any further lookup.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The executable, an absolute path.
    #[serde(with = "path_bytes")]
    pub program: PathBuf,
    /// The arguments, without the program's name. They may hold secrets.
    pub args: Vec<OsString>,
    /// The whole environment of the child. Its values may be secrets.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, an absolute path. It existed when the command was prepared.
    #[serde(with = "path_bytes")]
    pub cwd: PathBuf,
}

/// Serializes a path that may be no UTF-8, which serde refuses to do.
mod path_bytes {
    use serde::{Deserialize, Serialize};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(super) fn serialize<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

impl fmt::Debug for Launch {
    /// Shows neither arguments nor values of variables, because both may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.env.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// An argument that is not looked at.
const SOME_ARGUMENT: &str = "argument";

/// Returns the servers that certainly cannot be started, and why, in no order. A server whose command may be on the
/// PATH of the login shell is not one of them. Takes 200 ms at most; if the file system takes longer, none is known.
pub async fn find_broken<'s>(
    servers: impl Iterator<Item = (&'s GroupName, &'s StdioConfig)>,
    process_env: &Env,
) -> Vec<(GroupName, Arc<LaunchError>)> {
    // Whether a server can be started depends on nothing else of its entry, and many have the same command.
    let mut named: HashMap<StdioConfig, Vec<&GroupName>> = HashMap::new();
    for (name, stdio) in servers {
        let is_wrong = launcher_args::check(&stdio.command, &stdio.args).is_err();
        let own_path = stdio.env.iter().filter(|(name, _)| is_same_var(name, "PATH"));
        let searched = StdioConfig {
            command: stdio.command.clone(),
            args: if is_wrong { stdio.args.clone() } else { vec![SOME_ARGUMENT.to_owned()] },
            env: own_path.map(|(name, path)| (name.clone(), path.clone())).collect(),
            cwd: stdio.cwd.clone(),
            inherit_env: stdio.inherit_env.clone(),
        };
        named.entry(searched).or_default().push(name);
    }
    let (searched, names): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let process_env = process_env.clone();
    let errors = blocking::run(CHECK_TIMEOUT, move || {
        let error = |stdio: &StdioConfig| {
            // The login shell, which may have more directories, takes too long to ask.
            let is_certain = !path::needs_login_path(stdio, &process_env);
            is_certain.then(|| prepare_blocking(stdio, &process_env, None).err()).flatten()
        };
        searched.iter().map(|stdio| error(stdio).map(Arc::new)).collect::<Vec<_>>()
    });
    let broken = errors.await.unwrap_or_default().into_iter().zip(names);
    let broken = broken.filter_map(|(error, names)| Some((error?, names)));
    broken
        .flat_map(|(error, names)| names.into_iter().map(move |name| (name.clone(), error.clone())))
        .collect()
}

/// Determines the program, arguments, environment and working directory of the server that `stdio` configures.
///
/// Takes milliseconds, or up to 2 s the first time that the login shell is asked for its PATH. If the command is not
/// found without that PATH, the shell is awaited until it has had `shell_time`. A file system that hangs is awaited for
/// 10 s.
///
/// # Errors
///
/// See [`LaunchError`].
pub async fn prepare(
    stdio: &StdioConfig,
    process_env: &Env,
    shell_time: Duration,
) -> Result<Launch, LaunchError> {
    if !path::needs_login_path(stdio, process_env) {
        return prepare_with(stdio, process_env, None).await;
    }
    let mut login = path::login_path(process_env, SHELL_TIME).await;
    let mut found = prepare_with(stdio, process_env, login.path).await;
    if login.lack.is_some() && matches!(found, Err(LaunchError::NotFound { .. })) {
        login = path::login_path(process_env, shell_time).await;
        found = prepare_with(stdio, process_env, login.path).await;
    }
    if let Err(LaunchError::NotFound { lack, .. }) = &mut found {
        *lack = login.lack.map(Box::new);
    }
    found
}

/// Does the work of [`prepare`] on another thread, with the PATH of the login shell if it is needed and known.
///
/// # Errors
///
/// As [`prepare`].
async fn prepare_with(
    stdio: &StdioConfig,
    process_env: &Env,
    login_path: Option<OsString>,
) -> Result<Launch, LaunchError> {
    let (stdio, process_env) = (stdio.clone(), process_env.clone());
    // Not on the runtime's only thread: a directory of PATH may be on a network file system that hangs.
    let found =
        blocking::run(LOOKUP_TIMEOUT, move || prepare_blocking(&stdio, &process_env, login_path.as_deref()));
    found.await?
}

/// Does the work of [`prepare_with`]. Blocks.
///
/// # Errors
///
/// As [`prepare`], without `Lookup`. The working directory is checked first, then the command, then its arguments.
fn prepare_blocking(
    stdio: &StdioConfig,
    process_env: &Env,
    login_path: Option<&OsStr>,
) -> Result<Launch, LaunchError> {
    let mut env = child_env::child_env(stdio, process_env);
    if let Some(path) = path::extended_path(stdio, process_env, login_path) {
        set_var(&mut env, "PATH", path);
    }
    let cwd = usable_working_dir(stdio, process_env)?;
    let searched = PathList::parse(get_var(&env, "PATH").unwrap_or_default());
    let program = find_program(&stdio.command, searched, &cwd, process_env)?;
    launcher_args::check(&stdio.command, &stdio.args)?;
    let args: Vec<_> = stdio.args.iter().map(OsString::from).collect();
    #[cfg(windows)]
    windows_command::check(&program, &args)
        .map_err(|error| LaunchError::CommandLine { program: program.clone(), reason: error.to_string() })?;
    Ok(Launch { program, args, env: env.into_iter().collect(), cwd })
}

/// Returns the working directory of the server that `stdio` configures, which may not exist.
///
/// Without a `cwd` in the config entry it is ours, or the home directory if ours is where desktops start programs: the
/// root, or the directory of the system's programs on Windows.
pub fn working_dir(stdio: &StdioConfig, process_env: &Env) -> PathBuf {
    match &stdio.cwd {
        Some(cwd) => process_env.cwd().join(expand_home(cwd, process_env)),
        None if process_env.cwd().parent().is_none() || is_system_dir(process_env) => {
            process_env.home().unwrap_or_else(|| process_env.cwd().to_owned())
        }
        None => process_env.cwd().to_owned(),
    }
}

/// Returns whether our working directory is the directory of the system's programs (on Windows).
fn is_system_dir(process_env: &Env) -> bool {
    let system = process_env.var("SystemRoot").filter(|_| cfg!(windows));
    system.is_some_and(|root| {
        let system = Path::new(root).join("System32");
        process_env.cwd().as_os_str().eq_ignore_ascii_case(system)
    })
}

/// Returns [`working_dir`] if it is a directory.
///
/// # Errors
///
/// `Cwd` if it is no directory, or cannot be looked at.
fn usable_working_dir(stdio: &StdioConfig, process_env: &Env) -> Result<PathBuf, LaunchError> {
    let cwd = working_dir(stdio, process_env);
    let is_usable = cwd.metadata().and_then(|metadata| match metadata.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    match is_usable {
        Ok(()) => Ok(cwd),
        Err(reason) => Err(LaunchError::Cwd { cwd, reason }),
    }
}

/// Returns the executable for `command`. `searched` is the child's PATH.
///
/// # Errors
///
/// `HasArguments`, `Address`, `Directory`, `NotExecutable`, `NoSuchFile` or `NotFound`: the first of them that applies.
fn find_program(
    command: &str,
    searched: PathList,
    cwd: &Path,
    process_env: &Env,
) -> Result<PathBuf, LaunchError> {
    let expanded = expand_home(Path::new(command), process_env);
    if let Some(program) = searched.find(&expanded, cwd, process_env) {
        return Ok(program);
    }
    let mut words = command.split_whitespace();
    if let (Some(first), Some(_)) = (words.next(), words.next()) {
        let program = expand_home(Path::new(first), process_env);
        let is_program = searched.find(&program, cwd, process_env).is_some()
            || path::fallback_dirs(process_env).find(&program, cwd, process_env).is_some();
        if is_program {
            return Err(LaunchError::HasArguments { program: first.to_owned() });
        }
    }
    if ["http://", "https://"].iter().any(|scheme| command.starts_with(scheme)) {
        return Err(LaunchError::Address);
    }
    let file = match expanded.components().count() {
        // A directory of PATH may have a file of that name that is not executable.
        1 if !command.contains(is_separator) => {
            searched.0.iter().map(|dir| dir.join(&expanded)).find(|file| file.is_file())
        }
        _ => Some(cwd.join(&expanded)),
    };
    match file {
        Some(path) if path.is_dir() => Err(LaunchError::Directory { path }),
        Some(path) if path.exists() => Err(LaunchError::NotExecutable { path }),
        Some(path) => Err(LaunchError::NoSuchFile { command: command.to_owned(), path }),
        None => {
            let found = path::fallback_dirs(process_env).find(&expanded, cwd, process_env);
            Err(LaunchError::NotFound { command: command.to_owned(), searched, found, lack: None })
        }
    }
}

#[cfg(test)]
mod tests;
