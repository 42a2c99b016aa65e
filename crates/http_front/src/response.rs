//! Answers: JSON, or a stream of events if something has to be sent before the answer.

use super::state::Grant;
use base::fair::User;
use bytes::Bytes;
use front::errors::{self, RpcError};
use front::session::request_span;
use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, StreamExt};
use hyper::body::{Body, Frame as BodyFrame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::Span;
use wire::budget::Reservation;
use wire::inbound::ResponseFuture;
use wire::output::FrameQueue;
use wire::protocol::code;
use wire::{Frame, Raw, Reply, Request, raw};

/// After how long an answer becomes a stream, so that nobody on the way takes the connection for dead.
const STREAM_AFTER: Duration = Duration::from_secs(10);
/// The interval between two comments in a stream, and between two looks at whether its client may still have it.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// A comment, which clients ignore.
const COMMENT: &[u8] = b":\n\n";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Tells reverse proxies not to keep events back.
const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// The body of an answer.
pub(crate) enum ResponseBody {
    /// All of it, in parts.
    Whole(VecDeque<Bytes>),
    /// Events, as they come.
    Events(BoxStream<'static, Bytes>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let part = match self.get_mut() {
            Self::Whole(parts) => Poll::Ready(parts.pop_front()),
            Self::Events(events) => events.poll_next_unpin(context),
        };
        part.map(|part| part.map(|part| Ok(BodyFrame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(parts) if parts.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// A request that is being answered.
pub(crate) struct PendingAnswer {
    /// The id, as the client wrote it.
    pub(crate) id: Raw,
    /// The answer. Dropping it cancels the request, if the request's era says so.
    pub(crate) answer: ResponseFuture,
    /// What is sent before the answer.
    pub(crate) queue: FrameQueue,
    /// For whom the answer counts while it is not read.
    pub(crate) user: User,
    /// Whether an unknown method is a status of its own (from revision 2026-07-28 on).
    pub(crate) has_status_of_errors: bool,
    /// Whether the client takes streams.
    pub(crate) takes_events: bool,
    /// The client's right to it.
    pub(crate) grant: Grant,
    /// Logs the end.
    pub(crate) log: AnswerLog,
}

/// Logs when a request was answered, or that its client went away.
pub(crate) struct AnswerLog {
    /// The span of the request.
    pub(crate) span: Span,
    begun: Instant,
    /// The status of the answer, once all of it is there.
    status: Option<StatusCode>,
}

impl AnswerLog {
    pub(crate) fn new(request: &Request, principal: &str) -> Self {
        Self { span: request_span::of_principal(request, principal), begun: Instant::now(), status: None }
    }
}

impl Drop for AnswerLog {
    fn drop(&mut self) {
        let ms = self.begun.elapsed().as_millis();
        self.span.in_scope(|| match self.status {
            Some(status) => tracing::debug!(status = status.as_u16(), ms, "answered"),
            None => tracing::debug!(ms, "the client did not wait for the answer"),
        });
    }
}

/// What comes first of a request.
enum First {
    Answer(Reply),
    Event(Option<Frame>),
    Silence,
}

impl PendingAnswer {
    /// Waits for the answer, or for the first thing that has to be sent before it, for 10 s at most.
    pub(crate) async fn respond(mut self) -> Response<ResponseBody> {
        self.answer = caught(self.answer);
        if !self.takes_events {
            loop {
                match timeout(KEEP_ALIVE, self.answer.as_mut()).await {
                    Ok(reply) => return self.whole(reply).await,
                    Err(_) if self.grant.holds().await => {}
                    Err(_) => return access_ended(),
                }
            }
        }
        let first = tokio::select! {
            biased;
            frame = self.queue.next() => First::Event(frame),
            reply = &mut self.answer => First::Answer(reply),
            () = sleep(STREAM_AFTER) => First::Silence,
        };
        match first {
            First::Answer(reply) => match self.queue.try_next() {
                None => self.whole(reply).await,
                Some(frame) => self.events(Some(frame), Some(reply)),
            },
            First::Event(frame) => self.events(frame, None),
            First::Silence => self.events(None, None),
        }
    }

    async fn whole(mut self, reply: Reply) -> Response<ResponseBody> {
        if !self.grant.holds().await {
            return access_ended();
        }
        let reply = match reply {
            Ok(result) => held_for(&self.user, result).await.map_err(Raw::from),
            error => error,
        };
        let code = reply.as_ref().err().and_then(raw::error_code);
        let status = match code {
            Some(code) if self.has_status_of_errors => status_of(code, StatusCode::OK),
            _ => StatusCode::OK,
        };
        self.log.status = Some(status);
        json(status, &self.id, reply)
    }

    /// The stream of what is sent before the answer, and the answer. `first`: what was taken from the queue already;
    /// `reply`: the answer, if it is there.
    fn events(self, first: Option<Frame>, reply: Option<Reply>) -> Response<ResponseBody> {
        let state = EventState { pending: self, first, reply, is_over: false };
        let events = stream::unfold(state, |mut state| async move {
            let event = state.next().await?;
            if !state.pending.grant.holds().await {
                state
                    .pending
                    .log
                    .span
                    .in_scope(|| tracing::info!("the stream ended with the token of its request"));
                return None;
            }
            Some((event, state))
        });
        let mut response = Response::new(ResponseBody::Events(events.boxed()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, EVENTS);
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.insert(NO_BUFFERING.0, NO_BUFFERING.1);
        response
    }
}

/// A stream of events.
struct EventState {
    /// The request.
    pending: PendingAnswer,
    /// The first frame.
    first: Option<Frame>,
    /// The answer, once it is there.
    reply: Option<Reply>,
    /// Whether the answer was sent.
    is_over: bool,
}

impl EventState {
    /// Waits for the next event, or returns a comment after a while. `None` at the end: after the answer, or if the client
    /// has not read for too long.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if let Some(frame) = self.first.take() {
            return Some(event(frame));
        }
        let PendingAnswer { answer, queue, .. } = &mut self.pending;
        if self.reply.is_none() {
            tokio::select! {
                biased;
                frame = queue.next() => return frame.map(event),
                reply = answer => self.reply = Some(reply),
                () = sleep(KEEP_ALIVE) => return Some(Bytes::from_static(COMMENT)),
            }
        }
        if let Some(frame) = queue.try_next() {
            return Some(event(frame));
        }
        self.is_over = true;
        self.pending.log.status = Some(StatusCode::OK);
        let answer = event(Frame::response(&self.pending.id, self.reply.take()?));
        let held = held_for(&self.pending.user, answer).await;
        Some(held.unwrap_or_else(|error| event(Frame::response(&self.pending.id, Err(error.into())))))
    }
}

/// Counts an answer for its user until it is sent.
///
/// # Errors
///
/// The user has read too little of other answers for 2 s.
async fn held_for(user: &User, answer: Bytes) -> Result<Bytes, RpcError> {
    let bytes = answer.len();
    Reservation::hold_for(user.clone(), answer).await.ok_or_else(|| errors::answer_without_room(bytes))
}

/// Returns a message as an event. It has no line breaks.
fn event(mut frame: Frame) -> Bytes {
    let parts = frame.take_parts();
    let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
    [b"data: ", &parts.concat()[..], b"\n\n"].concat().into()
}

/// Returns the answer to one request, as JSON.
pub(crate) fn json(status: StatusCode, id: &Raw, reply: Reply) -> Response<ResponseBody> {
    let body = Frame::response(id, reply).take_parts();
    let mut response = Response::new(ResponseBody::Whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Returns a JSON document that anyone may see and keep.
pub(crate) fn document(text: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(VecDeque::from([Bytes::from(text)])));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Returns an answer with a line of text, or without a body if that is empty.
pub(crate) fn text(status: StatusCode, line: &'static str) -> Response<ResponseBody> {
    let parts = (!line.is_empty()).then(|| Bytes::from_static(line.as_bytes()));
    let mut response = Response::new(ResponseBody::Whole(parts.into_iter().collect()));
    *response.status_mut() = status;
    response
}

/// Returns what a client gets in place of an answer to which it has no right any more.
fn access_ended() -> Response<ResponseBody> {
    let why = "the access ended before the answer: the token was revoked, has expired or lost its profile\n";
    text(StatusCode::FORBIDDEN, why)
}

/// Returns the status for a JSON-RPC error of a request of the stateless era. `other`: that of errors without one of their
/// own.
pub(crate) fn status_of(code: i64, other: StatusCode) -> StatusCode {
    match code {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_REVISION => {
            StatusCode::BAD_REQUEST
        }
        _ => other,
    }
}

/// Has a panic answer the request with an internal error.
fn caught(answer: ResponseFuture) -> ResponseFuture {
    let caught = AssertUnwindSafe(answer).catch_unwind();
    Box::pin(async move { caught.await.unwrap_or_else(|_| Err(errors::internal().into())) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AllowedNames;
    use crate::authentication::UserAccess;
    use crate::limits::PrincipalLimits;
    use crate::state::{HttpFront, HttpOptions};
    use crate::tokens::{Principal, TokenTable};
    use front::session::caller::KeyRing;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use tokio::sync::watch;
    use wire::output::Output;

    fn exchange(answer: ResponseFuture) -> (Output, PendingAnswer) {
        let (output, queue) = Output::queued(1 << 20, Reservation::default());
        let id = Raw::from_static(b"\"x\"");
        let request = Request { id: id.clone(), method: "ping".into(), params: None };
        let log = AnswerLog::new(&request, "ann");
        let (grant, _) = grant(UserAccess::default());
        let pending = PendingAnswer {
            id,
            answer,
            queue,
            user: None,
            has_status_of_errors: true,
            takes_events: true,
            grant,
            log,
        };
        (output, pending)
    }

    /// What a client with the token `ann` may have, and the front that says so.
    fn grant(access: UserAccess) -> (Grant, Arc<HttpFront>) {
        let names = AllowedNames::new("127.0.0.1:80".parse().unwrap(), &[], &[]);
        let options =
            HttpOptions { path: "/mcp".into(), names, limits: PrincipalLimits::default(), connections: 1 };
        let front = HttpFront::new(options, access, KeyRing::generate());
        let name = if front.access().tokens.is_some() { "ann" } else { "anyone" };
        let principal = Principal { name: name.into(), profile: None };
        let config = watch::channel(Arc::default()).1;
        (Grant::new(&front, front.access(), Some("ann"), principal, config), front)
    }

    fn with_token(token: &str) -> UserAccess {
        let hash = base::digest::of(token.as_bytes(), 32);
        let text = format!(r#"{{"tokens":[{{"name":"ann","sha256":"{hash}"}}]}}"#);
        UserAccess { tokens: TokenTable::parse(&text).ok(), oauth: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_with_its_token() {
        for takes_events in [true, false] {
            let (output, mut exchange) = exchange(Box::pin(pending()));
            let (grant, front) = grant(with_token("ann"));
            (exchange.grant, exchange.takes_events) = (grant, takes_events);
            let begin = Instant::now();
            if takes_events {
                output.send(Frame::notification("n", None));
                output.send(Frame::notification("of another", None));
            }
            let answered = tokio::spawn(async move {
                let response = exchange.respond().await;
                (response.status(), parts(response, 4).await)
            });
            tokio::task::yield_now().await;
            front.set_access(with_token("bob"));
            let (status, text) = answered.await.unwrap();
            assert!(begin.elapsed() <= KEEP_ALIVE, "{:?}", begin.elapsed());
            match takes_events {
                true => assert!(text.ends_with("END") && !text.contains(":\n\n:"), "{text}"),
                false => assert_eq!(status, StatusCode::FORBIDDEN),
            }
        }
    }

    async fn parts(response: Response<ResponseBody>, count: usize) -> String {
        let mut body = response.into_body();
        let mut text = String::new();
        for _ in 0..count {
            let part = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let Some(part) = part else { return text + "END" };
            text.push_str(&String::from_utf8_lossy(&part.unwrap().into_data().unwrap()));
        }
        text
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_notifications_is_json() {
        let (_output, exchange) = exchange(Box::pin(ready(Ok(Raw::from_static(b"{}")))));
        let response = exchange.respond().await;
        assert_eq!(response.headers()[CONTENT_TYPE], JSON);
        assert_eq!(parts(response, 2).await, r#"{"jsonrpc":"2.0","id":"x","result":{}}END"#);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_before_the_answer_makes_it_a_stream() {
        let (output, queue) = exchange(Box::pin(pending()));
        output.send(Frame::notification("n", None));
        let response = queue.respond().await;
        assert_eq!(response.headers()[CONTENT_TYPE], EVENTS);
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let text = parts(response, 3).await;
        assert_eq!(text, "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n:\n\n:\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_answer_sends_at_once_comes_before_it() {
        let (output, mut exchange) = exchange(Box::pin(pending()));
        exchange.answer = Box::pin(async move {
            output.send(Frame::notification("n", None));
            Err(errors::internal().into())
        });
        let text = parts(exchange.respond().await, 3).await;
        assert!(text.starts_with("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {"), "{text}");
        assert!(text.ends_with("}\n\nEND"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_becomes_a_stream() {
        let slow = async {
            sleep(STREAM_AFTER * 2).await;
            Ok(Raw::from_static(b"{}"))
        };
        let (_output, exchange) = exchange(Box::pin(slow));
        let text = parts(exchange.respond().await, 2).await;
        assert_eq!(text, "data: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\n\nEND");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_loses_its_stream() {
        let (output, exchange) = exchange(Box::pin(pending()));
        let large = Raw::from(format!("\"{}\"", "x".repeat(2 << 20)));
        while output.send(Frame::notification("n", Some(large.clone()))) {}
        assert_eq!(parts(exchange.respond().await, 1).await, "END");
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_the_stateless_era_have_a_status() {
        for (code, status) in [(-32601, 404), (-32020, 400), (-32022, 400), (-32602, 200), (-31001, 200)] {
            let error = wire::error_object(code, "m", None);
            let (_output, exchange) = exchange(Box::pin(ready(Err(error))));
            assert_eq!(exchange.respond().await.status(), status);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_an_internal_error() {
        let (_output, exchange) = exchange(Box::pin(async { panic!("a bug") }));
        assert!(parts(exchange.respond().await, 1).await.contains("internal error"));
    }
}
