//! Why a request of the client has no answer of an upstream, and how that is said: to a program as a JSON-RPC error, to a
//! model as the text of a result.

use crate::errors::{self, RETRY_AFTER_MS, RpcError, UNAVAILABLE};
use base::text::quoted;
use config::GroupName;
use config::duration::raise_timeout;
use serde_json::json;
use std::iter;
use std::path::Path;
use upstream::groups::startup_info::log_line;
use upstream::lifecycle::cool_down;
use upstream::{AcquireError, State, Upstream};
use wire::Raw;
use wire::peer::CallError;
use wire::protocol::methods::Method;

/// Why a request has no answer of an upstream.
pub(crate) enum RequestError {
    /// dynamic-mcp shuts down.
    ShuttingDown,
    /// No group was found for the request.
    NotFound(Box<RpcError>),
    /// The call is not sent as it is. The text tells the model why, and what to do.
    Refused(String),
    /// The group could not be connected.
    Unavailable(Box<Unavailable>),
    /// The upstream did not answer.
    Unanswered(Box<Unanswered>),
    /// The upstream's answer does not exist in the client's era.
    Untranslatable {
        /// The group.
        group: Upstream,
        /// The method.
        method: Method,
        /// Why the answer cannot be translated.
        why: &'static str,
    },
}

/// A group that could not be connected.
pub struct Unavailable {
    /// The group.
    pub group: Upstream,
    /// Why it could not be connected.
    pub error: AcquireError,
    /// The outcome of the login offer, as text for the model.
    pub login: Option<String>,
    /// The log file.
    pub log_file: Option<Box<Path>>,
}

/// A request that the upstream did not answer.
pub struct Unanswered {
    /// The group.
    pub group: Upstream,
    /// The method.
    pub method: Method,
    /// Why there is no answer.
    pub error: CallError,
    /// How the connection ended, if it did.
    pub lost: Option<String>,
    /// The outcome of the login offer, as text for the model.
    pub login: Option<String>,
}

impl RequestError {
    /// Returns the text for the model that called `tool`.
    ///
    /// # Errors
    ///
    /// The error is about neither a tool nor its group, so the request itself fails.
    pub(crate) fn for_model(self, tool: &str) -> Result<String, RpcError> {
        match self {
            Self::ShuttingDown => Err(errors::shutting_down()),
            Self::NotFound(error) => Err(*error),
            Self::Refused(text) => Ok(text),
            Self::Unavailable(unavailable) => Ok(unavailable.for_model()),
            Self::Unanswered(unanswered) => Ok(unanswered.for_model(tool)),
            Self::Untranslatable { group, why, .. } => {
                Ok(format!("Tool {} of group {} gave no result: {why}.", quoted(tool), group.name))
            }
        }
    }
}

impl From<RequestError> for RpcError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::ShuttingDown => errors::shutting_down(),
            RequestError::NotFound(error) => *error,
            RequestError::Refused(text) => errors::invalid_params(text),
            RequestError::Unavailable(unavailable) => (*unavailable).into(),
            RequestError::Unanswered(unanswered) => {
                let Unanswered { group, method, error, lost, login } = *unanswered;
                let error = errors::unanswered(&group.name, method.name(), &error, lost);
                tracing::warn!("{}", error.message);
                error.with_login(login)
            }
            RequestError::Untranslatable { group, method, why } => {
                errors::untranslatable(&group.name, method.name(), why)
            }
        }
    }
}

impl From<RequestError> for Raw {
    fn from(error: RequestError) -> Self {
        RpcError::from(error).into()
    }
}

impl From<String> for RequestError {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

impl From<RpcError> for RequestError {
    fn from(error: RpcError) -> Self {
        Self::NotFound(Box::new(error))
    }
}

impl From<Unavailable> for RequestError {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(Box::new(unavailable))
    }
}

impl From<Unavailable> for RpcError {
    fn from(Unavailable { group, error, login, log_file }: Unavailable) -> Self {
        if matches!(error, AcquireError::ShuttingDown) {
            return errors::shutting_down();
        }
        let snapshot = group.snapshot();
        let (attempts, cause) = match (&snapshot.state, &error) {
            (State::Failed(failure), _) => (failure.attempts, failure.error.to_string()),
            (_, error) => (0, unavailable_text(&group.name, error, iter::empty(), None, None)),
        };
        let cause = iter::once(cause).chain(snapshot.config_warnings()).collect::<Vec<_>>().join("\n");
        let retry_after = match &error {
            AcquireError::Failed(error) if !error.retryable() => None,
            _ => Some(RETRY_AFTER_MS),
        };
        Self::new(UNAVAILABLE, format!("group {} is not available", group.name))
            .with_data(json!({
                "group": group.name.as_str(),
                "state": snapshot.state.name(),
                "attempts": attempts,
                "retryAfterMs": retry_after,
                "cause": cause,
                "logFile": log_file,
            }))
            .with_login(login)
    }
}

