//! Why an upstream cannot be used, distinguished by what the reader can do about it.
//!
//! # Theory of operation
//!
//! Every failure of a group is an [`UpstreamError`]. Its message is a fragment that follows "group X: ", and its
//! variant decides whether a retry may succeed. `server_output` is what a process printed that failed before it
//! answered, and `diagnosis` finds the cause and the remedy in the output.

use crate::clients::Clients;
use base::text::{quoted_lines, without_digits};
use config::ConfigError;
use config::duration::raise_timeout;
use http_client::error::{RemoteError, RemoteErrorKind};
use process::child::ProcessEnd;
use process::launch::LaunchError;
use process::warden::SpawnError;
use server_output::ServerOutput;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use wire::output::NotReading;
use wire::protocol::code;

mod diagnosis;
pub mod server_output;

/// Why an upstream cannot be used. The messages are fragments that follow "group X: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// Its entry in the config is invalid.
    #[error("its config entry is invalid: {0}")]
    Config(ConfigError),
    /// The configured command cannot be run.
    #[error("{message}")]
    Launch {
        /// The error and its sources on one line.
        message: String,
        /// The error in a few words.
        brief: &'static str,
    },
    /// The system refused to start the process.
    #[error("{message}")]
    Spawn {
        /// The error and its sources on one line.
        message: String,
    },
    /// The server did not answer `step` in time.
    #[error("{step} was not answered within {} s{}{output}", .after.as_secs_f32(), setting_hint(.setting, *.after, .output))]
    TimedOut {
        /// The method that was not answered, or another step of connecting.
        step: &'static str,
        /// How long the answer was awaited.
        after: Duration,
        /// The setting of `timeout` that limits this; `None` if the attempt was ended early, or the limit sufficed before.
        setting: Option<&'static str>,
        /// What the process printed.
        output: ServerOutput,
    },
    /// The connection ended by itself.
    #[error("{how}{}{output}{}", before_answer(.step), withheld_hint(.withheld))]
    Exited {
        /// The method that waited for an answer during the handshake, if one did.
        step: Option<&'static str>,
        /// A fragment such as "its process exited with code 3".
        how: String,
        /// What the process printed.
        output: ServerOutput,
        /// Variables of ours that the process did not inherit and may have wanted.
        withheld: Vec<String>,
    },
    /// The server asks, but does not read the replies.
    #[error("{0}")]
    NotReading(NotReading),
    /// A remote server, or the network to it, failed.
    #[error("{0}")]
    Remote(RemoteError),
    /// A remote server did not answer `step`; the connection stays open.
    #[error("{step} was not answered: {why}")]
    Unanswered {
        /// The method that was not answered.
        step: &'static str,
        /// Why the transport failed to deliver it.
        why: String,
    },
    /// The upstream answered with an error of its own.
    #[error("{step} was refused by the server: {message} (code {code}){}", tail(.stderr))]
    Refused {
        /// The method that was refused.
        step: &'static str,
        /// The JSON-RPC error code; 0 if the error has none.
        code: i64,
        /// The message of the error.
        message: String,
        /// The last lines of the process's stderr; empty if there are none.
        stderr: String,
    },
    /// The upstream's answer does not follow MCP.
    #[error("the answer to {step} is not MCP: {what}{}", tail(.stderr))]
    Protocol {
        /// The method that was answered.
        step: &'static str,
        /// What is wrong with the answer.
        what: String,
        /// The last lines of the process's stderr; empty if there are none.
        stderr: String,
    },
    /// Another error, whose text is for the log alone.
    #[error("{}; the log of dynamic-mcp has the reason", .0.brief())]
    Withheld(Arc<Self>),
    /// A bug in dynamic-mcp. The group starts again on the next use.
    #[error("internal error in dynamic-mcp; its log has the details")]
    Internal,
}

