//! The process of one jq program.
//!
//! Stdin has the program as a JSON string on a line, then the input. Stdout gets one byte of `outcome` and a text.

use super::limits::{self, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};
use super::outcome;
use super::program::{self, ProgramError};
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// The first argument that makes our program the process of a jq program. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__jq";

/// Runs the process.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    #[cfg(unix)]
    crate::transport::own_program::close_other_descriptors();
    limits::apply()?;
    let mut given = Vec::new();
    // The program has its own limit, and so has a line of a client.
    io::stdin().take(2 * MAX_INPUT_BYTES as u64).read_to_end(&mut given)?;
    let line_ends = given.iter().position(|&byte| byte == b'\n').ok_or(io::ErrorKind::InvalidInput)?;
    let program: String = serde_json::from_slice(&given[..line_ends])?;
    let input = given.split_off(line_ends + 1);
    drop(given);
    let (outcome, text) = match program::run(&program, input, MAX_OUTPUT_BYTES) {
        Ok(outputs) => (outcome::OUTPUTS, outputs),
        Err(ProgramError::Invalid(why)) => (outcome::INVALID, why.into_bytes()),
        Err(ProgramError::Failed(why)) => (outcome::FAILED, why.into_bytes()),
        Err(ProgramError::NoJson(why)) => (outcome::NO_JSON, why.into_bytes()),
        Err(ProgramError::TooMuchOutput) => (outcome::TOO_MUCH, Vec::new()),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[outcome])?;
    stdout.write_all(&text)?;
    stdout.flush()
}
