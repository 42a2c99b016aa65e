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
    /// For a single upstream.
    pub const ORDINARY: Self =
        Self { sigterm_after: Duration::from_secs(2), sigkill_after: Duration::from_secs(3) };
    /// For our own shutdown: clients kill us 2 s after they closed our stdin.
    pub const FAST: Self =
        Self { sigterm_after: Duration::from_millis(300), sigkill_after: Duration::from_secs(1) };
}
