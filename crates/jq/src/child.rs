//! The process of one jq program.
//!
//! Stdin has the program as a JSON string on a line, then the input. Stdout gets one byte of `outcome` and a text.

use super::limits::{MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};
use super::outcome;
use super::program::{self, ProgramError};
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// The first argument that makes our program the process of a jq program. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__jq";

/// Runs the process of one jq program: limits it, reads the program and its input, and writes the outcome. Fails if the
/// process cannot be limited, or if stdin has no program.
#[cfg(unix)]
pub fn run() -> ExitCode {
    exit_code(serve())
}

/// Runs the process of one jq program: limits it, reads the program and its input, and writes the outcome. Fails if the
/// process cannot be limited, or if stdin has no program. The program runs in a thread where it may recurse as deep as
/// on Linux: a first thread has 8 MB of stack there, and 1 MB on Windows.
#[cfg(windows)]
pub fn run() -> ExitCode {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    let Ok(thread) = std::thread::Builder::new().stack_size(8 << 20).spawn(serve) else {
        return ExitCode::FAILURE;
    };
    match catch_unwind(AssertUnwindSafe(|| thread.join())) {
        Ok(Ok(served)) => exit_code(served),
        Ok(Err(panic)) => resume_unwind(panic),
        // Its stack was full, and the thread has no result. So it is under Wine; Windows ends the process.
        Err(_) => super::exit::OUT_OF_MEMORY.try_into().map_or(ExitCode::FAILURE, |code: u8| code.into()),
    }
}

fn exit_code(served: io::Result<()>) -> ExitCode {
    served.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn serve() -> io::Result<()> {
    #[cfg(unix)]
    {
        process::descriptors::close_other_descriptors();
        super::limits::apply()?;
    }
    #[cfg(windows)]
    super::watchdog::start()?;
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
    #[expect(clippy::disallowed_methods, reason = "the instance reads it")]
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[outcome])?;
    stdout.write_all(&text)?;
    stdout.flush()
}
