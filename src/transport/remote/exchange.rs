//! One message and what comes back for it.
//!
//! A request is a POST that is answered with JSON or with events; events that break off are asked for again where the
//! revision has that. Whatever comes goes on as it is; what does not come is said of the request (`Failure`).

use super::annotations::Annotations;
use super::error::{RemoteError, RemoteErrorKind};
use super::events::{Cursor, End, Event, Events};
use super::http::{self, EVENTS, Http, JSON, Request, Unread};
use super::intake::one_line;
use super::post::{self, Post};
use super::{headers, legacy};
use crate::config::HttpTransportKind;
use crate::protocol::code;
use crate::transport::connection::FailedRequest;
use crate::wire::peer::CallError;
use crate::wire::{Message, MessageError, Raw, raw};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;

/// For what is not answered: a notification, or our answer to a request.
const NOTICE: Duration = Duration::from_secs(30);
/// What may still come behind an answer. Read to its end, the connection serves the next request too.
const BEHIND: Duration = Duration::from_secs(1);
/// The list of tools, before a call is made with what it says.
const REREAD: Duration = Duration::from_secs(5);
/// In a row, without anything new.
const RESUMPTIONS: u32 = 5;
const TOOLS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
/// Revisions that do not know the header.
const WITHOUT_HEADER: [&str; 2] = ["2024-11-05", "2025-03-26"];

/// What all exchanges of one connection share.
pub struct Exchange {
    pub http: Http,
    pub kind: Option<HttpTransportKind>,
    /// Bytes of one message.
    pub limit: usize,
    pub incoming: mpsc::Sender<Raw>,
    pub failures: mpsc::Sender<FailedRequest>,
    /// The server has no handshake. Known from the first request.
    pub stateless: OnceLock<bool>,
    pub session: OnceLock<HeaderValue>,
    /// The header's value, where the revision has one.
    revision: OnceLock<HeaderValue>,
    /// Where messages go in the legacy transport.
    pub endpoint: OnceLock<Url>,
    pub annotations: Annotations,
    /// Why nothing more can be sent.
    pub over: Arc<OnceLock<RemoteError>>,
}

/// What a task came to.
pub enum Done {
    Handled,
    /// The server speaks the legacy transport: its stream is open, and this is to be sent where it says.
    Legacy(Box<(Post, legacy::Opened)>),
}

/// Why a request has no answer.
pub enum Trouble {
    RemoteError(RemoteError),
    TooLong(u64),
    /// A status that is none of success, and an error of JSON-RPC.
    Refused(StatusCode, Raw),
}

impl From<RemoteError> for Trouble {
    fn from(fault: RemoteError) -> Self {
        Self::RemoteError(fault)
    }
}

impl Exchange {
    pub fn new(
        http: Http,
        kind: Option<HttpTransportKind>,
        limit: usize,
        (incoming, failures): (mpsc::Sender<Raw>, mpsc::Sender<FailedRequest>),
    ) -> Self {
        Self {
            http,
            kind,
            limit,
            incoming,
            failures,
            stateless: OnceLock::new(),
            session: OnceLock::new(),
            revision: OnceLock::new(),
            endpoint: OnceLock::new(),
            annotations: Annotations::default(),
            over: Arc::default(),
        }
    }

    pub fn is_stateless(&self) -> bool {
        self.stateless.get() == Some(&true)
    }

    /// Sends a request and passes on what comes for it.
    pub async fn ask(self: Arc<Self>, post: Post) -> Done {
        if self.over.get().is_some() {
            self.failed(FailedRequest { id: post.id, error: CallError::Closed { sent: false } }).await;
            return Done::Handled;
        }
        if self.kind == Some(HttpTransportKind::Sse) && self.endpoint.get().is_none() {
            return match legacy::open(&self).await {
                Ok(opened) => Done::Legacy(Box::new((post, opened))),
                Err(fault) => {
                    self.trouble(&post, fault.into()).await;
                    Done::Handled
                }
            };
        }
        let mut asked = self.try_ask(&post).await;
        if let Err(Trouble::Refused(_, refusal)) = &asked
            && let Some(corrected) = self.corrected(&post, refusal).await
        {
            asked = self.try_ask(&corrected).await;
        }
        if let Err(trouble) = asked {
            if legacy::may_be_spoken(&self, &post, &trouble)
                && let Ok(opened) = legacy::open(&self).await
            {
                return Done::Legacy(Box::new((post, opened)));
            }
            self.trouble(&post, trouble).await;
        }
        Done::Handled
    }

