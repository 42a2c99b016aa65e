//! The states of a group.

use crate::error::UpstreamError;
use std::sync::Arc;
use tokio::time::Instant;

/// The state of a group, as users see it.
#[derive(Debug, Clone)]
pub enum State {
    /// No connection was ever made and no catalog is known.
    Pending,
    /// The catalog is known and there is no connection.
    Discovered,
    /// There is a connection.
    Connected,
    /// The last attempt failed.
    Failed(AttemptFailure),
}

impl State {
    /// The name that `get_status` and the log use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Discovered => "discovered",
            Self::Connected => "connected",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the failed attempt, if the group failed.
    pub(crate) fn failure(&self) -> Option<&AttemptFailure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Pending | Self::Discovered | Self::Connected => None,
        }
    }

    /// Returns whether the group failed because a login is missing.
    pub fn needs_login(&self) -> bool {
        self.failure().is_some_and(|failure| failure.error.needs_login())
    }
}

/// The last failed attempt.
#[derive(Debug, Clone)]
pub struct AttemptFailure {
    /// Why it failed.
    pub error: Arc<UpstreamError>,
    /// When it failed.
    pub at: Instant,
    /// How many attempts failed in a row.
    pub attempts: u32,
}
