//! The event stream that a client opens by GET, on which the server sends what belongs to no request (revisions
//! 2025-03-26 to 2025-11-25, "Listening for Messages from the Server"). A server need not have it.

use super::connection::RemoteConnection;
use super::event_stream::{EventStream, ReconnectState, StreamEnd};
use super::exchange_error::ExchangeError;
use super::server_stream::ServerStream;
use super::session_check::{lost_session_at_get, ping};
use http_client::error::{RemoteError, RemoteErrorKind};
use reqwest::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// After this many attempts in a row that failed, the stream is missing.
const MAX_ATTEMPTS: u32 = 3;
/// How long to wait before a missing stream that is needed is tried again.
const MISSING_RETRY_INTERVAL: Duration = Duration::from_secs(180);

/// Opens the stream, delivers what comes on it, and opens it again when it is lost. A stream that is missing after
/// `MAX_ATTEMPTS` is tried again only while a subscription needs it. Its failures never end the connection; a `ping` by
/// POST, which finds that the session is lost or the server is gone, does, and this returns then.
pub async fn run(connection: Arc<RemoteConnection>) {
    let stream = connection.server_stream.clone();
    let (mut reconnect, mut interruptions, mut failures) = (ReconnectState::default(), 0, 0);
    loop {
        match connection.open_get_stream(reconnect.last_event_id.as_ref()).await {
            Ok(events) => {
                failures = 0;
                stream.set_missing(None);
                deliver(&connection, events, &mut reconnect, &mut interruptions).await;
            }
            Err(error) => {
                failures += 1;
                if let Some(reason) = why_ended(&connection, &error, failures).await {
                    return connection.end(reason, None).await;
                }
                // A server without the stream answers 405. A login is not asked for again at once.
                let is_final = error.kind == RemoteErrorKind::Status(StatusCode::METHOD_NOT_ALLOWED);
                if is_final || error.needs_person() || failures >= MAX_ATTEMPTS {
                    failures = missing(&stream, &error, failures).await;
                    continue;
                }
            }
        }
        reconnect.wait(interruptions).await;
        interruptions += 1;
    }
}

/// Waits until a stream that is missing because of `error` is to be tried again. Returns how many failures still count.
async fn missing(stream: &ServerStream, error: &RemoteError, failures: u32) -> u32 {
    tracing::debug!(%error, "the server has no event stream for GET");
    stream.set_missing(Some(error.to_string()));
    if !stream.is_needed() {
        stream.needed().await;
        return 0;
    }
    if let Some(finding) = stream.finding() {
        tracing::warn!("{finding}");
    }
    tokio::time::sleep(MISSING_RETRY_INTERVAL).await;
    failures
}

/// Asks the server by POST what it means that the stream could not be opened. Returns why the connection has to end.
/// `failures`: how many there were in a row.
async fn why_ended(connection: &RemoteConnection, error: &RemoteError, failures: u32) -> Option<RemoteError> {
    match error.kind {
        RemoteErrorKind::Status(status) if lost_session_at_get(connection, status).await => {
            Some(RemoteError::session_ended())
        }
        // The group's state is to show a server that is gone. An open request shows it by itself.
        RemoteErrorKind::Unreachable if failures == MAX_ATTEMPTS && !connection.is_busy() => {
            match ping(connection).await {
                Err(ExchangeError::Remote(error)) if error.ends_connection() => Some(error),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Delivers events until the stream ends or one is too long, which is logged. Each event resets `interruptions`.
async fn deliver(
    connection: &RemoteConnection,
    mut events: EventStream,
    reconnect: &mut ReconnectState,
    interruptions: &mut u32,
) {
    let end = loop {
        match events.next().await {
            Ok(event) => {
                *interruptions = 0;
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::time::Instant;
    use wire::Raw;
    use wire::protocol::methods::Method;

    fn subscribe(stream: &ServerStream) {
        let request = Raw::from_static(br#"{"params":{"uri":"mem://one"}}"#);
        stream.record(Method::ResourcesSubscribe.name(), &request);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_stream_is_tried_every_three_minutes_while_a_subscription_needs_it() {
        let (stream, error) = (ServerStream::default(), RemoteError::session_ended());
        subscribe(&stream);
        let began = Instant::now();
        assert_eq!(missing(&stream, &error, MAX_ATTEMPTS).await, MAX_ATTEMPTS, "the next failure counts");
        assert_eq!(began.elapsed(), MISSING_RETRY_INTERVAL);
        assert!(stream.finding().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_stream_that_nobody_needs_is_not_tried_until_a_subscription_needs_it() {
        let (stream, error) = (ServerStream::default(), RemoteError::session_ended());
        let mut waits = Box::pin(missing(&stream, &error, MAX_ATTEMPTS));
        tokio::time::sleep(10 * MISSING_RETRY_INTERVAL).await;
        assert!(waits.as_mut().now_or_never().is_none() && stream.finding().is_none());
        let began = Instant::now();
        subscribe(&stream);
        assert_eq!((waits.await, began.elapsed()), (0, Duration::ZERO));
    }
}