    /// Sends what is not answered.
    pub async fn tell(self: Arc<Self>, post: Post) -> Done {
        let told = tokio::time::timeout(NOTICE, self.post(&post)).await;
        let trouble = match told {
            Ok(Ok(response)) if response.status().is_success() => return Done::Handled,
            Ok(Ok(response)) => self.refused(&post, response).await,
            Ok(Err(fault)) => fault.into(),
            Err(_) => RemoteError::broken("no answer in time").into(),
        };
        let why = match trouble {
            Trouble::RemoteError(fault) if fault.ends_connection() => {
                self.end(fault, None).await;
                return Done::Handled;
            }
            Trouble::RemoteError(fault) => fault.to_string(),
            Trouble::Refused(status, _) => format!("HTTP {status}"),
            Trouble::TooLong(_) => "its answer is too long".to_owned(),
        };
        match post.method.as_str() {
            "notifications/cancelled" => tracing::debug!(%why, "a cancellation was not taken"),
            "" => tracing::warn!(%why, "the server did not take the answer to its request"),
            method => tracing::warn!(method, %why, "the server did not take a notification"),
        }
        Done::Handled
    }

    async fn post(&self, post: &Post) -> Result<Response, RemoteError> {
        let mut headers = http::accept("application/json, text/event-stream");
        headers.extend(self.of_session());
        headers.extend(post.headers.clone());
        let url = self.endpoint.get().unwrap_or(&self.http.url).clone();
        let (body, patience) = (Some(post.line.clone()), post.patience());
        self.http.send(Request { method: Method::POST, url, headers, body, patience }).await
    }

    /// The headers of everything after the handshake.
    pub fn of_session(&self) -> HeaderMap {
        let session = self.session.get().map(|session| (headers::SESSION, session.clone()));
        let revision = self.revision.get().map(|revision| (headers::REVISION, revision.clone()));
        session.into_iter().chain(revision).collect()
    }

