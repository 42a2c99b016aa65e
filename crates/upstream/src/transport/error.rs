//! Why a transport cannot be opened, and how a connection ends.

use config::duration::raise_timeout;
use http_client::error::RemoteError;
use process::child::ProcessEnd;
use process::launch::LaunchError;
use process::warden::SpawnError;
use std::time::Duration;

/// Why a transport cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The config entry names a command that cannot be executed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The process was not spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The process was not spawned within this time.
    #[error(
        "the process was not started within {} s (timeout.connect); if its disk is slow, {}",
        .0.as_secs_f32(),
        raise_timeout("connect", *.0)
    )]
    TimedOut(Duration),
    /// The remote server's config entry cannot be used, or its credentials cannot be had.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// How a connection ended that we did not end.
#[derive(Debug)]
pub enum ConnectionEnd {
    /// The upstream is a process.
    Process(ProcessEnd),
    /// The upstream is a remote server.
    Remote(RemoteError),
}
