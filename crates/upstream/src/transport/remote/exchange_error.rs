//! Why one message to a remote server was not answered, or not accepted.

use super::connection::RemoteConnection;
use super::message_reader::to_single_line;
use super::outgoing::{OutgoingMessage, error_code};
use http_client::client::HttpClient;
use http_client::error::{RemoteError, RemoteErrorKind};
use http_client::response_body::{self, BodyError, SizeError};
use reqwest::{Response, StatusCode};
use wire::peer::{CallError, Rejection};
use wire::{Raw, raw};

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
    /// A JSON-RPC error, with a status that is no success or because the session may be lost.
    #[error("the server answered with HTTP {status}")]
    Rejected {
        /// The status.
        status: StatusCode,
        /// The body.
        response: Raw,
    },
}

impl ExchangeError {
    /// Reads the error in the response to `message` whose status is not a success.
    pub(super) async fn of_response(
        connection: &RemoteConnection,
        message: &OutgoingMessage,
        response: Response,
    ) -> Self {
        let status = response.status();
        let body = response_body::read_error_body(response).await;
        match message.error_response(&to_single_line(body.to_vec())) {
            Some(response) if connection.is_stateless() && message.revision_was_withdrawn(&response) => {
                RemoteError::revision_withdrawn().into()
            }
            Some(response) => Self::Rejected { status, response },
            None => connection
                .http
                .error_of_status(status, response_body::error_message(&body).as_deref(), None)
                .into(),
        }
    }

    /// Returns the HTTP status and the JSON-RPC code of a refusal; the code is 0 if there is none. `None`: it is none.
    pub(super) fn refusal(&self) -> Option<(StatusCode, i64)> {
        match self {
            Self::Rejected { status, response } => Some((*status, error_code(response))),
            Self::Remote(RemoteError { kind: RemoteErrorKind::Status(status), .. }) => Some((*status, 0)),
            _ => None,
        }
    }

    /// Returns the error for the request that met a lost session. A server that refuses a request with an HTTP status has
    /// not carried it out.
    pub(super) fn into_closed(self) -> CallError {
        let sent = self.refusal().is_none_or(|(status, _)| !status.is_client_error());
        let error = match &self {
            Self::Rejected { response, .. } => raw::get(response, "error"),
            _ => None,
        };
        let refusal = error.map_or_else(|| Rejection::Other(self.to_string()), Rejection::Error);
        CallError::Closed { sent, refusal: Some(Box::new(refusal)) }
    }

    /// Turns a JSON-RPC error that came with the status of a failed server into the error for that status.
    pub(super) fn with_status_first(self, http: &HttpClient) -> Self {
        match self {
            Self::Rejected { status, response } if status.is_server_error() => {
                http.error_of_status(status, response_body::error_message(&response).as_deref(), None).into()
            }
            error => error,
        }
    }

    /// Whether the connection broke, so that the server may have processed the message.
    pub(super) fn is_connection_lost(&self) -> bool {
        matches!(self, Self::Remote(error) if error.kind == RemoteErrorKind::ConnectionLost)
    }

    /// The reason with the message that the server gave.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Rejected { response, .. } => match response_body::error_message(response) {
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
