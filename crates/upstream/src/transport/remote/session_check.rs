//! Whether the server still has the session.
//!
//! After a restart, servers refuse the requests of an old session with several statuses and in many words. A `ping` in
//! the session tells what a refusal means: a server that has the session answers it as it did when the session was new.

use super::connection::RemoteConnection;
use super::exchange_error::ExchangeError;
use super::outgoing::OutgoingMessage;
use http_client::response_body;
use reqwest::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::protocol::code;

/// How long the answer to a `ping` is awaited.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns whether an answer with this code may come from a server that lost the session.
pub(super) fn is_suspicious(code: i64) -> bool {
    matches!(code, code::SERVER_ERROR | code::INVALID_REQUEST)
}

/// Returns whether the server has lost the session, as far as its answer to a POST tells: a 404, or a refusal that it
/// repeats for a `ping`.
pub(super) async fn lost_session(connection: &RemoteConnection, error: &ExchangeError) -> bool {
    let Some((status, code)) = error.refusal() else { return false };
    match status {
        StatusCode::NOT_FOUND => connection.has_session(),
        _ if is_suspicious(code) || may_mean_lost(status) => {
            refuses_ping(connection, |ping| ping == (status, code)).await
        }
        _ => false,
    }
}

/// Returns whether the server has lost the session, if it refused a GET with this status.
pub(super) async fn lost_session_at_get(connection: &RemoteConnection, status: StatusCode) -> bool {
    (status == StatusCode::NOT_FOUND || may_mean_lost(status))
        && refuses_ping(connection, |ping| ping.0 == status).await
}

/// Returns whether a server may answer with this status after it lost a session. A 404 needs no `ping`.
fn may_mean_lost(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 409 | 410 | 422)
}

/// Returns whether a `ping` is refused with 404 or in the same way as a request, unless the server refused it in that way
/// when the session was new.
async fn refuses_ping(
    connection: &RemoteConnection,
    is_same: impl FnOnce((StatusCode, i64)) -> bool,
) -> bool {
    let Some(first) = connection.first_ping.get() else { return false };
    match refusal_of_ping(connection).await {
        Some(ping) => *first != Some(ping) && (ping.0 == StatusCode::NOT_FOUND || is_same(ping)),
        None => false,
    }
}

/// Learns how the server answers a `ping` in a new session. Some servers have no `ping`.
pub(super) async fn learn_ping(connection: Arc<RemoteConnection>) {
    if connection.has_session() {
        let refusal = refusal_of_ping(&connection).await;
        connection.first_ping.get_or_init(|| refusal);
    }
}

async fn refusal_of_ping(connection: &RemoteConnection) -> Option<(StatusCode, i64)> {
    ping(connection).await.err()?.refusal()
}

/// Sends a `ping` by POST. Waits at most `PING_TIMEOUT`; a late answer is no error.
///
/// # Errors
///
/// The server cannot be reached, or refuses the `ping`.
pub(super) async fn ping(connection: &RemoteConnection) -> Result<(), ExchangeError> {
    let message = OutgoingMessage::ping();
    let answered = async {
        let response = connection.post(&message).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(ExchangeError::of_response(connection, &message, response).await);
        }
        let answer = response_body::read_error_body(response).await;
        match message.error_response(&answer) {
            Some(response) => Err(ExchangeError::Rejected { status, response }),
            None => Ok(()),
        }
    };
    timeout(PING_TIMEOUT, answered).await.unwrap_or(Ok(()))
}
