//! Sends one message by POST and passes on what the server sends for it.
//!
//! A request is answered with a JSON body or with an event stream. A stream that breaks off is resumed in the revisions
//! that have resumption. Everything that is received goes to the peer unchanged; a request that is not answered is
//! reported as a [`FailedRequest`], or ends the connection.

use super::connection::RemoteConnection;
use super::event_stream::{EventStream, ReconnectState, StreamEnd};
use super::exchange_error::ExchangeError;
use super::headers::MCP_SESSION_ID;
use super::http_sse::{self, HttpSseStream};
use super::message_reader::to_single_line;
use super::outgoing::{OutgoingMessage, error_code, is_error};
use super::session_check::{is_suspicious, lost_session};
use crate::transport::open_transport::FailedRequest;
use base::blocking;
use base::text;
use config::HttpTransportKind;
use http_client::error::{RemoteError, RemoteErrorKind, is_of_other_transport};
use http_client::response_body::{self, EVENT_STREAM, JSON};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::malformed::{defect, parse_repaired};
use wire::peer::CallError;
use wire::protocol::code;
use wire::{Message, MessageError, Raw, raw};

/// The time limit for a message that has no answer: a notification or a response.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a stream is read on after the answer. A stream that is read to its end leaves its connection for the next
/// request.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a call waits for the tool list that says which headers it needs.
const TOOL_LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often in a row a stream is resumed without receiving an event.
const MAX_RESUMPTIONS: u32 = 5;
const TOOLS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
/// The revisions that have no `MCP-Protocol-Version` header.
const REVISIONS_WITHOUT_VERSION_HEADER: [&str; 2] = ["2024-11-05", "2025-03-26"];
/// Error codes that show that a server knows Streamable HTTP.
const STREAMABLE_HTTP_CODES: [i64; 5] = [
    code::HEADER_MISMATCH,
    code::MISSING_CAPABILITY,
    code::UNSUPPORTED_REVISION,
    code::METHOD_NOT_FOUND,
    code::INVALID_PARAMS,
];

/// One message and its connection.
pub(crate) struct Exchange {
    /// The connection it is sent on.
    pub connection: Arc<RemoteConnection>,
    /// The message to send.
    pub message: OutgoingMessage,
}

/// The server speaks HTTP+SSE: its stream is open, and the message is to be sent again to its endpoint.
pub(crate) struct HttpSseFallback {
    /// The message to send again.
    pub message: OutgoingMessage,
    /// The stream that is open.
    pub stream: HttpSseStream,
}

impl Exchange {
    /// Sends a request and passes on what the server sends for it. Reports a failure, or ends the connection with it.
    /// With `Some` the request is not answered yet. The caller limits the time.
    pub(crate) async fn send_request(mut self) -> Option<HttpSseFallback> {
        let connection = self.connection.clone();
        if connection.has_ended() {
            let (id, error) = (self.message.id, CallError::Closed { sent: false, refusal: None });
            connection.report_failure(FailedRequest { id, error }).await;
            return None;
        }
        if connection.needs_sse_stream() {
            let error = match http_sse::open(&connection).await {
                Ok(stream) => return Some(HttpSseFallback { message: self.message, stream }),
                Err(error) => error,
            };
            let may_have_other = self.message.is_handshake() && error.may_mean_other_transport();
            let error = match may_have_other {
                false => error.into(),
                true => match self.try_send_request().await {
                    Ok(()) => return None,
                    // Neither transport is there.
                    Err(other) if self.may_need_http_sse(&other) => error.into(),
                    Err(other) => other,
                },
            };
            self.report(error).await;
            return None;
        }
        let mut result = self.try_send_request().await;
        if let Err(ExchangeError::Rejected { response, .. }) = &result
            && let Some(headers) = self.corrected_headers(response).await
        {
            self.message.headers = headers;
            result = self.try_send_request().await;
        }
        if let Err(error) = result {
            if self.may_need_http_sse(&error)
                && let Ok(stream) = http_sse::open(&connection).await
            {
                return Some(HttpSseFallback { message: self.message, stream });
            }
            self.report(error).await;
        }
        None
    }

