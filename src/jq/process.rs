//! Starts the process of a jq program and reads its outputs.

use super::child;
use super::limits::{AVAILABLE, CPU_TIME, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, MEMORY_BYTES, WALL_TIME};
use super::outcome;
use crate::transport::own_program::own_program;
use bytes::Bytes;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many programs run at the same time.
const MAX_PROCESSES: usize = 2;
/// How long a program waits for others to end.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// The exit code of a program that panicked.
const PANICKED: i32 = 101;
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
    #[error("the program needs more than {} MB of memory, or recurses too deep", MEMORY_BYTES >> 20)]
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
    /// This system cannot limit the process.
    #[error("it does not run on this system")]
    Unsupported,
}

/// Runs programs, a few at a time. Clones take turns with each other.
#[derive(Clone)]
pub struct JqRunner {
    /// A permit for each program that may run.
    turns: Arc<Semaphore>,
}

impl Default for JqRunner {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MAX_PROCESSES)) }
    }
}

impl JqRunner {
    /// Runs `program` over `input`, which is JSON. Returns its outputs, one on each line. If it is dropped, the process
    /// is killed.
    ///
    /// # Errors
    ///
    /// See [`JqError`].
    pub async fn run(&self, program: &str, input: Bytes) -> Result<String, JqError> {
        if !AVAILABLE {
            return Err(JqError::Unsupported);
        }
        if program.len() > MAX_PROGRAM_BYTES {
            return Err(JqError::TooLarge("the program"));
        }
        if input.len() > MAX_INPUT_BYTES {
            return Err(JqError::TooLarge("the result"));
        }
        let turn = timeout(TURN_TIMEOUT, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(JqError::Busy) };
        let mut process = spawn().map_err(|error| JqError::NotStarted(error.to_string()))?;
        let answered = timeout(WALL_TIME, exchange(&mut process, program, &input)).await;
        match answered {
            Ok(Ok((answer, status))) => parse(&answer, status),
            Ok(Err(error)) => Err(JqError::NotStarted(error.to_string())),
            // Dropping the process kills it.
            Err(_) => Err(JqError::TimedOut),
        }
    }
}

/// Starts the process, with nothing of ours but three descriptors. This is the only place that knows how.
fn spawn() -> io::Result<Child> {
    let mut command = Command::new(own_program());
    #[cfg(unix)]
    command.arg0("dmcp-jq").current_dir("/");
    command.arg(child::MODE_ARG).env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn()
}

/// Passes the program and its input, and returns what the process answers and how it ended.
async fn exchange(process: &mut Child, program: &str, input: &[u8]) -> io::Result<(Vec<u8>, ExitStatus)> {
    let (Some(mut stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let line = format!("{}\n", serde_json::Value::from(program));
    // A process that the system has ended does not read. Its status says more than the error of the write.
    if stdin.write_all(line.as_bytes()).await.is_ok() {
        drop(stdin.write_all(input).await);
    }
    drop(stdin);
    let mut answer = Vec::new();
    // One byte of the outcome, and one that shows that there are too many.
    stdout.take(MAX_OUTPUT_BYTES as u64 + 2).read_to_end(&mut answer).await?;
    Ok((answer, process.wait().await?))
}

fn parse(answer: &[u8], status: ExitStatus) -> Result<String, JqError> {
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    match answer.split_first() {
        Some((&outcome::OUTPUTS, outputs)) if status.success() => Ok(text(outputs)),
        Some((&outcome::INVALID, why)) => Err(JqError::Invalid(text(why))),
        Some((&outcome::FAILED, why)) => Err(JqError::Failed(text(why))),
        Some((&outcome::NO_JSON, why)) => Err(JqError::NoJson(text(why))),
        Some((&outcome::TOO_MUCH, _)) => Err(JqError::TooMuchOutput),
        _ if ended_by_time_limit(status) => Err(JqError::TimedOut),
        _ if status.code() == Some(PANICKED) => Err(JqError::Panicked),
        // It answers whatever it can, and ends with an error if it cannot even begin.
        _ if status.code().is_some() => Err(JqError::NotStarted(status.to_string())),
        _ => Err(JqError::OutOfMemory),
    }
}

#[cfg(unix)]
fn ended_by_time_limit(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    [libc::SIGXCPU, libc::SIGALRM].map(Some).contains(&status.signal())
}

#[cfg(not(unix))]
fn ended_by_time_limit(_status: ExitStatus) -> bool {
    false
}
