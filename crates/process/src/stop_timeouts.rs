//! How long the end of an upstream process may take.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a stop uses force, counted from its start. The caller closes the process's stdin first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopTimeouts {
    /// The time until SIGTERM. Windows has no such signal.
    pub sigterm_after: Duration,
    /// The time until SIGKILL, or until the processes are terminated on Windows.
    pub sigkill_after: Duration,
}

impl StopTimeouts {
    /// For a server, which may have something to save. MCP's SDKs give it the same time.
    pub const ORDINARY: Self =
        Self { sigterm_after: Duration::from_secs(2), sigkill_after: Duration::from_secs(4) };
    /// For a process that is no server.
    pub const FAST: Self =
        Self { sigterm_after: Duration::from_millis(300), sigkill_after: Duration::from_secs(1) };
    /// For the servers when we end. Windows ends them with us, and clients kill us 2 s after they closed our stdin.
    /// Elsewhere the warden process continues without us.
    pub const SHUTDOWN: Self = if cfg!(windows) { Self::FAST } else { Self::ORDINARY };
}

/// How long our exit waits for the servers: 1 s, because clients do not wait much longer. As the first process of a
/// container, which ends with us, we wait for their whole time.
pub fn exit_wait() -> Duration {
    let is_first = cfg!(unix) && std::process::id() == 1;
    if is_first { StopTimeouts::ORDINARY.sigkill_after } else { Duration::from_secs(1) }
}
