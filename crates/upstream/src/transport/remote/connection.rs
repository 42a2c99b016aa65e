//! The state that all tasks of one connection share: how to reach the server, what is known of it, and where its
//! messages go.

use super::event_stream::{EventStream, ServerSentEvent};
use super::headers::{LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use super::outgoing::OutgoingMessage;
use super::param_headers::ParamHeaders;
use super::request_streams::RequestStreams;
use super::server_stream::ServerStream;
use crate::transport::open_transport::FailedRequest;
use config::HttpTransportKind;
use http_client::client::{self, HttpClient, HttpRequest};
use http_client::error::RemoteError;
use http_client::response_body::{self, EVENT_STREAM};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use wire::Raw;
use wire::peer::CallError;

/// The state of one connection. What is known of the server is set once and does not change.
pub struct RemoteConnection {
    /// Sends the HTTP requests.
    pub http: HttpClient,
    /// The transport that the config demands. `None`: Streamable HTTP, or HTTP+SSE if the server has nothing else.
    pub(crate) transport_kind: Option<HttpTransportKind>,
    /// The longest message, in bytes.
    pub max_message_bytes: usize,
    /// Messages for the peer. Bounded: a peer that does not read stops the responses that feed it.
    messages: mpsc::Sender<Raw>,
    /// Requests that have no answer.
    failed_requests: mpsc::Sender<FailedRequest>,
    /// Whether the server is of the stateless era. Set by the first request.
    pub stateless: OnceLock<bool>,
    /// The `Mcp-Session-Id` of the answer to `initialize`.
    pub(crate) session_id: OnceLock<HeaderValue>,
    /// How the server refused a first `ping` in the session; `None` if it answered.
    pub(crate) first_ping: OnceLock<Option<(StatusCode, i64)>>,
    /// How many requests of the peer are open.
    pub(crate) in_flight: AtomicUsize,
    /// The server's own stream. Also held by the connection's handle.
    pub(crate) server_stream: Arc<ServerStream>,
    /// The negotiated revision, as the value of `MCP-Protocol-Version`. Not set if the revision has no such header.
    pub protocol_version: OnceLock<HeaderValue>,
    /// The transport that the server was found to speak, if the config demands the other one. Also held by the
    /// connection's handle.
    pub(crate) other_transport: Arc<OnceLock<HttpTransportKind>>,
    /// Whether a request after the handshake was answered.
    has_answered: AtomicBool,
    /// Where messages are sent. Set only with HTTP+SSE.
    pub(crate) sse_endpoint: OnceLock<Url>,
    /// The headers that the server's tools declare. Empty in the handshake era.
    pub(crate) param_headers: ParamHeaders,
    /// The streams that the server's requests came on.
    pub(crate) request_streams: RequestStreams,
    /// Whether the log has said that the server sends bytes that are no UTF-8.
    pub(super) warned_of_bytes: Arc<AtomicBool>,
    /// Why nothing more can be sent. Also held by the connection's handle, which must not hold the rest: `messages`
    /// has to close when the tasks have ended.
    end: Arc<OnceLock<RemoteError>>,
}

impl RemoteConnection {
    /// A connection on which nothing was sent yet.
    pub fn new(
        http: HttpClient,
        transport_kind: Option<HttpTransportKind>,
        max_message_bytes: usize,
        messages: mpsc::Sender<Raw>,
        failed_requests: mpsc::Sender<FailedRequest>,
    ) -> Self {
        Self {
            http,
            transport_kind,
            max_message_bytes,
            messages,
            failed_requests,
            stateless: OnceLock::new(),
            session_id: OnceLock::new(),
            first_ping: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            server_stream: Arc::default(),
            protocol_version: OnceLock::new(),
            other_transport: Arc::default(),
            has_answered: AtomicBool::new(false),
            sse_endpoint: OnceLock::new(),
            param_headers: ParamHeaders::default(),
            request_streams: RequestStreams::default(),
            warned_of_bytes: Arc::default(),
            end: Arc::default(),
        }
    }

    /// Whether the server is known to be of the stateless era.
    pub fn is_stateless(&self) -> bool {
        self.stateless.get() == Some(&true)
    }

    /// Whether the stream of HTTP+SSE has to be opened before the next message can be sent.
    pub(crate) fn needs_sse_stream(&self) -> bool {
        self.transport_kind == Some(HttpTransportKind::Sse)
            && self.sse_endpoint.get().is_none()
            && self.other_transport.get().is_none()
    }

    /// Notes which transport the server was found to speak.
    pub(crate) fn found_transport(&self, found: HttpTransportKind) {
        tracing::debug!(?found, "the server speaks this transport");
        if self.transport_kind.is_some_and(|demanded| demanded != found) {
            let _first_counts = self.other_transport.set(found);
        }
    }

    /// Notes that a request after the handshake was answered.
    pub(super) fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Leaves out advice about the config if the config is right: requests were answered.
    pub(super) fn without_vain_advice(&self, error: RemoteError) -> RemoteError {
        if self.has_answered.load(Ordering::Relaxed) { error.after_success(None) } else { error }
    }

    /// Whether nothing more can be sent.
    pub fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// Whether requests belong to a session, which the server may lose.
    pub(crate) fn has_session(&self) -> bool {
        !self.is_stateless() && self.session_id.get().is_some()
    }

    /// Whether requests of the peer are open, or were a moment ago.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// The place where the reason is stored when the connection ends.
    pub(crate) fn end_reason(&self) -> Arc<OnceLock<RemoteError>> {
        self.end.clone()
    }

    /// The headers of every HTTP request after the handshake.
    pub(crate) fn session_headers(&self) -> HeaderMap {
        let session_id = self.session_id.get().map(|id| (MCP_SESSION_ID, id.clone()));
        let version = self.protocol_version.get().map(|version| (MCP_PROTOCOL_VERSION, version.clone()));
        session_id.into_iter().chain(version).collect()
    }

    /// Sends a message by POST. The caller limits the time.
    ///
    /// # Errors
    ///
    /// Those of `HttpClient::send`.
    pub(crate) async fn post(&self, message: &OutgoingMessage) -> Result<Response, RemoteError> {
        let mut headers = client::accept("application/json, text/event-stream");
        headers.extend(self.session_headers());
        headers.extend(message.headers.clone());
        let url = self.sse_endpoint.get().unwrap_or(&self.http.url).clone();
        let (method, body) = (Method::POST, Some(message.line.clone()));
        let max_retry_after = message.max_retry_after();
        self.http.send(HttpRequest { method, url, headers, body, max_retry_after }).await
    }

    /// Opens an event stream by GET: the server's own stream, or what follows this event on its stream. If the server
    /// is busy, waits for its `Retry-After`, however long. The caller limits the time.
    ///
    /// # Errors
    ///
    /// Those of `HttpClient::send`. The server answers with an error, or with something other than an event stream.
    pub(crate) async fn open_get_stream(
        &self,
        last_event_id: Option<&HeaderValue>,
    ) -> Result<EventStream, RemoteError> {
        let mut headers = client::accept(EVENT_STREAM);
        headers.extend(self.session_headers());
        headers.extend(last_event_id.map(|id| (LAST_EVENT_ID, id.clone())));
        let (method, url) = (Method::GET, self.http.url.clone());
        let request = HttpRequest { method, url, headers, body: None, max_retry_after: Duration::MAX };
        let response = self.http.send(request).await?;
        match response.status() {
            StatusCode::OK if response_body::media_type(&response) == EVENT_STREAM => {
                Ok(self.event_stream(response))
            }
            StatusCode::OK => Err(RemoteError::invalid_response(
                "the server answered GET with something other than an event stream",
            )),
            _ => Err(self.http.status_error(response, None).await),
        }
    }

    /// Reads a response that is an event stream.
    pub(crate) fn event_stream(&self, response: Response) -> EventStream {
        EventStream::new(response, self.max_message_bytes, self.warned_of_bytes.clone())
    }

    /// Ends the session by DELETE. The server may answer 405: it ends sessions by itself. The caller limits the time.
    ///
    /// # Errors
    ///
    /// Those of `HttpClient::send`. An answer such as 405 or 404 is no error.
    pub(crate) async fn delete_session(&self) -> Result<(), RemoteError> {
        let (method, url, headers) = (Method::DELETE, self.http.url.clone(), self.session_headers());
        let request = HttpRequest { method, url, headers, body: None, max_retry_after: Duration::ZERO };
        self.http.send(request).await.map(drop)
    }

    /// Hands a message to the peer. Waits while the peer does not read. Does nothing when the connection is closing and
    /// the peer is gone.
    pub async fn deliver(&self, message: Raw) {
        drop(self.messages.send(message).await);
    }

    /// Hands the message in an event to the peer, if there is one.
    pub(crate) async fn deliver_event(&self, event: ServerSentEvent) {
        if let Some(message) = event.into_message() {
            self.deliver(message).await;
        }
    }

    /// Reports a request that has no answer. Waits while the queue is full. Does nothing when the connection is closing
    /// and the peer is gone.
    pub(crate) async fn report_failure(&self, failed: FailedRequest) {
        drop(self.failed_requests.send(failed).await);
    }

    /// Reports a request that has no answer, without waiting. If the queue is full, the request runs into its timeout.
    pub(crate) fn try_report_failure(&self, failed: FailedRequest) {
        drop(self.failed_requests.try_send(failed));
    }

    /// Ends the connection: nothing more can be sent. If it has ended already, the first reason stays. `id`: the
    /// request that failed with this error, if one did. Waits while the queue of failed requests is full.
    pub async fn end(&self, error: RemoteError, id: Option<Raw>) {
        let closed = CallError::Closed { sent: error.may_have_run(), refusal: None };
        self.end_with(error, FailedRequest { id, error: closed }).await;
    }

    /// Ends the connection as [`end`](Self::end) does, and fails a request with another error than its reason.
    pub(crate) async fn end_with(&self, reason: RemoteError, failed: FailedRequest) {
        drop(self.end.set(reason));
        self.report_failure(failed).await;
    }
}
