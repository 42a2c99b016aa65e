//! What goes wrong with a remote server, told by what the reader can do about it. Never with more of an address than
//! its origin: paths and queries may hold keys.

use super::proxy;
use crate::protocol::STATELESS;
use crate::wire::peer::RetryHint;
use reqwest::{StatusCode, Url};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a message got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub kind: RemoteErrorKind,
    what: String,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteErrorKind {
    /// The config has to change before there is a connection.
    Config,
    /// There was no connection: nothing was sent.
    Unreachable,
    /// A person has to log in. The message was not looked at.
    LoginNeeded,
    /// The same, for this message alone: it takes more rights than were granted.
    RightsNeeded,
    /// Too many requests. The message was not looked at.
    Busy,
    /// The session, or the revision, that the message belongs to is over. The message was not looked at.
    SessionOver,
    /// A status that is no answer.
    Status(StatusCode),
    /// The answer is none of MCP's.
    Foreign,
    /// The connection ended before the answer was complete.
    Broken,
}

impl RemoteError {
    fn new(kind: RemoteErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), retry_after: None }
    }

    /// The request could not be sent, or its answer did not begin.
    pub fn of(error: &reqwest::Error, url: &Url, connect: Duration) -> Self {
        let origin = url.origin().ascii_serialization();
        if !error.is_connect() {
            return Self::broken(&cause(error));
        }
        if let Some(why) = certificate(error) {
            let what = format!(
                "the certificate of {origin} is not accepted: {why} \
                 (if an authority of your own issued it, name that authority's file in \"ca_file\")"
            );
            return Self::new(RemoteErrorKind::Config, what);
        }
        if let Some((kind, what)) = proxy::failed(error, url) {
            return Self::new(kind, what);
        }
        let why = match () {
            () if error.is_timeout() => format!("no connection within {} s", connect.as_secs_f32()),
            () => cause(error),
        };
        Self::new(RemoteErrorKind::Unreachable, format!("{origin} cannot be reached: {why}"))
    }

    pub fn broken(why: &str) -> Self {
        Self::new(
            RemoteErrorKind::Broken,
            format!("the connection broke before the answer was complete: {why}"),
        )
    }

    pub fn config(what: impl Into<String>) -> Self {
        Self::new(RemoteErrorKind::Config, what)
    }

    pub fn unusable(what: impl Into<String>) -> Self {
        Self::new(RemoteErrorKind::Foreign, what)
    }

    pub fn login_needed(how: &str) -> Self {
        Self::new(RemoteErrorKind::LoginNeeded, format!("login needed: {how}"))
    }

    /// A person has to do something else before: a login would not work.
    pub fn login_failed(why: &str) -> Self {
        Self::new(RemoteErrorKind::LoginNeeded, format!("the login does not work: {why}"))
    }

    pub fn unreachable(what: &str) -> Self {
        Self::new(RemoteErrorKind::Unreachable, what)
    }

    /// HTTP 407: not the server's answer, where there is a proxy.
    pub fn of_proxy(url: &Url) -> Option<Self> {
        proxy::refused(url).map(|(kind, what)| Self::new(kind, what))
    }

    pub fn session_over() -> Self {
        Self::new(RemoteErrorKind::SessionOver, "the server has ended the session")
    }

    pub fn revision_over() -> Self {
        let what = format!("the server does not take revision {STATELESS} any more");
        Self::new(RemoteErrorKind::SessionOver, what)
    }

    pub fn redirected(to: Option<&Url>) -> Self {
        let what = match to {
            Some(to) => format!(
                "the server redirects to {}, which is not followed; if that is the right place, make it the \"url\"",
                to.origin().ascii_serialization()
            ),
            None => "the server redirects to nowhere".to_owned(),
        };
        Self::new(RemoteErrorKind::Foreign, what)
    }

    /// A status that is no answer, with what the server said of it.
    pub fn status(status: StatusCode, said: Option<&str>) -> Self {
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        Self::new(RemoteErrorKind::Status(status), format!("the server answered with HTTP {status}{said}"))
    }

    pub fn rights_needed(status: StatusCode, how: &str) -> Self {
        Self { kind: RemoteErrorKind::RightsNeeded, ..Self::status(status, Some(how)) }
    }

    pub fn busy(status: StatusCode, retry_after: Option<Duration>) -> Self {
        let when = match retry_after {
            Some(after) => format!("it wants to be asked again in {} s", after.as_secs()),
            None => "it does not say when to ask again".to_owned(),
        };
        let what = format!("the server takes no requests at the moment (HTTP {status}); {when}");
        Self { retry_after, ..Self::new(RemoteErrorKind::Busy, what) }
    }

    /// Whether a person has to do something before there is a connection.
    pub fn needs_person(&self) -> bool {
        matches!(
            self.kind,
            RemoteErrorKind::Config | RemoteErrorKind::LoginNeeded | RemoteErrorKind::RightsNeeded
        )
    }

    /// Whether nothing can be done on this connection any more.
    pub fn ends_connection(&self) -> bool {
        matches!(
            self.kind,
            RemoteErrorKind::Config
                | RemoteErrorKind::Unreachable
                | RemoteErrorKind::LoginNeeded
                | RemoteErrorKind::SessionOver
        )
    }

    /// Whether the server may have done what it was asked to.
    pub fn may_have_run(&self) -> bool {
        matches!(self.kind, RemoteErrorKind::Status(_) | RemoteErrorKind::Foreign | RemoteErrorKind::Broken)
    }

    /// What may help a single request.
    pub fn cure(&self) -> RetryHint {
        match self.kind {
            RemoteErrorKind::Broken | RemoteErrorKind::SessionOver | RemoteErrorKind::Unreachable => {
                RetryHint::Later
            }
            RemoteErrorKind::Status(status) if status.is_server_error() => RetryHint::Later,
            RemoteErrorKind::LoginNeeded | RemoteErrorKind::RightsNeeded => RetryHint::AfterLogin,
            RemoteErrorKind::Config
            | RemoteErrorKind::Busy
            | RemoteErrorKind::Foreign
            | RemoteErrorKind::Status(_) => RetryHint::Never,
        }
    }

    /// Whether `initialize` may have been refused because the server has no such thing.
    pub fn may_be_of_other_era(&self) -> bool {
        matches!(
            self.kind,
            RemoteErrorKind::Status(
                StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            )
        )
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for RemoteError {}

fn sources<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}

/// What it all comes from. The outer errors say which of our libraries met it, and some of them the address.
pub(super) fn cause(error: &reqwest::Error) -> String {
    match sources(error).skip(1).last() {
        Some(root) => root.to_string(),
        None if error.is_timeout() => "no answer in time".to_owned(),
        None => "the answer is not HTTP".to_owned(),
    }
}

fn certificate(error: &reqwest::Error) -> Option<String> {
    sources(error).find_map(|error| match of_tls(error)? {
        rustls::Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    })
}

pub(super) fn is_of_tls(error: &reqwest::Error) -> bool {
    sources(error).any(|error| of_tls(error).is_some())
}

/// The sources of an I/O error leave out the error that it was made of.
fn of_tls<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    match error.downcast_ref::<std::io::Error>() {
        Some(io) => of_tls(io.get_ref()?),
        None => error.downcast_ref(),
    }
}