impl UpstreamError {
    /// Returns whether a retry may succeed without a person doing something first.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Config(_) | Self::Launch { .. } => false,
            Self::Remote(error) => !error.is_final(),
            Self::Exited { step: Some(_), output, .. } => !output.is_final(),
            // The server supports none of our revisions.
            Self::Refused { step: "initialize" | "server/discover", code, .. } => {
                ![code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::UNSUPPORTED_REVISION].contains(code)
            }
            Self::Withheld(error) => error.retryable(),
            _ => true,
        }
    }

    /// Returns the error as these clients may see it.
    pub(crate) fn shown_to(self, clients: &dyn Clients) -> Self {
        if clients.see_processes() { self } else { Self::Withheld(Arc::new(self)) }
    }

    /// Returns the error with its whole text, for the log and for decisions.
    pub(crate) fn in_full(&self) -> &Self {
        match self {
            Self::Withheld(error) => error,
            error => error,
        }
    }

    /// The error in a few words that are all ours, for lists that models read.
    pub fn brief(&self) -> Cow<'static, str> {
        let brief = match self {
            Self::Config(_) => Self::BRIEF_CONFIG,
            Self::Launch { brief, .. } => brief,
            Self::Spawn { .. } => "its process could not be started",
            Self::TimedOut { .. } | Self::Unanswered { .. } => "it does not answer",
            Self::Exited { .. } => "its process ends",
            Self::NotReading(_) => "it does not read what it asked for",
            Self::Remote(error) => return error.brief(),
            Self::Refused { .. } => "it refuses the connection",
            Self::Protocol { .. } => "its answers are not MCP",
            Self::Withheld(error) => return error.brief(),
            Self::Internal => "internal error in dynamic-mcp",
        };
        brief.into()
    }

    /// What [`brief`](Self::brief) says of an invalid config entry.
    pub const BRIEF_CONFIG: &str = "its config entry is invalid";

    /// Returns whether the upstream cannot be used until a person logs in.
    pub fn needs_login(&self) -> bool {
        matches!(self.in_full(), Self::Remote(error) if matches!(error.kind, RemoteErrorKind::LoginNeeded | RemoteErrorKind::InsufficientScope))
    }

    /// Returns whether both say the same, apart from numbers: times and process ids differ from start to start.
    pub(crate) fn has_same_words(&self, other: &Self) -> bool {
        let words = |error: &Self| without_digits(&error.in_full().to_string());
        words(self) == words(other)
    }

    /// How long the server asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.in_full() {
            Self::Remote(error) => error.retry_after,
            _ => None,
        }
    }

    /// Makes the error for a process that was not started within this time.
    pub(crate) fn not_started(limit: Duration) -> Self {
        let (seconds, raise) = (limit.as_secs_f32(), raise_timeout("connect", limit));
        let message = format!(
            "the process was not started within {seconds} s (timeout.connect); if its disk is slow, {raise}"
        );
        Self::Spawn { message }
    }

    /// Leaves out advice about the config, which the server worked with until `known` says. The reason stays.
    pub(crate) fn after_success(self, known: &str) -> Self {
        match self {
            Self::Withheld(error) => Self::Withheld(Arc::new(error.in_full().clone().after_success(known))),
            Self::Remote(error) => Self::Remote(error.after_success(Some(known.to_owned()))),
            Self::TimedOut { step, after, output, .. } => {
                Self::TimedOut { step, after, setting: None, output: output.after_success(known) }
            }
            Self::Exited { step, how, output, .. } => {
                Self::Exited { step, how, output: output.after_success(known), withheld: Vec::new() }
            }
            error => error,
        }
    }

    /// Adds the request that waited for an answer when the connection ended, and the lines of stdout that are not MCP.
    /// Only `Exited` has room for them; another error stays as it is.
    pub(crate) fn while_waiting_for(&self, step: &'static str, stdout: String) -> Self {
        let mut error = self.in_full().clone();
        if let Self::Exited { step: at, output, how, .. } = &mut error {
            *at = Some(step);
            *output = std::mem::take(output).with_stdout(stdout);
            if how == CLEAN_EXIT {
                *output = std::mem::take(output).with_clean_exit();
            } else if how.starts_with(ERROR_EXIT) {
                *output = std::mem::take(output).with_silent_exit();
            }
        }
        error
    }
}

impl From<LaunchError> for UpstreamError {
    fn from(error: LaunchError) -> Self {
        let message = with_source(&error);
        match error {
            LaunchError::Lookup(_) => Self::Spawn { message },
            error => Self::Launch { message, brief: error.brief() },
        }
    }
}

impl From<SpawnError> for UpstreamError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn { message: with_source(&error) }
    }
}

impl From<NotReading> for UpstreamError {
    fn from(error: NotReading) -> Self {
        Self::NotReading(error)
    }
}

impl From<RemoteError> for UpstreamError {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<ProcessEnd> for UpstreamError {
    fn from(ProcessEnd { how, stderr, withheld }: ProcessEnd) -> Self {
        let output = ServerOutput::of_ended(stderr, &withheld);
        Self::Exited { step: None, how, output, withheld }
    }
}

/// Formats an error and its sources on one line.
fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_source(source)),
        None => error.to_string(),
    }
}

/// The end of a process that reports no error.
const CLEAN_EXIT: &str = "its process exited with code 0";

/// The beginning of the end of a process that ends by itself.
const ERROR_EXIT: &str = "its process exited with code";

fn before_answer(step: &Option<&'static str>) -> String {
    step.map(|step| format!(" before it answered {step}")).unwrap_or_default()
}

/// Names the setting, and says how to raise it, unless the output says why a longer limit does not help.
fn setting_hint(setting: &Option<&'static str>, after: Duration, output: &ServerOutput) -> String {
    match setting {
        None => String::new(),
        Some(setting) if output.http_server_hint().is_some() => format!(" (timeout.{setting})"),
        Some(setting) => {
            format!(" (timeout.{setting}); if it needs longer, {}", raise_timeout(setting, after))
        }
    }
}

fn tail(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; the end of its stderr:\n{}", quoted_lines(text)),
    }
}

fn withheld_hint(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(
            "\nthese variables are set but were not passed to it: {}; if it needs them, add \"inherit_env\": {} to its \
             config entry",
            names.join(", "),
            serde_json::json!(names)
        ),
    }
}
