//! Connections to remote servers: Streamable HTTP in all its revisions, and the older HTTP+SSE transport.
//!
//! # Theory of operation
//!
//! The peer of a remote connection writes and reads lines, like the peer of a child process:
//!
//! ```text
//! peer ──lines──▶ driver ──a task for each message──▶ exchange ──HTTP──▶ server
//!      ◀──lines── message_reader ◀──bounded queue── exchange, get_stream, http_sse ◀──
//! ```
//!
//! `driver` is the connection's task. It reads the peer's lines and starts an `exchange` for each message, which sends
//! it by POST and passes on the JSON or the events that come back. `get_stream` reads the stream that belongs to no
//! request, `http_sse` the single stream of the older transport; `event_stream` parses all streams. `session_check` finds
//! out whether the server has lost the session, and `server_stream` whether a stream is missing. All tasks share a
//! `connection`. `request_streams` knows which call a request of the server concerns. `outgoing` is a message on its
//! way to the server, with its `headers` and `param_headers`.
//!
//! A request without an answer is reported beside the lines, as a
//! [`FailedRequest`](super::open_transport::FailedRequest). An error that concerns the whole connection is stored
//! before the request that met it is reported, so a caller that repeats the request finds the connection ended.
//!
//! Invariants: messages pass byte for byte; a peer that does not read stops the responses that feed it; no message
//! overtakes `notifications/initialized`; credentials are sent only to the origin of the config's URL.

use super::open_transport::{Grace, OpenTransport, RequestFailures, ServerControl};
use crate::error::UpstreamError;
use config::{HttpConfig, HttpTransportKind};
use connection::RemoteConnection;
use driver::ConnectionDriver;
use futures_util::future::BoxFuture;
use http_client::client::HttpClient;
use http_client::credentials::Credentials;
use http_client::error::RemoteError;
use message_reader::MessageReader;
use request_streams::RequestStreams;
use server_stream::ServerStream;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::Instrument;
use wire::Raw;
use wire::lines::{LineReader, UNLIMITED};
use wire::output::Output;

pub mod connection;
pub mod driver;
pub mod event_stream;
pub mod exchange;
mod exchange_error;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../../fuzz/glue/event_streams.rs"]
pub mod fuzz;
pub mod get_stream;
pub mod headers;
pub mod http_sse;
pub mod message_reader;
pub mod outgoing;
pub mod param_headers;
pub mod request_streams;
pub mod server_stream;
mod session_check;

/// How many received messages are buffered. Responses are not read on while the buffer is full.
const MAX_UNREAD_MESSAGES: usize = 2;
/// How many bytes of the peer's messages are buffered on their way to the driver.
const UNSENT_BUFFER_BYTES: usize = 64 << 10;
/// How many failed requests are buffered.
const MAX_UNREAD_FAILURES: usize = 64;

/// How long the end of a remote session may take.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The same when the proxy itself ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// A remote connection. It is aborted when this is dropped.
struct Remote {
    /// Why nothing more can be sent; set by the driver.
    end_reason: Arc<OnceLock<RemoteError>>,
    /// The transport that the server speaks, if the config demands the other one; set by the driver.
    other_transport: Arc<OnceLock<HttpTransportKind>>,
    /// The streams that the server's requests came on.
    request_streams: RequestStreams,
    /// The server's own stream.
    server_stream: Arc<ServerStream>,
    /// Stops the driver within the time that is sent. Closed when the driver has ended.
    stop: watch::Sender<Option<Duration>>,
    /// The driver's task.
    driver: AbortHandle,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Starts the task of a connection. Nothing is sent yet: the first message opens the connection. `max_message_bytes`
/// limits each received message.
///
/// # Errors
///
/// Those of `HttpClient::new`: the config is not valid, or the certificates are not read within `connect_timeout`.
pub(super) async fn open(
    config: &HttpConfig,
    connect_timeout: Duration,
    max_message_bytes: usize,
    credentials: Arc<dyn Credentials>,
) -> Result<OpenTransport, RemoteError> {
    let http = HttpClient::new(config, connect_timeout, credentials).await?;
    let (messages, received) = mpsc::channel(MAX_UNREAD_MESSAGES);
    let (failed_requests, failures) = mpsc::channel(MAX_UNREAD_FAILURES);
    let connection = RemoteConnection::new(http, config.kind, max_message_bytes, messages, failed_requests);
    let end_reason = connection.end_reason();
    let other_transport = connection.other_transport.clone();
    let request_streams = connection.request_streams.clone();
    let server_stream = connection.server_stream.clone();
    let (peer_end, driver_end) = tokio::io::duplex(UNSENT_BUFFER_BYTES);
    let (output, writer) = Output::any(peer_end);
    let (stop, stopped) = watch::channel(None);
    // No limit: the messages that we send were limited when they were received from a client.
    let lines = LineReader::new(Box::new(driver_end), UNLIMITED);
    let driver = ConnectionDriver::new(connection, lines, stopped);
    let driver = tokio::spawn(driver.run().in_current_span()).abort_handle();
    let remote = Remote { end_reason, other_transport, request_streams, server_stream, stop, driver };
    let (input, failures) = (Box::new(MessageReader::new(received)), RequestFailures::new(failures));
    Ok(OpenTransport { input, output, writer, handle: Arc::new(remote), failures })
}

impl ServerControl for Remote {
    /// Returns what is wrong with the transport that the config demands, if something is.
    fn finding(&self) -> Option<String> {
        self.other_transport.get().map(|found| found.is_not_as_configured().to_owned())
    }

    fn server_stream(&self) -> Option<Arc<ServerStream>> {
        Some(self.server_stream.clone())
    }

    fn close_reason(&self) -> Option<RemoteError> {
        self.end_reason.get().cloned()
    }

    fn call_of(&self, id: &Raw) -> Option<Raw> {
        self.request_streams.call_of(id)
    }

    fn connection_end(&self) -> BoxFuture<'_, UpstreamError> {
        let reason = self.close_reason().unwrap_or_else(|| RemoteError::connection_lost("it was closed"));
        Box::pin(ready(reason.into()))
    }

    /// Aborts all requests and ends the session.
    fn stop(&self, grace: Grace) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop.send_replace(Some(match grace {
                Grace::Ordinary => END_TIMEOUT,
                Grace::Shutdown => SHUTDOWN_TIMEOUT,
            }));
            self.stop.closed().await;
        })
    }
}
