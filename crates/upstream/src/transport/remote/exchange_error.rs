//! Why one message to a remote server was not answered, or not accepted.

use http_client::client::SizeError;
use http_client::client::{self, BodyError};
use http_client::error::{RemoteError, RemoteErrorKind};
use reqwest::StatusCode;
use wire::Raw;

/// Why a message was not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The server, or the network to it, failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// There is no room for the answer.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The answer came and cannot be read, for this reason.
    #[error("the server's answer is {0}")]
    Malformed(String),
    /// A status in 400..500, with a JSON-RPC error as the body.
    #[error("the server answered with HTTP {status}")]
    Rejected {
        /// The status.
        status: StatusCode,
        /// The body.
        response: Raw,
    },
}

impl ExchangeError {
    /// Whether the connection broke, so that the server may have processed the message.
    pub(super) fn is_connection_lost(&self) -> bool {
        matches!(self, Self::Remote(error) if error.kind == RemoteErrorKind::ConnectionLost)
    }

    /// The reason with the message that the server gave.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Rejected { response, .. } => match client::error_message(response) {
                Some(message) => format!("{self}: {message}"),
                None => self.to_string(),
            },
            error => error.to_string(),
        }
    }
}

impl From<BodyError> for ExchangeError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Size(error) => Self::Size(error),
            BodyError::Interrupted(reason) => RemoteError::connection_lost(&reason).into(),
        }
    }
}
