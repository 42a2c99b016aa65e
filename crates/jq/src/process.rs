//! Starts the process of a jq program and reads its outputs.

use super::exit::JqExit;
use super::limits::{CPU_TIME, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, MEMORY_BYTES, WALL_TIME};
use super::outcome;
#[cfg(unix)]
use super::spawn_unix::{exited, spawn};
#[cfg(windows)]
use super::spawn_windows::{exited, spawn};
use base::fair::{Turn, Turns};
use bytes::Bytes;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How many programs run at the same time.
const MAX_PROCESSES: usize = 2;
/// How long a program waits for others to end.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest program, in bytes.
const MAX_PROGRAM_BYTES: usize = 64 << 10;

/// Why a program has no outputs, as a part of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The program does not compile.
    #[error("the program is not valid: {0}")]
    Invalid(String),
    /// The program ended with this error.
    #[error("the program ended with the error: {0}")]
    Failed(String),
    /// The input is no JSON that jq can read.
    #[error("jq cannot read the result: {0}")]
    NoJson(String),
    /// The outputs exceed the limit.
    #[error("the outputs have more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuchOutput,
    /// The program took too long.
    #[error("the program ran for more than {} s", CPU_TIME.as_secs())]
    TimedOut,
    /// The process ended without an answer: only its memory and its stack can be the reason.
    #[error("the program needs more than {} MiB of memory, or recurses too deep", MEMORY_BYTES >> 20)]
    OutOfMemory,
    /// The interpreter panicked, which is a mistake of its own.
    #[error("jq cannot run the program; write it in another way")]
    Panicked,
    /// The input or the program is too large.
    #[error("{0} is too large")]
    TooLarge(&'static str),
    /// Too many other programs run.
    #[error("too many other programs run; call again")]
    Busy,
    /// The process cannot be started.
    #[error("the process that runs it cannot be started: {0}")]
    NotStarted(String),
}

/// Runs programs, a few at a time. Clones take turns with each other, and so do users.
#[derive(Clone)]
pub struct JqRunner {
    turns: Turns,
}

/// The turn of a program, until this is dropped.
pub struct JqTurn {
    _turn: Turn,
}

impl Default for JqRunner {
    fn default() -> Self {
        Self { turns: Turns::new(MAX_PROCESSES) }
    }
}

impl JqRunner {
    /// Waits for the turn of a program, for 30 s at most. What is done to prepare the input is done in the turn as well.
    ///
    /// # Errors
    ///
    /// The turn did not come.
    pub async fn turn(&self) -> Result<JqTurn, JqError> {
        let turn = self.turns.take(TURN_TIMEOUT).await.ok_or(JqError::Busy)?;
        Ok(JqTurn { _turn: turn })
    }

    /// Checks that `program` compiles. Runs it without an input when its turn comes. A
    /// program that could not be tried passes.
    ///
    /// # Errors
    ///
    /// The program does not compile, or is too large.
    pub async fn check(&self, program: &str) -> Result<(), JqError> {
        let Ok(turn) = self.turn().await else { return Ok(()) };
        match turn.run(program, Bytes::new()).await {
            Err(error @ (JqError::Invalid(_) | JqError::TooLarge(_))) => Err(error),
            // It compiles, and an empty input is no JSON.
            _ => Ok(()),
        }
    }
}

impl JqTurn {
    /// Runs `program` over `input`, which is JSON. Returns its outputs, one on each line: strings as they are,
    /// everything else as JSON. A program without outputs returns an empty text. Waits for the outputs for 10 s at most.
    /// If the future is dropped, the process is killed.
    ///
    /// # Errors
    ///
    /// See [`JqError`].
    pub async fn run(&self, program: &str, input: Bytes) -> Result<String, JqError> {
        if program.len() > MAX_PROGRAM_BYTES {
            return Err(JqError::TooLarge("the program"));
        }
        if input.len() > MAX_INPUT_BYTES {
            return Err(JqError::TooLarge("the result"));
        }
        let answered = timeout(WALL_TIME, exchange(program, &input)).await;
        match answered {
            Ok(Ok((answer, exit))) => parse(&answer, exit),
            Ok(Err(error)) => Err(JqError::NotStarted(error.to_string())),
            // The process was dropped, which ends it.
            Err(_) => Err(JqError::TimedOut),
        }
    }
}

/// Starts the process, passes the program and its input, and returns what the process answers and how it ended. Reads
/// only one byte of outputs beyond the limit. Ends the process when it is dropped.
///
/// # Errors
///
/// The process cannot be started, or its answer or its exit cannot be read.
async fn exchange(program: &str, input: &[u8]) -> io::Result<(Vec<u8>, JqExit)> {
    let (mut stdin, stdout, mut process) = spawn().await?;
    let line = format!("{}\n", serde_json::Value::from(program));
    // A process that the system has ended does not read. How it ended says more than the error of the write.
    if stdin.write_all(line.as_bytes()).await.is_ok() {
        drop(stdin.write_all(input).await);
    }
    drop(stdin);
    let mut answer = Vec::new();
    // One byte of the outcome, and one that shows that there are too many.
    match stdout.take(MAX_OUTPUT_BYTES as u64 + 2).read_to_end(&mut answer).await {
        // So a pipe of Windows ends.
        Err(error) if cfg!(windows) && error.kind() == io::ErrorKind::BrokenPipe => {}
        read => drop(read?),
    }
    Ok((answer, exited(&mut process).await?))
}

fn parse(answer: &[u8], exit: JqExit) -> Result<String, JqError> {
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    match (answer.split_first(), exit) {
        (Some((&outcome::OUTPUTS, outputs)), JqExit::Success) => Ok(text(outputs)),
        (Some((&outcome::INVALID, why)), _) => Err(JqError::Invalid(text(why))),
        (Some((&outcome::FAILED, why)), _) => Err(JqError::Failed(text(why))),
        (Some((&outcome::NO_JSON, why)), _) => Err(JqError::NoJson(text(why))),
        (Some((&outcome::TOO_MUCH, _)), _) => Err(JqError::TooMuchOutput),
        (_, JqExit::TimedOut) => Err(JqError::TimedOut),
        (_, JqExit::Panicked) => Err(JqError::Panicked),
        (_, JqExit::OutOfMemory) => Err(JqError::OutOfMemory),
        // It answers every program and input, and ends with an error only if it cannot begin.
        (_, JqExit::Success) => Err(JqError::NotStarted("it ended without an answer".to_owned())),
        (_, JqExit::Failed(how)) => Err(JqError::NotStarted(how)),
    }
}