    /// Sends a notification or a response, within `NOTIFICATION_TIMEOUT`. What the server answers is not passed on. A
    /// failure ends the connection if nothing more can be sent; any other is logged. If the server refuses a response,
    /// the call that it belongs to fails.
    pub(crate) async fn send_notification(self) {
        let outcome = timeout(NOTIFICATION_TIMEOUT, self.connection.post(&self.message)).await;
        let question = raw::get(&self.message.line, "id");
        // The call during which the server asked what this message answers.
        let call = question.as_ref().and_then(|id| self.connection.request_streams.take(id));
        let error = match outcome {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => ExchangeError::of_response(&self.connection, &self.message, response).await,
            Ok(Err(error)) => error.into(),
            Err(_) => RemoteError::connection_lost("no answer in time").into(),
        };
        let error = match error {
            ExchangeError::Remote(error) if error.ends_connection() => {
                return self.connection.end(error, None).await;
            }
            error if lost_session(&self.connection, &error).await => {
                return self.connection.end(RemoteError::session_ended(), None).await;
            }
            error => error,
        };
        match self.message.method.as_str() {
            "notifications/cancelled" => tracing::debug!(%error, "the server did not accept a cancellation"),
            "" => {
                tracing::warn!(%error, "the server did not accept the response to its request");
                // After a broken connection it is not known whether the server has the response.
                if question.is_some() && !error.is_connection_lost() {
                    let error = CallError::AnswerRefused(error.reason());
                    self.connection.report_failure(FailedRequest { id: call, error }).await;
                }
            }
            method => tracing::warn!(method, %error, "the server did not accept a notification"),
        }
    }

