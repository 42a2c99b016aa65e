//! Why a config entry cannot be executed.

use super::command_advice::{advice, path_advice};
use super::path::PathList;
use base::blocking::BlockingError;
use base::redact;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a config entry cannot be executed. A retry does not help: the config or the machine has to change.
///
/// PATH is the only variable whose value is shown. Without it the user cannot fix a command that is not found.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No directory of the child's PATH has the command.
    #[error(
        "command {:?} not found in PATH; {} (PATH: {searched})",
        without_arguments(command), advice(command, found.as_deref(), lack.as_deref())
    )]
    NotFound {
        /// The command as the config entry has it.
        command: String,
        /// The child's PATH.
        searched: PathList,
        /// A file of that name on our own PATH or in a common directory for tools.
        found: Option<PathBuf>,
        /// The login shell that has printed no PATH, and how long ago it was asked.
        lack: Option<Box<(PathBuf, Duration)>>,
    },
    /// A command with a slash, which is not searched for on PATH, does not exist.
    #[error(
        "command {:?} not found: there is no file {:?}; {}",
        without_arguments(command), without_arguments(&path.to_string_lossy()), path_advice(command)
    )]
    NoSuchFile {
        /// The command as the config entry has it.
        command: String,
        /// The absolute path that it means.
        path: PathBuf,
    },
    /// The command is an address.
    #[error("\"command\" is an address: write \"url\" in place of \"command\"")]
    Address,
    /// The command is a program together with its arguments.
    #[error(
        "\"command\" has arguments in it: write \"command\": {program:?}, and put the words after it into \"args\", \
         each as a string of its own"
    )]
    HasArguments {
        /// The program. The arguments are not shown, because they may hold secrets.
        program: String,
    },
    /// The arguments of a launcher name nothing to start.
    #[error("{launcher} gets no package to start: write \"args\": [{example}]")]
    NoPackage {
        /// The launcher.
        launcher: String,
        /// Its first arguments, as an example.
        example: &'static str,
    },
    /// The first argument is several.
    #[error(
        "the first of \"args\" has several arguments in it: write \"args\": [{words}], each word as a string of its own"
    )]
    JoinedArguments {
        /// The first words, in the notation of JSON.
        words: String,
    },
    /// The file of the command exists and is not executable.
    #[error("command {path:?} is not an executable file; {NOT_EXECUTABLE_ADVICE}")]
    NotExecutable {
        /// The absolute path of the file.
        path: PathBuf,
    },
    /// The command is a directory.
    #[error("command {path:?} is a directory; write the path of the program in it as \"command\"")]
    Directory {
        /// Its absolute path.
        path: PathBuf,
    },
    /// The working directory does not exist, or is not a directory.
    #[error(
        "working directory {cwd:?} cannot be used ({reason}); create it, or set \"cwd\" to one that exists"
    )]
    Cwd {
        /// The absolute path of the directory.
        cwd: PathBuf,
        /// Why it cannot be used.
        reason: io::Error,
    },
    /// An argument cannot be passed to the program, or the program cannot be run.
    #[cfg(windows)]
    #[error("command {program:?} cannot be run: {reason}")]
    CommandLine {
        /// The absolute path of the program.
        program: PathBuf,
        /// Why. It names an argument by its position.
        reason: String,
    },
    /// The directories of PATH or the working directory could not be looked at.
    #[error("the search for the command {0}")]
    Lookup(#[from] BlockingError),
}

/// What to do about a file that is not executable.
const NOT_EXECUTABLE_ADVICE: &str = if cfg!(windows) {
    "Windows runs .exe, .com, .cmd, .bat and .ps1; set its interpreter as \"command\""
} else {
    "run chmod +x on it, or set its interpreter as \"command\""
};

impl LaunchError {
    /// Returns the error in a few words, for lists.
    pub fn brief(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::NoSuchFile { .. } => "its command was not found",
            Self::Address => "its command is an address",
            Self::HasArguments { .. } => "its command has arguments in it",
            Self::NoPackage { .. } => "its launcher gets no package",
            Self::JoinedArguments { .. } => "its first argument is several",
            Self::Directory { .. } => "its command is a directory",
            Self::NotExecutable { .. } => "its command is not executable",
            Self::Cwd { .. } => "its working directory cannot be used",
            #[cfg(windows)]
            Self::CommandLine { .. } => "its arguments cannot be passed to it",
            Self::Lookup(_) => "its command could not be searched for",
        }
    }
}

/// Returns the command as errors show it: without what may be arguments, which may hold secrets.
fn without_arguments(command: &str) -> String {
    let is_path = command.starts_with(['/', '~', '.']) || Path::new(command).is_absolute();
    // A path may contain spaces.
    let end = if is_path { command.find(" -") } else { command.find(char::is_whitespace) };
    let shown = redact::text(&command[..end.unwrap_or(command.len())]);
    if end.is_some() { format!("{shown} …") } else { shown }
}
