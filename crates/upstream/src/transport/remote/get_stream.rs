//! The event stream that a client opens by GET, on which the server sends what belongs to no request (revisions
//! 2025-03-26 to 2025-11-25, "Listening for Messages from the Server"). A server need not have it.

use super::connection::RemoteConnection;
use super::event_stream::{EventStream, ReconnectState, StreamEnd};
use http_client::error::{RemoteError, RemoteErrorKind};
use reqwest::StatusCode;
use std::sync::Arc;

/// After this many attempts in a row that did not reach the server, the connection ends, so that the group's state
/// shows it.
const MAX_UNREACHABLE_ATTEMPTS: u32 = 3;

/// Opens the stream, delivers what comes on it, and opens it again when it is lost. Returns if the server does not have
/// it. Ends the connection and returns if the session has ended, if a login or another config is needed, or if the
/// server cannot be reached after `MAX_UNREACHABLE_ATTEMPTS` failures in a row.
pub async fn run(connection: Arc<RemoteConnection>) {
    let (mut reconnect, mut failures, mut was_open) = (ReconnectState::default(), 0, false);
    loop {
        match connection.open_get_stream(reconnect.last_event_id.as_ref()).await {
            Ok(events) => {
                was_open = true;
                deliver(&connection, events, &mut reconnect, &mut failures).await;
            }
            Err(error) => match error.kind {
                RemoteErrorKind::Status(StatusCode::NOT_FOUND)
                    if was_open && connection.session_id.get().is_some() =>
                {
                    return connection.end(RemoteError::session_ended(), None).await;
                }
                RemoteErrorKind::Unreachable if failures + 1 < MAX_UNREACHABLE_ATTEMPTS => {}
                RemoteErrorKind::LoginNeeded | RemoteErrorKind::Config | RemoteErrorKind::Unreachable => {
                    return connection.end(error, None).await;
                }
                RemoteErrorKind::Busy | RemoteErrorKind::ConnectionLost => {}
                RemoteErrorKind::Status(status) if status.is_server_error() && was_open => {}
                // A server without the stream answers 405.
                RemoteErrorKind::Status(_)
                | RemoteErrorKind::InsufficientScope
                | RemoteErrorKind::InvalidResponse
                | RemoteErrorKind::WrongAddress
                | RemoteErrorKind::SessionEnded => {
                    tracing::debug!(%error, "the server has no event stream for GET");
                    return;
                }
            },
        }
        reconnect.wait(failures).await;
        failures += 1;
    }
}

/// Delivers events until the stream ends or one is too long, which is logged. Each event resets `failures`.
async fn deliver(
    connection: &RemoteConnection,
    mut events: EventStream,
    reconnect: &mut ReconnectState,
    failures: &mut u32,
) {
    let end = loop {
        match events.next().await {
            Ok(event) => {
                *failures = 0;
                reconnect.record(&event);
                connection.deliver_event(event).await;
            }
            Err(end) => break end,
        }
    };
    if let StreamEnd::Size(error) = end {
        let limit = connection.max_message_bytes;
        tracing::warn!(limit, "dropped a message from the server: {error}");
    }
}
