//! How a command ends: the exit codes, and the error that has one.

use base::text;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The command failed for a reason without a code of its own.
pub const EXIT_FAILURE: u8 = 1;
/// The command line is wrong.
pub const EXIT_USAGE: u8 = 2;
/// Nobody logged in.
pub const EXIT_LOGIN_NEEDED: u8 = 3;
/// A server cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 4;
/// The tool was called and reports an error.
pub const EXIT_TOOL_ERROR: u8 = 5;
/// The config is invalid (`EX_CONFIG` of sysexits.h).
pub const EXIT_CONFIG: u8 = 78;
/// Ctrl-C, as shells count it: 128 and the number of SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code of the process.
    pub exit_code: u8,
    /// What failed.
    pub message: String,
}

impl CommandError {
    /// Creates an error that ends the program with this exit code.
    pub fn new(exit_code: u8, message: impl Into<String>) -> Self {
        Self { exit_code, message: message.into() }
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        self.exit_code.into()
    }

    /// Prints the error on stderr after `name`, the server or file that it is about, and returns the exit code.
    pub fn print(&self, name: &str) -> ExitCode {
        crate::message(format_args!("{}: {self}", text::name(name)));
        self.exit_code()
    }
}

impl std::error::Error for CommandError {}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns whether a command ended early because the reader of stdout has ended, as in `dynamic-mcp tools | head`.
pub fn is_end_of_reader(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints what became of the thing with this name, a failure on stderr, and returns the exit code.
///
/// # Errors
///
/// Fails if stdout cannot be written. A failure in `outcome` is no error.
pub fn report(name: &str, outcome: Result<String, CommandError>) -> anyhow::Result<ExitCode> {
    match outcome {
        Ok(message) => {
            crate::line(format_args!("{}: {message}", text::name(name)))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(error.print(name)),
    }
}
