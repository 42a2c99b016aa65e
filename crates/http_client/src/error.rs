//! Errors of a connection to a remote server, classified by what the caller can do about them.
//!
//! Messages never contain more of a URL than its origin: paths and queries may contain keys.

use super::advice;
use super::connector::HeadTooLong;
use super::proxy::{self, ProxyError};
use super::reqwest_error::{certificate_error, is_not_http, is_not_tls, is_out_of_date, root_cause};
use super::sender::SendError;
use reqwest::{StatusCode, Url};
use std::borrow::Cow;
use std::time::Duration;
use wire::peer::RetryHint;
use wire::protocol::STATELESS;

/// Why a message has no answer. The text is a complete clause that follows "group X is not available: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default())]
pub struct RemoteError {
    /// What can be done about it depends on this.
    pub kind: RemoteErrorKind,
    message: String,
    /// What a user can do about it, mostly to the config.
    advice: Option<String>,
    /// How long the server wants clients to wait before they try again (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// What a [`RemoteError`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteErrorKind {
    /// The config has to change before a connection is possible.
    Config,
    /// There is no connection: the message was not sent.
    Unreachable,
    /// A user has to log in. The server did not process the message.
    LoginNeeded,
    /// The message needs more rights than were granted (RFC 6750, `insufficient_scope`). The server did not process it;
    /// other messages may succeed.
    InsufficientScope,
    /// The server limits requests (HTTP 429, or 503 with `Retry-After`). It did not process the message.
    Busy,
    /// The server has ended the session, or no longer accepts the revision. It did not process the message.
    SessionEnded,
    /// The server answered with this status, which is not a success.
    Status(StatusCode),
    /// The response is not one that MCP allows.
    InvalidResponse,
    /// The response is a web page, or a redirect to another server: the address is probably wrong.
    WrongAddress,
    /// The connection was lost before the answer was complete.
    ConnectionLost,
}

use RemoteErrorKind as Kind;

