//! How far the connecting of a group has come, for callers that wait for it.

use crate::error::UpstreamError;
use config::duration::raise_timeout;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a group that is being connected.
#[derive(Debug, Clone, Default)]
pub struct StartProgress {
    /// How long the group has been connecting: all attempts since the last success or answer.
    pub elapsed: Duration,
    /// The last line that its process wrote to stderr, in quotes.
    pub stderr: Option<String>,
    /// Why its process does not answer, if its output says so.
    pub hint: Option<String>,
    /// How long a call waits for it.
    pub wait: Duration,
    /// How long an attempt waits for its first answer.
    pub(crate) attempt_limit: Duration,
    /// Why the last attempt failed or the last connection was lost, if anything is known.
    pub last_failure: Option<Arc<UpstreamError>>,
}

/// Writes what follows "group X is initializing", a line each.
impl fmt::Display for StartProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = &self.stderr {
            write!(f, "\nThe last line of its stderr: {line}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{hint}")?;
        }
        write!(
            f,
            "\nA call waits {} s for it (timeout.wait), and an attempt ends after {} s without an answer \
             (timeout.initialize)",
            self.wait.as_secs_f32(),
            self.attempt_limit.as_secs_f32(),
        )?;
        match &self.last_failure {
            // An error about a limit says how to raise it.
            Some(error) => write!(f, ".\nIts last failure: {error}"),
            None => write!(f, "; if it needs longer, {}.", raise_timeout("initialize", self.attempt_limit)),
        }
    }
}