    async fn try_send_request(&self) -> Result<(), ExchangeError> {
        let response = self.connection.post(&self.message).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(ExchangeError::of_response(&self.connection, &self.message, response).await);
        }
        if self.connection.sse_endpoint.get().is_some() {
            // With HTTP+SSE the answer comes on the stream.
            return Ok(());
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            let message = format!("the server answered a request with HTTP {status} and no message");
            return Err(RemoteError::invalid_response(message).into());
        }
        if let ("initialize", Some(id)) =
            (self.message.method.as_str(), response.headers().get(MCP_SESSION_ID))
        {
            let mut id = id.clone();
            id.set_sensitive(true);
            drop(self.connection.session_id.set(id));
        }
        let media_type = response_body::media_type(&response);
        if matches!(media_type.as_str(), JSON | EVENT_STREAM) && self.connection.needs_sse_stream() {
            // Before the answer is delivered, because the next request may come before its stream ends.
            self.connection.found_transport(HttpTransportKind::Streamable);
        }
        match media_type.as_str() {
            JSON => self.receive_json(response).await,
            EVENT_STREAM => self.receive_events(response).await,
            "" => Err(RemoteError::invalid_response("the server's answer has no Content-Type").into()),
            response_body::HTML => {
                let page = response_body::read_error_body(response).await;
                Err(RemoteError::web_page(
                    response_body::page_title(&page).as_deref(),
                    &self.connection.http.url,
                )
                .into())
            }
            other => {
                let other = text::name(other);
                let message = format!("the server answered with {other} instead of JSON or an event stream");
                Err(RemoteError::invalid_response(message).into())
            }
        }
    }

    async fn receive_json(&self, response: Response) -> Result<(), ExchangeError> {
        let status = response.status();
        let (body, reservation) =
            response_body::read_body(response, self.connection.max_message_bytes).await?;
        let body = reservation.hold(to_single_line(body));
        let (parsed, body) = parse_repaired(body, &self.connection.warned_of_bytes);
        let message = match parsed {
            Ok(message) if self.message.is_answered_by(&message) => {
                return self.answer(status, is_error(&message), body).await;
            }
            Err(MessageError::Batch) => body,
            Err(error @ MessageError::NotJson) => {
                return Err(ExchangeError::Malformed(defect(&error, &body)));
            }
            _ => {
                let response = self.message.error_response(&body).ok_or_else(|| {
                    RemoteError::invalid_response(
                        "the server answered with JSON that is not a JSON-RPC response to the request",
                    )
                })?;
                return self.answer(status, true, response).await;
            }
        };
        self.connection.deliver(message).await;
        Ok(())
    }

    /// Delivers events up to the answer, and those of the next `STREAM_END_TIMEOUT`. Resumes a stream that was lost
    /// before the answer.
    ///
    /// # Errors
    ///
    /// An event is too long, the answer cannot be read, or the stream is lost and cannot be resumed.
    async fn receive_events(&self, response: Response) -> Result<(), ExchangeError> {
        let status = response.status();
        let mut events = self.connection.event_stream(response);
        let (mut reconnect, mut failures) = (ReconnectState::default(), 0);
        loop {
            let lost_because = match events.next().await {
                Ok(event) => {
                    failures = 0;
                    reconnect.record(&event);
                    let Some(line) = event.into_message() else { continue };
                    match Message::parse(&line) {
                        Ok(message) if self.message.is_answered_by(&message) => {
                            self.answer(status, is_error(&message), line).await?;
                            self.read_to_end(events).await;
                            return Ok(());
                        }
                        Ok(Message::Request(request)) => {
                            let call = self.message.id.clone().unwrap_or_default();
                            self.connection.request_streams.add(request.id, call);
                        }
                        Err(error) if self.message.is_answered_by_malformed(&line) => {
                            return Err(ExchangeError::Malformed(defect(&error, &line)));
                        }
                        _ => {}
                    }
                    self.connection.deliver(line).await;
                    continue;
                }
                Err(StreamEnd::Size(error)) => return Err(ExchangeError::Size(error)),
                Err(StreamEnd::Interrupted(reason)) => reason,
                Err(StreamEnd::Closed) => "the server ended the stream".to_owned(),
            };
            let resumed = self.resume(&reconnect, &mut failures).await;
            events = resumed.ok_or_else(|| RemoteError::connection_lost(&lost_because))?;
        }
    }

    /// Delivers the answer.
    ///
    /// # Errors
    ///
    /// `Rejected` if it is an error that a server may send after it lost the session; it is not delivered then.
    async fn answer(&self, status: StatusCode, is_error: bool, response: Raw) -> Result<(), ExchangeError> {
        if !is_error {
            self.connection.server_stream.record(&self.message.method, &self.message.line);
        } else if is_suspicious(error_code(&response)) && self.connection.has_session() {
            return Err(ExchangeError::Rejected { status, response });
        }
        self.connection.deliver(self.inspect_response(response).await).await;
        Ok(())
    }

    /// Delivers what comes after the answer, for `STREAM_END_TIMEOUT` at most.
    async fn read_to_end(&self, mut events: EventStream) {
        let rest = async {
            while let Ok(event) = events.next().await {
                self.connection.deliver_event(event).await;
            }
        };
        drop(timeout(STREAM_END_TIMEOUT, rest).await);
    }

    /// Opens the rest of a stream whose connection was lost. Tries again while the server cannot be reached, until
    /// there are `MAX_RESUMPTIONS` since the last event, which `failures` counts. `None`: it cannot be resumed.
    async fn resume(&self, reconnect: &ReconnectState, failures: &mut u32) -> Option<EventStream> {
        if self.connection.is_stateless() {
            return None;
        }
        let last_event_id = reconnect.last_event_id.as_ref()?;
        while *failures < MAX_RESUMPTIONS {
            reconnect.wait(*failures).await;
            *failures += 1;
            match self.connection.open_get_stream(Some(last_event_id)).await {
                Ok(events) => return Some(events),
                Err(error) if error.kind == RemoteErrorKind::Unreachable => {}
                Err(error) => {
                    tracing::debug!(%error, "could not resume an event stream");
                    return None;
                }
            }
        }
        None
    }

    /// Returns other headers for a call that was rejected because its tool declares others than the last tool list did.
    /// Such a call was not executed: a server checks the headers first. Has the tools listed again, and waits for that
    /// up to `TOOL_LIST_TIMEOUT`. `None`: the call was rejected for another reason, or the headers are the same.
    async fn corrected_headers(&self, response: &Raw) -> Option<HeaderMap> {
        let is_mismatch = error_code(response) == code::HEADER_MISMATCH;
        if !(self.connection.is_stateless() && is_mismatch && self.message.method == "tools/call") {
            return None;
        }
        let tool_list = self.connection.param_headers.next_complete_list();
        // Makes the catalog's owner request the list again. The answer passes through `inspect_response`.
        self.connection.deliver(Raw::from_static(TOOLS_CHANGED)).await;
        timeout(TOOL_LIST_TIMEOUT, tool_list).await.ok()?;
        let headers = self.message.stateless_headers(&self.connection.param_headers);
        (headers != self.message.headers).then_some(headers)
    }

    /// Whether a failed `initialize` may mean that the server has only HTTP+SSE, whatever the config says.
    fn may_need_http_sse(&self, error: &ExchangeError) -> bool {
        if self.connection.sse_endpoint.get().is_some() || self.message.method != "initialize" {
            return false;
        }
        match error {
            ExchangeError::Remote(error) => error.may_mean_other_transport(),
            ExchangeError::Rejected { status, response } => {
                is_of_other_transport(*status) && !STREAMABLE_HTTP_CODES.contains(&error_code(response))
            }
            _ => false,
        }
    }

    /// Reports the error that a request failed with, to its caller or for the whole connection.
    async fn report(self, error: ExchangeError) {
        let Self { connection, message } = self;
        let is_handshake = message.is_handshake();
        if lost_session(&connection, &error).await {
            let failed = FailedRequest { id: message.id, error: error.into_closed() };
            return connection.end_with(RemoteError::session_ended(), failed).await;
        }
        let error = error.with_status_first(&connection.http);
        let error = match error {
            ExchangeError::Rejected { response, .. } => return connection.deliver(response).await,
            ExchangeError::Remote(error) => {
                let error = match is_handshake {
                    true => error.during_handshake(&connection.http.url),
                    false => connection.without_vain_advice(error),
                };
                if is_handshake || error.ends_connection() {
                    return connection.end(error, message.id).await;
                }
                CallError::Failed { why: error.to_string(), hint: error.retry_hint() }
            }
            ExchangeError::Size(error) => error.for_caller(connection.max_message_bytes),
            ExchangeError::Malformed(_) if is_handshake => {
                return connection.end(RemoteError::invalid_response(error.to_string()), message.id).await;
            }
            ExchangeError::Malformed(what) => CallError::Malformed(what),
        };
        connection.report_failure(FailedRequest { id: message.id, error }).await;
    }

    /// Takes from a response what the transport itself needs: the revision, and the headers that tools declare. Returns
    /// the response for the peer, without the tools whose headers are invalid.
    async fn inspect_response(&self, response: Raw) -> Raw {
        let connection = &self.connection;
        if !self.message.is_handshake() {
            connection.note_answer();
        }
        if self.message.method == "tools/list" && connection.is_stateless() {
            let (connection, unread) = (connection.clone(), response.clone());
            let read = move || {
                let Some(result) = raw::get(&unread, "result") else { return unread };
                let valid = connection.param_headers.read_page(&result);
                if valid == result { unread } else { raw::set(&unread, "result", &valid) }
            };
            return blocking::run_on(response.len(), read).await.unwrap_or(response);
        }
        if self.message.method == "initialize"
            && let Some(result) = raw::get(&response, "result")
        {
            let revision = raw::get_str(&result, "protocolVersion")
                .filter(|revision| !REVISIONS_WITHOUT_VERSION_HEADER.contains(&revision.as_str()));
            if let Some(version) = revision.and_then(|revision| HeaderValue::try_from(revision).ok()) {
                drop(connection.protocol_version.set(version));
            }
        }
        response
    }
}