impl RemoteError {
    fn new(kind: RemoteErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), advice: None, retry_after: None }
    }

    /// A request to `url` that could not be sent, or whose response did not begin. `ca_file`: whether the config names
    /// one.
    pub(crate) fn not_sent(error: &SendError, url: &Url, connect_timeout: Duration, ca_file: bool) -> Self {
        let origin = url.origin().ascii_serialization();
        if error.is_head_too_long() {
            return Self::invalid_response(format!(
                "{HeadTooLong}; only the server's operator can mend that"
            ));
        }
        if let SendError::Coding(coding) = error {
            return Self::invalid_response(coding.to_string());
        }
        if !error.is_connect() {
            return match is_not_http(error) && url.scheme() == "http" {
                true => Self::config(format!("{origin} does not answer with HTTP"))
                    .with_advice(Some(format!("if it speaks TLS, {}", advice::begin_with("https", url)))),
                false => Self::connection_lost(&root_cause(error)),
            };
        }
        if is_not_tls(error) {
            return Self::config(format!("{origin} does not speak TLS")).with_advice(Some(plain_http(url)));
        }
        if let Some(reason) = certificate_error(error, ca_file) {
            let message = format!("the TLS certificate of {origin} was rejected: {reason}");
            return match is_out_of_date(error) {
                true => Self::unreachable(&message),
                false => Self::config(message),
            };
        }
        if let Some(error) = proxy::connect_error(error, url) {
            return error.into();
        }
        let mut advice = advice::of_connect_error(error, url, connect_timeout);
        let reason = match root_cause(error) {
            _ if error.is_timeout() => {
                format!("no connection within {} s (timeout.connect)", connect_timeout.as_secs_f32())
            }
            reason if reason == "tls handshake eof" => {
                advice = Some(plain_http(url));
                "it closed the connection during the TLS handshake".to_owned()
            }
            reason => reason,
        };
        Self::unreachable(&format!("{origin} cannot be reached: {reason}")).with_advice(advice)
    }

    /// Adds what a user can do about it, if there is advice.
    pub(crate) fn with_advice(self, advice: Option<String>) -> Self {
        Self { advice: advice.or(self.advice), ..self }
    }

    /// Puts what is known of better times in the place of the advice: the config was right then. An error without advice
    /// that says what to do, and one of the server alone, stay.
    #[must_use]
    pub fn after_success(self, known: Option<String>) -> Self {
        let is_servers_own = matches!(self.kind, Kind::Status(status) if status.is_server_error());
        let is_vague = self.may_have_run() || self.kind == Kind::Unreachable;
        match !is_servers_own && (is_vague || self.advice.is_some()) {
            true => Self { advice: known, ..self },
            false => self,
        }
    }

    /// Adds what the error may mean if it ends the handshake with the server at `url`.
    pub fn during_handshake(self, url: &Url) -> Self {
        let advice = match self.kind {
            Kind::ConnectionLost if url.scheme() == "http" => {
                Some(format!("if the server speaks TLS, {}", advice::begin_with("https", url)))
            }
            Kind::InvalidResponse => {
                Some(format!("if \"url\" does not lead to MCP, {}", advice::other_path(url)))
            }
            _ => None,
        };
        self.with_advice(advice)
    }

    /// The connection was lost before an answer was complete.
    pub fn connection_lost(reason: &str) -> Self {
        Self::new(
            Kind::ConnectionLost,
            format!("the connection broke before the answer was complete: {reason}"),
        )
    }

    /// The config has to change before a connection is possible.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    /// The server's response is not one that MCP allows.
    pub fn invalid_response(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidResponse, message)
    }

    /// A user has to log in. `instruction` says how.
    pub fn login_needed(instruction: &str) -> Self {
        Self::new(Kind::LoginNeeded, format!("login needed: {instruction}"))
    }

    /// A login is needed and cannot succeed until a user solves the problem that `reason` describes.
    pub fn login_failed(reason: &str) -> Self {
        Self::new(Kind::LoginNeeded, format!("the login failed: {reason}"))
    }

    /// There is no connection: the message was not sent.
    pub fn unreachable(message: &str) -> Self {
        Self::new(Kind::Unreachable, message)
    }

    /// The server has ended the session, or lost it.
    pub fn session_ended() -> Self {
        Self::new(Kind::SessionEnded, "the server has ended the session")
    }

    /// The server no longer accepts the stateless revision that it was found to accept.
    pub fn revision_withdrawn() -> Self {
        let message = format!("the server no longer accepts protocol revision {STATELESS}");
        Self::new(Kind::SessionEnded, message)
    }

    /// The server answered with a redirect that is not followed. `target`: its `Location`, if it is a URL.
    pub fn redirected(target: Option<&Url>) -> Self {
        Self::new(
            Kind::WrongAddress,
            match target {
                Some(target) => format!(
                    "the server redirects to {}, which dynamic-mcp does not follow",
                    target.origin().ascii_serialization()
                ),
                None => "the server answered with a redirect that has no valid Location header".to_owned(),
            },
        )
        .with_advice(target.map(|_| {
            "is the path of \"url\" right? If that is the right server, set \"url\" to its address".to_owned()
        }))
    }

    /// The server at `url` answered with a web page. `title`: its title.
    pub fn web_page(title: Option<&str>, url: &Url) -> Self {
        let title = title.map(|title| format!(" ({title})")).unwrap_or_default();
        let message = format!("the server answered with a web page{title} instead of MCP");
        Self::new(Kind::WrongAddress, message).with_advice(Some(advice::other_path(url)))
    }

    /// The server answered with a status that is not a success. `detail`: what its response says about it.
    pub fn status(status: StatusCode, detail: Option<&str>) -> Self {
        let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        let message = format!("the server answered with HTTP {status}{detail}");
        Self::new(Kind::Status(status), message)
    }

    /// Adds what the server itself says about the error, unless the message has it already.
    pub(crate) fn with_words(self, words: Option<&str>) -> Self {
        match words {
            Some(words) if !self.message.contains(words) => {
                Self { message: format!("{}; the server says {words}", self.message), ..self }
            }
            _ => self,
        }
    }

    /// The message needs more rights than were granted. `instruction` says how to get them.
    pub fn insufficient_scope(status: StatusCode, instruction: &str) -> Self {
        Self { kind: Kind::InsufficientScope, ..Self::status(status, Some(instruction)) }
    }

    /// The server limits requests.
    pub fn busy(status: StatusCode, retry_after: Option<Duration>) -> Self {
        let when = match retry_after {
            Some(delay) => format!("it asks clients to retry after {} s", delay.as_secs()),
            None => "it does not say when to retry".to_owned(),
        };
        let message = format!("the server accepts no requests at the moment (HTTP {status}); {when}");
        Self { retry_after, ..Self::new(Kind::Busy, message) }
    }

    /// The error in a few words that are all ours.
    pub fn brief(&self) -> Cow<'static, str> {
        let brief = match self.kind {
            Kind::Config => "its address, certificate, headers or login have to be corrected",
            Kind::Unreachable => "it cannot be reached",
            Kind::LoginNeeded => "login needed",
            Kind::InsufficientScope => "login with more permissions needed",
            Kind::Busy => "it accepts no requests at the moment",
            Kind::Status(status) => {
                return format!("it answers with HTTP {}", status.as_u16()).into();
            }
            Kind::InvalidResponse => "its answers are not MCP",
            Kind::WrongAddress => "its address does not lead to MCP",
            Kind::SessionEnded | Kind::ConnectionLost => "the connection breaks",
        };
        brief.into()
    }

    /// Whether a person has to do something before a connection is possible.
    pub fn needs_person(&self) -> bool {
        matches!(self.kind, Kind::Config | Kind::LoginNeeded | Kind::InsufficientScope)
    }

    /// Whether another attempt to connect would end in the same way until a person does something.
    pub fn is_final(&self) -> bool {
        let is_final = |status: StatusCode| matches!(status.as_u16(), 401 | 403 | 404 | 405 | 410);
        self.needs_person()
            || self.kind == Kind::WrongAddress
            || matches!(self.kind, Kind::Status(status) if is_final(status))
    }

    /// Whether nothing more can be sent on this connection.
    pub fn ends_connection(&self) -> bool {
        matches!(self.kind, Kind::Config | Kind::Unreachable | Kind::LoginNeeded | Kind::SessionEnded)
    }

    /// Whether the server may have processed the message.
    pub fn may_have_run(&self) -> bool {
        matches!(
            self.kind,
            Kind::Status(_) | Kind::InvalidResponse | Kind::WrongAddress | Kind::ConnectionLost
        )
    }

    /// What may help a single request that failed with this error.
    pub fn retry_hint(&self) -> RetryHint {
        match self.kind {
            Kind::ConnectionLost | Kind::SessionEnded | Kind::Unreachable => RetryHint::Later,
            Kind::Status(status) if status.is_server_error() => RetryHint::Later,
            Kind::LoginNeeded | Kind::InsufficientScope => RetryHint::AfterLogin,
            Kind::Config | Kind::Busy | Kind::InvalidResponse | Kind::WrongAddress | Kind::Status(_) => {
                RetryHint::Never
            }
        }
    }

    /// Whether the first request may have failed because the server speaks the other HTTP transport.
    pub fn may_mean_other_transport(&self) -> bool {
        matches!(self.kind, Kind::Status(status) if is_of_other_transport(status))
    }

    /// Whether `initialize` may have failed because the server is of the stateless era and does not know it.
    pub fn may_mean_stateless_era(&self) -> bool {
        matches!(
            self.kind,
            Kind::Status(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        )
    }
}

/// Returns advice for a server that may not speak TLS.
fn plain_http(url: &Url) -> String {
    format!("if it is a server of plain HTTP, {}", advice::begin_with("http", url))
}

/// Whether a server may answer with this status where it expects the other HTTP transport. The specification's rule for
/// backwards compatibility has 400, 404 and 405; servers also refuse the media types.
pub fn is_of_other_transport(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404 | 405 | 406 | 415)
}

impl From<ProxyError> for RemoteError {
    fn from(error: ProxyError) -> Self {
        let kind = match error {
            ProxyError::CredentialsRejected { .. } => Kind::Config,
            ProxyError::Unreachable { .. } => Kind::Unreachable,
        };
        Self::new(kind, error.to_string())
    }
}