    async fn try_ask(&self, post: &Post) -> Result<(), Trouble> {
        let response = self.post(post).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refused(post, response).await);
        }
        if self.endpoint.get().is_some() {
            // The answer comes on the stream.
            return Ok(());
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Err(RemoteError::unusable(format!(
                "the server answered with HTTP {status} and nothing else"
            ))
            .into());
        }
        if let ("initialize", Some(session)) =
            (post.method.as_str(), response.headers().get(headers::SESSION))
        {
            let mut session = session.clone();
            session.set_sensitive(true);
            drop(self.session.set(session));
        }
        match http::media_type(&response).as_str() {
            JSON => self.json(post, response).await,
            EVENTS => self.follow(post, Events::new(response, self.limit)).await,
            "" => Err(RemoteError::unusable("the server's answer has no content type").into()),
            other => {
                let other = other.escape_debug();
                let what = format!("the server answered with {other} instead of JSON or an event stream");
                Err(RemoteError::unusable(what).into())
            }
        }
    }

    async fn json(&self, post: &Post, response: Response) -> Result<(), Trouble> {
        let body = http::read(response, self.limit).await.map_err(|unread| match unread {
            Unread::TooLong(bytes) => Trouble::TooLong(bytes),
            Unread::Broken(why) => RemoteError::broken(&why).into(),
        })?;
        let line = one_line(body);
        match Message::parse(&line) {
            Ok(message) if post.is_answered_by(&message) => self.deliver(self.learned(post, line)).await,
            Err(MessageError::Batch) => self.deliver(line).await,
            _ => match post.error(&line) {
                Some(line) => self.deliver(line).await,
                None => {
                    return Err(RemoteError::unusable("the server's JSON is no answer of JSON-RPC").into());
                }
            },
        }
        Ok(())
    }

    /// Passes events on up to the answer.
    async fn follow(&self, post: &Post, mut events: Events) -> Result<(), Trouble> {
        let (mut cursor, mut failures) = (Cursor::default(), 0);
        loop {
            match events.next().await {
                Ok(event) => {
                    failures = 0;
                    cursor.pass(&event);
                    let Some(line) = event.message() else { continue };
                    if !Message::parse(&line).is_ok_and(|message| post.is_answered_by(&message)) {
                        self.deliver(line).await;
                        continue;
                    }
                    self.deliver(self.learned(post, line)).await;
                    let rest = async {
                        while let Ok(event) = events.next().await {
                            self.pass(event).await;
                        }
                    };
                    drop(tokio::time::timeout(BEHIND, rest).await);
                    return Ok(());
                }
                Err(End::TooLong(bytes)) => return Err(Trouble::TooLong(bytes)),
                Err(end @ (End::Closed | End::Broken(_))) => {
                    let why = match end {
                        End::Broken(why) => why,
                        _ => "the server ended the stream".to_owned(),
                    };
                    events =
                        self.resume(&cursor, &mut failures).await.ok_or_else(|| RemoteError::broken(&why))?;
                }
            }
        }
    }

    /// The rest of a stream whose connection is gone.
    async fn resume(&self, cursor: &Cursor, failures: &mut u32) -> Option<Events> {
        if self.is_stateless() {
            return None;
        }
        let last = cursor.last.as_ref()?;
        while *failures < RESUMPTIONS {
            cursor.pause(*failures).await;
            *failures += 1;
            match self.listen(Some(last)).await {
                Ok(events) => return Some(events),
                Err(fault) if fault.kind == RemoteErrorKind::Unreachable => {}
                Err(fault) => {
                    tracing::debug!(%fault, "a stream that broke off cannot be resumed");
                    return None;
                }
            }
        }
        None
    }

    /// A call whose tool wants other headers than its list said, with those that it wants by now. It was not made: a
    /// server looks at the headers first.
    async fn corrected(&self, post: &Post, refusal: &Raw) -> Option<Post> {
        let mismatch = post::error_code(refusal) == code::HEADER_MISMATCH;
        if !(self.is_stateless() && mismatch && post.method == "tools/call") {
            return None;
        }
        let read = self.annotations.next_read();
        // Whoever keeps the list reads it again, and it comes by here.
        self.deliver(Raw::from_static(TOOLS_CHANGED)).await;
        tokio::time::timeout(REREAD, read).await.ok()?;
        let headers = post.headers_by(&self.annotations);
        (headers != post.headers).then(|| Post { headers, ..post.clone() })
    }

    /// Opens an event stream by GET.
    pub async fn listen(&self, last: Option<&HeaderValue>) -> Result<Events, RemoteError> {
        let mut headers = http::accept(EVENTS);
        headers.extend(self.of_session());
        headers.extend(last.map(|last| (headers::LAST_EVENT, last.clone())));
        let url = self.http.url.clone();
        let response = self
            .http
            .send(Request { method: Method::GET, url, headers, body: None, patience: Duration::MAX })
            .await?;
        match response.status() {
            StatusCode::OK if http::media_type(&response) == EVENTS => Ok(Events::new(response, self.limit)),
            StatusCode::OK => Err(RemoteError::unusable("the server's answer to GET is no event stream")),
            _ => Err(self.http.status(response).await),
        }
    }

    /// What a status other than success says of a message.
    async fn refused(&self, post: &Post, response: Response) -> Trouble {
        let status = response.status();
        let body = http::error_body(response).await;
        let said = http::said(&body);
        if !self.is_stateless() && self.session.get().is_some() {
            // Servers that know no 404 for it say so in words.
            let in_words = status == StatusCode::BAD_REQUEST
                && said.as_ref().is_some_and(|said| said.to_ascii_lowercase().contains("session"));
            if status == StatusCode::NOT_FOUND || in_words {
                return RemoteError::session_over().into();
            }
        }
        match post.error(&one_line(body.into())) {
            Some(line) if self.is_stateless() && post.meets_another_revision(&line) => {
                RemoteError::revision_over().into()
            }
            Some(line) if status.is_client_error() => Trouble::Refused(status, line),
            _ => RemoteError::status(status, said.as_deref()).into(),
        }
    }

    /// Says what became of a request that has no answer.
    async fn trouble(&self, post: &Post, trouble: Trouble) {
        let id = post.id.clone();
        match trouble {
            Trouble::Refused(_, line) => self.deliver(line).await,
            Trouble::TooLong(bytes) => {
                self.failed(FailedRequest { id, error: CallError::TooLong { bytes, limit: self.limit } })
                    .await;
            }
            Trouble::RemoteError(fault) if post.introduces() || fault.ends_connection() => {
                self.end(fault, id).await;
            }
            Trouble::RemoteError(fault) => {
                let error = CallError::Failed { why: fault.to_string(), hint: fault.cure() };
                self.failed(FailedRequest { id, error }).await;
            }
        }
    }

    /// Nothing more can be sent on this connection; `id` is the request that found out.
    pub async fn end(&self, fault: RemoteError, id: Option<Raw>) {
        let sent = fault.may_have_run();
        drop(self.over.set(fault));
        self.failed(FailedRequest { id, error: CallError::Closed { sent } }).await;
    }

    async fn failed(&self, failure: FailedRequest) {
        // Nobody to tell: the connection is closing.
        drop(self.failures.send(failure).await);
    }

    /// Hands the peer what it may read.
    async fn deliver(&self, line: Raw) {
        drop(self.incoming.send(line).await);
    }

    /// Hands the peer what is a message.
    pub async fn pass(&self, event: Event) {
        if let Some(line) = event.message() {
            self.deliver(line).await;
        }
    }

    /// What an answer says to the transport itself; returns it as the peer may have it.
    fn learned(&self, post: &Post, line: Raw) -> Raw {
        let result = || raw::get(&line, "result");
        match post.method.as_str() {
            "initialize" => {
                let revision = result().and_then(|result| raw::get_str(&result, "protocolVersion"));
                let revision = revision.filter(|revision| !WITHOUT_HEADER.contains(&revision.as_str()));
                if let Some(revision) = revision.and_then(|revision| HeaderValue::try_from(revision).ok()) {
                    drop(self.revision.set(revision));
                }
            }
            "tools/list" if self.is_stateless() => {
                if let Some(result) = result() {
                    let kept = self.annotations.learn(&result);
                    return if kept == result { line } else { raw::set(&line, "result", &kept) };
                }
            }
            _ => {}
        }
        line
    }
}
