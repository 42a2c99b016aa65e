//! Starts the process of a jq program on Unix. It limits itself (`limits`), and a signal says which limit ended it.

use super::child;
use super::exit::JqExit;
use process::own_program::own_program;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Starts the process, with nothing of ours but three descriptors. It is killed when it is dropped.
///
/// # Errors
///
/// The system refuses to start it.
pub(super) async fn spawn() -> io::Result<(ChildStdin, ChildStdout, Child)> {
    let mut command = Command::new(own_program());
    command.arg0("dmcp-jq").current_dir("/");
    command.arg(child::MODE_ARG).env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
    let (stdin, stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((stdin, stdout, process))
}

/// Waits for the process to exit, without a limit.
///
/// # Errors
///
/// The system does not tell how it ended.
pub(super) async fn exited(process: &mut Child) -> io::Result<JqExit> {
    let status = process.wait().await?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => JqExit::from_code(code, status),
        (None, Some(libc::SIGXCPU | libc::SIGALRM)) => JqExit::TimedOut,
        // Nothing else sends it a signal.
        (None, _) => JqExit::OutOfMemory,
    })
}
