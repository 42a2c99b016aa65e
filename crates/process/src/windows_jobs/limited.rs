//! A process with limits, for work whose author is not trusted.

use super::sys::{self, JobObject, StartedProcess};
use super::{JobError, pipes};
use crate::launch::Launch;
use crate::process_state::Exit;
use std::ffi::OsString;
use std::path::PathBuf;
use tokio::net::windows::named_pipe::NamedPipeServer;

pub use super::sys::JobLimits;

/// A process that the system ends when this is dropped.
pub struct LimitedProcess {
    process: StartedProcess,
    _job: JobObject,
}

impl LimitedProcess {
    /// Starts a program without any environment. Returns its process, and our ends of its stdin and its stdout; its stderr
    /// goes nowhere.
    ///
    /// # Errors
    ///
    /// See [`JobError`].
    pub async fn spawn(
        program: PathBuf,
        args: Vec<OsString>,
        limits: JobLimits,
    ) -> Result<(Self, NamedPipeServer, NamedPipeServer), JobError> {
        let failed = |error| JobError::Start { path: program.clone(), error };
        let cwd = sys::system_directory().map_err(failed)?;
        let launch = Launch { program: program.clone(), args, env: Vec::new(), cwd };
        let stdio = pipes::open().await.map_err(JobError::Pipe)?;
        let job = JobObject::limited(limits).map_err(JobError::Job)?;
        let process = sys::start(&job, &launch, &stdio.of_child).map_err(failed)?;
        Ok((Self { process, _job: job }, stdio.stdin, stdio.stdout))
    }

    /// Waits for the process to exit. Cancel-safe, but to be called no more after it has returned.
    pub async fn exited(&mut self) -> Exit {
        self.process.exited().await.map_or(Exit::Unknown, Exit::Code)
    }
}
