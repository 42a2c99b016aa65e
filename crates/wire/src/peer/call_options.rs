//! The options and errors of one outgoing request: its time limits, where its progress goes, and why it failed.

use crate::body::Body;
use crate::budget::BUDGET_BYTES;
use crate::output::Output;
use crate::{Raw, raw};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Where the progress of a call goes: to another connection, under the token that its client chose. Clones share it.
#[derive(Clone)]
pub struct Progress {
    /// The connection of the client.
    pub output: Output,
    token: Arc<Mutex<Option<Raw>>>,
}

impl Progress {
    /// Creates progress that goes to `output` under `token`, as the client wrote it.
    pub fn new(output: Output, token: Raw) -> Self {
        Self { output, token: Arc::new(Mutex::new(Some(token))) }
    }

    /// Returns the client's token. `None`: no request of the client is open for it at the moment.
    pub fn token(&self) -> Option<Raw> {
        self.token.lock().clone()
    }

    /// Replaces the token. While it is `None`, progress is dropped.
    pub fn redirect(&self, token: Option<Raw>) {
        *self.token.lock() = token;
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection ended.
    #[error("the connection was closed")]
    Closed {
        /// Whether the request was sent, so that it may have been carried out.
        sent: bool,
        /// How the server refused the request, if that showed that it has lost the session. Unless the request is
        /// repeated, this is its outcome.
        refusal: Option<Box<Rejection>>,
    },
    /// No answer and no progress came within this time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The answer exceeded the limit for one message.
    #[error("the answer was longer than the limit of {limit} bytes ({bytes} bytes)")]
    TooLong {
        /// The length of the answer in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer came and cannot be read.
    #[error("the server's answer is {0}")]
    Malformed(String),
    /// The server refused the answer to a question that it had asked during the call.
    #[error("the server refused the answer to its own question: {0}")]
    AnswerRefused(String),
    /// The answer was dropped because the memory for messages is used up.
    #[error(
        "the answer ({bytes} bytes) was dropped because too many large answers wait to be read: they share {} MiB",
        BUDGET_BYTES >> 20
    )]
    OverBudget {
        /// The length of the answer in bytes, or the number of its bytes that were read.
        bytes: u64,
    },
    /// The transport failed to deliver this request; the connection stays open.
    #[error("{why}")]
    Failed {
        /// Which part failed, for the error message.
        why: String,
        /// When another attempt may succeed.
        hint: RetryHint,
    },
}

/// How a server refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// With this JSON-RPC error.
    Error(Raw),
    /// In another way, which this text describes.
    Other(String),
}

/// When a request that could not be delivered may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    /// It may succeed at another time, and may have been carried out.
    Later,
    /// After a person has logged in. It was not carried out.
    AfterLogin,
    /// It would fail again.
    Never,
}

impl CallError {
    /// Creates the error for a call that was not answered for this long, rounded down to a tenth of a second.
    pub fn timed_out(after: Duration) -> Self {
        let tenths = u64::try_from(after.as_millis() / 100).unwrap_or(u64::MAX / 100);
        Self::TimedOut(Duration::from_millis(tenths * 100))
    }

    /// Returns whether the request may be sent once more: it cannot have been carried out, or `repeatable` says that
    /// carrying it out twice does no harm.
    pub fn may_be_repeated(&self, repeatable: bool) -> bool {
        match self {
            Self::Closed { sent, .. } => !sent || repeatable,
            Self::Failed { hint, .. } => *hint == RetryHint::Later && repeatable,
            Self::TimedOut(_)
            | Self::TooLong { .. }
            | Self::OverBudget { .. }
            | Self::Malformed(_)
            | Self::AnswerRefused(_) => false,
        }
    }

    /// Returns whether the request may be sent again once a person has logged in.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::Failed { hint: RetryHint::AfterLogin, .. })
    }
}

/// The limits of one call, its progress and its cancellation.
#[derive(Clone)]
pub struct CallOptions {
    /// The limit for the answer. Progress restarts it.
    pub timeout: Duration,
    /// The limit for the answer, regardless of progress.
    pub max_total: Duration,
    /// Where progress goes.
    pub progress: Option<Progress>,
    /// Whether the answer may be a task, whose progress comes after it (2025-11-25, tasks).
    pub may_become_task: bool,
    /// The caller's own number for a call that a client made, which `Peer::origin` returns while it is open.
    pub origin: Option<u64>,
    /// Receives the params of the acknowledgement of a `subscriptions/listen` (2026-07-28).
    pub on_acknowledged: Option<watch::Sender<Option<Raw>>>,
    /// Whether dropping the call cancels the request. False for `initialize`, which a client must not cancel (MCP,
    /// cancellation).
    pub cancellable: bool,
}

impl CallOptions {
    /// Creates a call that is answered within `timeout`, whether or not progress comes.
    pub fn within(timeout: Duration) -> Self {
        Self {
            timeout,
            max_total: timeout,
            progress: None,
            may_become_task: false,
            origin: None,
            on_acknowledged: None,
            cancellable: true,
        }
    }
}

/// Sets the progress token of a request. The id of the request serves as its token. Params that are not an object stay
/// as they are.
pub(crate) fn with_progress_token(params: Option<&Body>, id: u64) -> Body {
    let params = params.cloned().unwrap_or_else(|| Raw::from_static(b"{}").into());
    let token = Raw::from(id.to_string());
    params
        .set_progress_token(token.clone())
        .unwrap_or_else(|params| raw::set_in(&params.join(), "_meta", "progressToken", &token).into())
}
