//! What can go wrong with an upstream, told by what the reader can do about it.

use crate::config::ConfigError;
use crate::protocol::code;
use crate::transport::remote::error::{RemoteError, RemoteErrorKind};
use crate::transport::{ConnectionEnd, OpenError};
use std::time::Duration;

/// Why an upstream cannot be used. Messages are fragments that follow "group X: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    #[error("its config entry is wrong: {0}")]
    Config(ConfigError),
    /// The command cannot be run as it is configured.
    #[error("{message}")]
    Launch { message: String },
    /// The system would not start the process.
    #[error("{message}")]
    Spawn { message: String },
    #[error("{step} was not answered within {} s{}", .after.as_secs_f32(), tail(.stderr))]
    TimedOut { step: &'static str, after: Duration, stderr: String },
    /// The connection ended by itself; `step` is what it owed an answer to, if it had not introduced itself yet.
    #[error("{how}{}{}{}", during(.step), tail(.stderr), not_passed_on(.withheld))]
    Exited { step: Option<&'static str>, how: String, stderr: String, withheld: Vec<String> },
    /// What a remote server, or the way to it, is wrong with.
    #[error("{0}")]
    Remote(RemoteError),
    /// A remote server gave no answer to this, and may give others.
    #[error("{step} was not answered: {why}")]
    Unanswered { step: &'static str, why: String },
    /// The upstream answered with an error of its own.
    #[error("{step} was refused by the server: {message} (code {code}){}", tail(.stderr))]
    Refused { step: &'static str, code: i64, message: String, stderr: String },
    #[error("{step} was answered with something that is not MCP: {what}{}", tail(.stderr))]
    Protocol { step: &'static str, what: String, stderr: String },
    /// A bug of ours; the group starts afresh on the next use.
    #[error("dynamic-mcp failed while it handled this group; see its log")]
    Internal,
}

impl UpstreamError {
    /// Whether trying again may help without a person doing something.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Launch { .. } => false,
            Self::Remote(fault) => !fault.needs_person(),
            // It speaks no revision of ours.
            Self::Refused { step: "initialize" | "server/discover", code, .. } => {
                ![code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::UNSUPPORTED_REVISION].contains(code)
            }
            _ => true,
        }
    }
}

impl UpstreamError {
    /// Whether a person who logs in mends it.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::Remote(fault) if matches!(fault.kind, RemoteErrorKind::LoginNeeded | RemoteErrorKind::InsufficientScope))
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Remote(fault) => fault.retry_after,
            _ => None,
        }
    }

    /// The same, said of what was being waited for.
    pub fn while_waiting_for(&self, step: &'static str) -> Self {
        let mut error = self.clone();
        if let Self::Exited { step: at, .. } = &mut error {
            *at = Some(step);
        }
        error
    }
}

impl From<OpenError> for UpstreamError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Launch(error) => Self::Launch { message: with_source(&error) },
            OpenError::Spawn(error) => Self::Spawn { message: with_source(&error) },
            OpenError::Remote(fault) => Self::Remote(fault),
            OpenError::TimedOut(after) => {
                Self::TimedOut { step: "the start of its process", after, stderr: String::new() }
            }
        }
    }
}

impl From<ConnectionEnd> for UpstreamError {
    fn from(ending: ConnectionEnd) -> Self {
        match ending {
            ConnectionEnd::Process { how, stderr, withheld } => {
                Self::Exited { step: None, how, stderr, withheld }
            }
            ConnectionEnd::Remote(fault) => Self::Remote(fault),
        }
    }
}

/// An error with what caused it, on one line.
fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_source(source)),
        None => error.to_string(),
    }
}

fn during(step: &Option<&'static str>) -> String {
    step.map(|step| format!(" before it answered {step}")).unwrap_or_default()
}

fn tail(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; its last words on stderr:\n{text}"),
    }
}

fn not_passed_on(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(
            "\nnot passed on to it: {}; if it needs them, name them in \"env\" or \"inherit_env\"",
            names.join(", ")
        ),
    }
}
