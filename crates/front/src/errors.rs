//! What a client is told if a request fails.
//!
//! # Theory of operation
//!
//! A program gets a JSON-RPC error, and a model a text. This file has the errors of the proxy itself, and only it assigns
//! codes; docs/errors.md lists them with cause and remedy. `request_error` has every reason why a request has no answer of
//! an upstream, and both forms of it. `tool_errors` has the texts that tell a model why a call was not made, and
//! `changed_tools` those about tools that changed.

use crate::names::own_tools;
use base::text::{quoted, shorten};
use config::GroupName;
use config::duration::raise_timeout;
use serde_json::{Value, json};
use std::borrow::Cow;
use wire::budget::BUDGET_BYTES;
use wire::object::AmbiguousMember;
use wire::peer::CallError;
use wire::protocol::methods::{Method, TimeoutClass};
use wire::protocol::{code, revisions_up_to};
use wire::{MessageError, Raw, error_object};

pub mod changed_tools;
pub mod request_error;
pub mod tool_errors;

/// The method is not allowed in this phase of the session.
const WRONG_PHASE: i64 = -32005;
/// The method belongs to a capability that was not negotiated.
const NOT_NEGOTIATED: i64 = -32004;
/// How many characters of a name that may be long a text shows.
const MAX_SHOWN_NAME: usize = 80;
/// The group has no connection.
pub(crate) const UNAVAILABLE: i64 = -31001;
/// The upstream did not answer in time.
const TIMED_OUT: i64 = -31002;
/// The upstream's connection ended before the answer.
const CLOSED: i64 = -31003;
/// The proxy shuts down.
const SHUTTING_DOWN: i64 = -31004;
/// The group does not have the capability.
pub(crate) const LACKS_CAPABILITY: i64 = -31005;

/// How long to wait before a request to a group whose failure may pass, in milliseconds.
pub(super) const RETRY_AFTER_MS: u32 = 5000;

/// The text where work on what servers list took too long.
pub(crate) const LISTS_TOOK_TOO_LONG: &str = "the servers list so much that it could not be worked through in time; get_status says which exceed a limit";

/// A JSON-RPC error of the proxy itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The error's code.
    pub code: i64,
    /// What failed.
    pub message: Cow<'static, str>,
    /// Details for programs.
    pub data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// Adds the outcome of a login offer to the cause, if there is one.
    pub(crate) fn with_login(mut self, login: Option<String>) -> Self {
        if let (Some(login), Some(data)) = (login, &mut self.data) {
            let cause = data["cause"].as_str().unwrap_or_default();
            data["cause"] = Value::from(format!("{cause}\n{login}"));
        }
        self
    }
}

impl From<RpcError> for Raw {
    fn from(error: RpcError) -> Self {
        error_object(error.code, &error.message, error.data)
    }
}

/// Returns the error for a request before `initialize`, or too long before `notifications/initialized`.
pub(crate) fn not_initialized() -> RpcError {
    let message = "not initialized: send initialize, then notifications/initialized; --lenient-handshake does without the \
                   second";
    RpcError::new(WRONG_PHASE, message)
}

/// Returns the error for a second `initialize`.
pub(crate) fn already_initialized() -> RpcError {
    RpcError::new(WRONG_PHASE, "already initialized; with --lenient-handshake, initialize may come again")
}

/// Returns the error for a request during shutdown.
pub fn shutting_down() -> RpcError {
    RpcError::new(SHUTTING_DOWN, "dynamic-mcp is shutting down")
}

/// Returns the error for a method of a capability that this session does not advertise.
pub(crate) fn not_negotiated(capability: &'static str) -> RpcError {
    RpcError::new(NOT_NEGOTIATED, format!("capability not negotiated: {capability}"))
}

/// Returns the error for a method that needs a connection, which a client over HTTP does not have.
pub(crate) fn needs_connection(method: &str) -> RpcError {
    let how =
        "revision 2026-07-28 has subscriptions/listen and log levels of its own; or use dynamic-mcp on stdio";
    RpcError::new(NOT_NEGOTIATED, format!("{method} needs a session, and there is none over HTTP: {how}"))
}

