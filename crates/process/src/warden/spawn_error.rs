//! Why an upstream was not spawned.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;

use super::handle::SpawnReplyError;
use super::protocol::SpawnStep;
use crate::launch::Launch;

/// Why an upstream was not spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The upstream's working directory cannot be entered.
    #[error("cannot enter the working directory {}: {}", path.display(), errno.desc())]
    Chdir {
        /// The directory.
        path: PathBuf,
        /// Why chdir(2) failed.
        errno: Errno,
    },
    /// The upstream's program cannot be executed.
    #[error("cannot run {}: {}", path.display(), errno.desc())]
    Exec {
        /// The program.
        path: PathBuf,
        /// Why fork(2) or execve(2) failed.
        errno: Errno,
    },
    /// The file system of the program or of the working directory hangs.
    #[error(
        "cannot run {}: the system did not start it within {} s; the file system that has it, or its working directory \
         {}, does not answer",
        program.display(), after.as_secs(), cwd.display()
    )]
    Hung {
        /// The program.
        program: PathBuf,
        /// The working directory.
        cwd: PathBuf,
        /// How long it was awaited.
        after: Duration,
    },
    /// We have too many open files, for example.
    #[error("cannot create the pipes to the process")]
    Pipe(#[source] io::Error),
    /// The warden processes hang or are stopped.
    #[error("the warden process, which starts all servers, did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The warden process cannot be started, or died.
    #[error("the warden process, which starts all servers, does not work")]
    Warden(#[source] io::Error),
    /// [`Warden::shutdown`](super::Warden::shutdown) was called.
    #[error("dynamic-mcp is shutting down")]
    ShuttingDown,
}

impl SpawnError {
    /// Returns the error of a warden process that died before it answered.
    pub(super) fn warden_died() -> Self {
        Self::Warden(io::Error::other("it exited before it answered"))
    }

    /// Returns the error for a result of the client task.
    pub(super) fn from_reply(error: SpawnReplyError, launch: &Launch) -> Self {
        match error {
            SpawnReplyError::Failed(SpawnStep::Chdir, errno) => {
                Self::Chdir { path: launch.cwd.clone(), errno }
            }
            SpawnReplyError::Failed(SpawnStep::Exec, errno) => {
                Self::Exec { path: launch.program.clone(), errno }
            }
            SpawnReplyError::VersionMismatch => Self::Warden(io::Error::other(
                "its executable was replaced by another version of dynamic-mcp; restart dynamic-mcp",
            )),
        }
    }
}
