//! What concerns one call beside its params: how long it may take, where its progress goes, why it has no answer.

use super::Raw;
use super::output::Output;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// Where the progress of a call goes: to another connection, under the token that its client chose. Clones share it.
#[derive(Clone)]
pub struct Progress {
    pub output: Output,
    token: Arc<Mutex<Option<Raw>>>,
}

impl Progress {
    pub fn new(output: Output, token: Raw) -> Self {
        Self { output, token: Arc::new(Mutex::new(Some(token))) }
    }

    /// `None`: nobody wants to hear of it now.
    pub fn token(&self) -> Option<Raw> {
        self.token.lock().clone()
    }

    /// From now on it goes there.
    pub fn redirect(&self, token: Option<Raw>) {
        *self.token.lock() = token;
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// `sent`: the request may have been carried out.
    #[error("the connection was closed")]
    Closed { sent: bool },
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("the answer was longer than the limit of {limit} bytes ({bytes} bytes)")]
    TooLong { bytes: u64, limit: usize },
    /// This request alone failed on its way; the connection goes on.
    #[error("{why}")]
    Failed { why: String, cure: RetryHint },
}

/// What may help a request that failed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// The same may go well next time.
    Time,
    /// A person who logs in. The request was not carried out.
    Login,
    Nothing,
}

impl CallError {
    /// Whether the same request may be made once more: it cannot have been carried out, or that does no harm.
    pub fn may_be_repeated(&self, harmless: bool) -> bool {
        match self {
            Self::Closed { sent } => !sent || harmless,
            Self::Failed { cure, .. } => *cure == RetryHint::Time && harmless,
            Self::TimedOut(_) | Self::TooLong { .. } => false,
        }
    }

    /// Whether the same request may be made once a person has logged in.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::Failed { cure: RetryHint::Login, .. })
    }
}

/// How long to wait for an answer, and what else concerns one call.
#[derive(Clone)]
pub struct CallOptions {
    /// Without progress.
    pub quiet: Duration,
    /// In all.
    pub total: Duration,
    pub progress: Option<Progress>,
    /// The answer may be a task, whose progress comes after it (2025-11-25, tasks).
    pub lasting: bool,
    /// Told with the params when the other side says that it honours this `subscriptions/listen` (2026-07-28).
    pub acknowledged: Option<watch::Sender<Option<Raw>>>,
    /// False for `initialize`, which must not be cancelled.
    pub cancellable: bool,
    /// The params of the `notifications/cancelled` that ends this call, if it was a client's.
    pub cancelled: CancelParams,
}

/// Filled with the params of a client's cancellation before the call's future is dropped.
pub type CancelParams = Arc<OnceLock<Raw>>;

impl CallOptions {
    pub fn within(time: Duration) -> Self {
        Self {
            quiet: time,
            total: time,
            progress: None,
            lasting: false,
            acknowledged: None,
            cancellable: true,
            cancelled: CancelParams::default(),
        }
    }
}