/// Returns the error of a server's request to a client that is not there: the server may be asked by many clients over
/// HTTP.
pub(crate) fn asks_over_http(group: &GroupName, method: &str) -> RpcError {
    RpcError::new(
        code::METHOD_NOT_FOUND,
        format!(
            "{} of group {group} cannot be passed on over HTTP: it is not known which client it is for. A server of \
             revision 2026-07-28 asks through its results; with others, use dynamic-mcp on stdio",
            quoted(&shorten(method, MAX_SHOWN_NAME))
        ),
    )
}

/// Returns the error for a method that does not exist.
pub(crate) fn unknown_method() -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, "method not found")
}

/// Returns the error for a stateless request of a revision that is not supported. `latest`: the latest one that this
/// client is offered.
pub fn unsupported_revision(requested: &Raw, latest: &str) -> RpcError {
    let requested: Value = serde_json::from_slice(requested).unwrap_or_default();
    let supported: Vec<_> = revisions_up_to(latest).collect();
    RpcError::new(code::UNSUPPORTED_REVISION, "unsupported protocol version")
        .with_data(json!({ "supported": supported, "requested": requested }))
}

/// Returns the error for a stateless request whose client lacks a capability that the method needs.
pub(crate) fn missing_capability(required: Value) -> RpcError {
    RpcError::new(code::MISSING_CAPABILITY, "missing required client capability")
        .with_data(json!({ "requiredCapabilities": required }))
}

/// Returns the error for params that are not what the method needs.
pub(crate) fn invalid_params(what: impl Into<Cow<'static, str>>) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, what)
}

/// Returns the error for params that servers may read in another way than dynamic-mcp does.
pub(crate) fn ambiguous_params(member: &AmbiguousMember) -> RpcError {
    invalid_params(format!("params are ambiguous: {member}"))
}

/// Returns a name that may be long, for a text.
pub(crate) fn shown(name: &str) -> String {
    quoted(&shorten(name, MAX_SHOWN_NAME))
}

/// Returns the error for a tool that is neither one of ours nor an upstream's.
pub(crate) fn unknown_tool(name: &str) -> RpcError {
    let (name, ours) = (shown(name), own_tools::NAMES.join(", "));
    invalid_params(format!(
        "unknown tool: {name}. The tools of dynamic-mcp are {ours}; the tools of groups are called with \
         call_dynamic_tool, or by the name group__tool"
    ))
}

/// Returns the error for a resource that no group has.
pub(crate) fn resource_not_found(uri: &str) -> RpcError {
    RpcError::new(code::RESOURCE_NOT_FOUND, "resource not found").with_data(json!({ "uri": uri }))
}

/// Returns the error for a resource that several groups named in results, and none lists. `explicit` are the URIs that
/// name one of the groups each.
pub(crate) fn ambiguous_resource(uri: &str, explicit: &[String]) -> RpcError {
    let choice = explicit.join(" or ");
    invalid_params(format!("several groups named this resource, and none lists it: request {choice}"))
        .with_data(json!({ "uri": uri, "candidates": explicit }))
}

/// Returns the error for a request that the upstream did not answer. `lost`: how the connection ended, if it did.
pub fn unanswered(group: &GroupName, method: &str, error: &CallError, lost: Option<String>) -> RpcError {
    let code = match error {
        CallError::TimedOut(_) => TIMED_OUT,
        CallError::Closed { .. } => CLOSED,
        CallError::TooLong { .. }
        | CallError::OverBudget { .. }
        | CallError::Malformed(_)
        | CallError::AnswerRefused(_)
        | CallError::Failed { .. } => code::INTERNAL_ERROR,
    };
    let error = match (error, timeout_setting(method)) {
        (CallError::TimedOut(after), Some(setting)) => {
            format!("{error} (timeout.{setting}); if it needs longer, {}", raise_timeout(setting, *after))
        }
        _ => error.to_string(),
    };
    let cause = lost.unwrap_or_else(|| error.clone());
    RpcError::new(code, format!("group {group} did not answer {method}: {error}"))
        .with_data(json!({ "group": group.as_str(), "cause": cause }))
}

