//! Starts the process of a jq program on Windows, in a Job Object that limits it. Most often it notices a limit itself
//! (`watchdog`), and its exit code says which.

use super::child;
use super::exit::{JqExit, OUT_OF_MEMORY, TIMED_OUT};
use super::limits::{CPU_TIME, MEMORY_BYTES};
use process::own_program::own_program;
use process::warden::Exit;
use process::windows_jobs::limited::{JobLimits, LimitedProcess};
use std::io;
use std::time::Duration;
use tokio::net::windows::named_pipe::NamedPipeServer;
use windows_sys::Win32::Foundation::{
    ERROR_NOT_ENOUGH_QUOTA, STATUS_NO_MEMORY, STATUS_QUOTA_EXCEEDED, STATUS_STACK_BUFFER_OVERRUN,
    STATUS_STACK_OVERFLOW,
};

/// Starts the process, with nothing of ours but three pipes. It is terminated when it is dropped.
///
/// # Errors
///
/// The system refuses to start it.
pub(super) async fn spawn() -> io::Result<(NamedPipeServer, NamedPipeServer, LimitedProcess)> {
    // The watchdog ends it before the system does, and says why.
    let limits = JobLimits { memory_bytes: MEMORY_BYTES, cpu_time: CPU_TIME + Duration::from_secs(1) };
    let started = LimitedProcess::spawn(own_program(), vec![child::MODE_ARG.into()], limits).await;
    let (process, stdin, stdout) = started.map_err(io::Error::other)?;
    Ok((stdin, stdout, process))
}

/// Waits for the process to exit, without a limit. Never fails.
pub(super) async fn exited(process: &mut LimitedProcess) -> io::Result<JqExit> {
    let exit = process.exited().await;
    let Exit::Code(code) = exit else { return Ok(JqExit::Failed(exit.to_string())) };
    Ok(match code {
        TIMED_OUT => JqExit::TimedOut,
        // The quota of the job that a process can exceed without a failed allocation is its time.
        STATUS_QUOTA_EXCEEDED => JqExit::TimedOut,
        _ if code.cast_unsigned() == ERROR_NOT_ENOUGH_QUOTA => JqExit::TimedOut,
        // Rust ends a process that gets no memory by a fast fail, whose status has the name of another error.
        OUT_OF_MEMORY | STATUS_NO_MEMORY | STATUS_STACK_OVERFLOW | STATUS_STACK_BUFFER_OVERRUN => {
            JqExit::OutOfMemory
        }
        _ => JqExit::from_code(code, exit),
    })
}