impl Unavailable {
    /// The text for the model.
    pub(crate) fn for_model(&self) -> String {
        let Self { group, error, login, log_file } = self;
        let snapshot = group.snapshot();
        let warnings = snapshot.config_warnings();
        unavailable_text(&group.name, error, warnings, login.as_deref(), log_file.as_deref())
    }
}

/// Returns the text for the model. `log_file` may say more. `config_warnings`: what is doubtful in the group's config
/// entry, which may be the reason.
fn unavailable_text(
    group: &GroupName,
    error: &AcquireError,
    config_warnings: impl Iterator<Item = String>,
    login: Option<&str>,
    log_file: Option<&Path>,
) -> String {
    let warnings: String = config_warnings.map(|warning| format!("\n{warning}")).collect();
    match error {
        AcquireError::Failed(error) => {
            let advice = match login {
                Some(login) => login.to_owned(),
                None if error.retryable() => {
                    let wait = cool_down(error).as_secs();
                    format!("Call again in {wait} seconds to retry; if that fails, too, tell the user.")
                }
                None => "A retry does not help until this is fixed; tell the user.".to_owned(),
            };
            format!("Group {group} is not available: {error}{warnings}\n{advice}{}", log_line(log_file))
        }
        AcquireError::Gone => format!("Group {group} is no longer in the config."),
        AcquireError::ShuttingDown => {
            format!("Group {group} was not used: the session ends, and dynamic-mcp is shutting down.")
        }
        AcquireError::StillConnecting(progress) => format!(
            "Group {group} is initializing ({} s so far), please retry in 10 seconds{progress}{warnings}",
            progress.elapsed.as_secs()
        ),
    }
}

/// How a group ended that an edit of the config removed.
pub(crate) const REMOVED: &str =
    "an edit of the config removed the group, and the call was cancelled after 10 s";

/// How a group ended that an edit of the config replaced.
pub(crate) const REPLACED: &str =
    "an edit of the config restarted the server, and the call was cancelled after 10 s";

impl Unanswered {
    fn for_model(self, tool: &str) -> String {
        let Self { group, error, lost, login, .. } = self;
        let text = unanswered_text(&group.name, tool, &error, lost);
        tracing::warn!("{}", text.lines().next().unwrap_or_default());
        match login {
            Some(login) => format!("{text}\n{login}"),
            None => text,
        }
    }
}

fn unanswered_text(group: &GroupName, tool: &str, error: &CallError, lost: Option<String>) -> String {
    let tool = quoted(tool);
    match error {
        CallError::TimedOut(after) => format!(
            "Tool {tool} of group {group} did not answer within {} s and was cancelled. \
             It may have done part of its work. The limit is timeout.tools; if the tool needs longer, {}.",
            after.as_secs_f32(),
            raise_timeout("tools", *after)
        ),
        CallError::TooLong { bytes, limit } => format!(
            "The answer of tool {tool} of group {group} has {bytes} bytes, more than the limit of {limit} \
             (settings.max_message_bytes). Ask for less at once."
        ),
        CallError::OverBudget { .. } => format!(
            "Tool {tool} of group {group} ran, but {error}. Wait for the other answers, then ask for less at once."
        ),
        CallError::Malformed(_) => format!(
            "Tool {tool} of group {group} gave no result that can be read: {error}. \
             The tool may have done its work, and a repeated call will probably fail in the same way. \
             Tell the user, who can report this to the author of the server."
        ),
        CallError::AnswerRefused(_) => format!(
            "Tool {tool} of group {group} gave no result: {error}. \
             It may have done part of its work. Tell the user; a repeated call helps only if another answer is given."
        ),
        CallError::Failed { why, .. } => format!("Tool {tool} of group {group} gave no answer: {why}."),
        CallError::Closed { sent, .. } => {
            let why = lost.unwrap_or_else(|| "the connection was closed".to_owned());
            let done = if *sent { "It may have done part of its work. " } else { "" };
            let advice = match why == REMOVED {
                true => "Do not call it again unless the user adds the group again.",
                false => "Call again: the next call restarts the server.",
            };
            format!("Group {group} was lost while tool {tool} ran: {why}\n{done}{advice}")
        }
    }
}