/// The setting of `timeout` that limits requests of this method.
fn timeout_setting(method: &str) -> Option<&'static str> {
    match Method::parse(method)?.info().timeout {
        TimeoutClass::Tools => Some("tools"),
        TimeoutClass::Resources => Some("resources"),
        TimeoutClass::Prompts => Some("prompts"),
        TimeoutClass::Longest | TimeoutClass::None => None,
    }
}

/// Returns the error for an answer of so many bytes that does not fit beside those that its user has not read.
pub fn answer_without_room(bytes: usize) -> RpcError {
    let why = format!(
        "the answer ({bytes} bytes) was dropped because too many large answers wait to be read; the request was carried \
         out. Read the other answers first, or ask for less at once"
    );
    RpcError::new(code::INTERNAL_ERROR, why)
}

/// Returns the error for a request that would listen for more than a request or its user may.
pub(crate) fn too_many_topics(limit: &str) -> RpcError {
    invalid_params(format!("params.notifications names too many resources and tasks: {limit}"))
}

/// Returns why a request to a server is not sent that has so many requests of its user in flight.
pub(crate) fn too_many_in_flight(own: usize) -> String {
    format!(
        "{own} of your requests to this server are in flight, and the others are left to other users; wait for some \
         answers, then call again"
    )
}

/// Returns the error for an answer of an upstream that does not exist in the client's era.
pub(crate) fn untranslatable(group: &GroupName, method: &str, why: &str) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, format!("group {group} did not answer {method}: {why}"))
        .with_data(json!({ "group": group.as_str() }))
}

/// Returns the error for a capability that the group does not have. `capability` may be a phrase.
pub(crate) fn lacks_capability(group: &GroupName, capability: &str) -> RpcError {
    RpcError::new(LACKS_CAPABILITY, format!("group {group} does not support {capability}"))
        .with_data(json!({ "group": group.as_str(), "capability": capability }))
}

/// Returns the error for more suspended calls of one client than the limit.
pub(crate) fn too_many_suspended_calls() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "too many calls wait for input; answer or cancel some of them")
}

/// Returns the error for a question of an upstream to the user, while as many as the limit wait for the user.
pub(crate) fn too_many_questions(group: &GroupName) -> RpcError {
    let message = "wait for the user; ask again when some are answered";
    RpcError::new(code::INTERNAL_ERROR, format!("too many questions of group {group} {message}"))
}

/// Returns the error for a subscription that the upstream did not confirm in time.
pub(crate) fn subscription_timed_out() -> RpcError {
    RpcError::new(TIMED_OUT, "the subscription was not confirmed in time")
}

/// Returns the error for work on lists of servers that took too long.
pub(crate) fn lists_took_too_long() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, LISTS_TOOK_TOO_LONG)
}

/// Returns the error for a bug in the proxy.
pub fn internal() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "internal error in dynamic-mcp; its log has the details")
}

/// Returns the error for a line from the client that is not a message.
pub fn malformed(error: &MessageError) -> RpcError {
    let invalid = |message: String| RpcError::new(code::INVALID_REQUEST, message);
    match error {
        MessageError::NotJson => RpcError::new(code::PARSE_ERROR, "the message is not JSON"),
        MessageError::NotAMessage { .. } => {
            invalid("the message is neither a request, a notification nor a response".to_owned())
        }
        MessageError::Batch => {
            invalid("batches exist only in revision 2025-03-26: send messages one by one".to_owned())
        }
        MessageError::EmptyBatch => invalid("the batch is empty".to_owned()),
        MessageError::LargeBatch { messages, limit } => {
            invalid(format!("a batch of {messages} messages exceeds the limit of {limit}; none was handled"))
        }
        MessageError::TooLong { bytes, limit, .. } => invalid(format!(
            "a message of {bytes} bytes exceeds the limit of {limit} (settings.max_message_bytes)"
        )),
        MessageError::OverBudget { bytes, .. } => RpcError::new(
            code::INTERNAL_ERROR,
            format!(
                "a message of {bytes} bytes was dropped because too many large messages wait to be read: they share \
                 {} MiB. Read the answers, then send it again",
                BUDGET_BYTES >> 20
            ),
        ),
    }
}
