//! The JSON-RPC errors that are ours, and the words in which a model is told what went wrong: the only place where
//! codes are chosen. docs/errors.md lists them with cause and cure.

use super::reach::Unreachable;
use crate::config::GroupName;
use crate::groups::login_flows::Purpose;
use crate::protocol::{REVISIONS, code};
use crate::upstream::Unavailable;
use crate::upstream::lifecycle::State;
use crate::upstream::lifecycle::cool_down;
use crate::wire::peer::CallError;
use crate::wire::{MessageError, Raw, error_object};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// Refused in this phase of the session.
pub const NOT_NOW: i64 = -32005;
/// Of a capability that was not negotiated.
pub const NOT_NEGOTIATED: i64 = -32004;
/// A group has no connection.
pub const UNAVAILABLE: i64 = -31001;
/// The upstream gave no answer in time.
pub const TIMED_OUT: i64 = -31002;
/// The upstream's connection ended before it answered.
pub const CLOSED: i64 = -31003;
/// The group lacks what it is asked for.
pub const LACKS_CAPABILITY: i64 = -31005;
/// dynamic-mcp is shutting down.
pub const SHUTTING_DOWN: i64 = -31004;

/// An error answer of our own.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub code: i64,
    pub message: Cow<'static, str>,
    pub data: Option<Value>,
}

impl Eq for Refusal {}

impl Refusal {
    /// With what came of the login that would help, if that says anything.
    pub fn with_login(mut self, login: Option<String>) -> Self {
        if let (Some(login), Some(data)) = (login, &mut self.data) {
            let cause = data["cause"].as_str().unwrap_or_default();
            data["cause"] = Value::from(format!("{cause}\n{login}"));
        }
        self
    }
}

impl From<Refusal> for Raw {
    fn from(refusal: Refusal) -> Self {
        error_object(refusal.code, &refusal.message, refusal.data)
    }
}

fn refusal(code: i64, message: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { code, message: message.into(), data: None }
}

pub fn not_initialized() -> Refusal {
    refusal(NOT_NOW, "not initialized: send initialize, then notifications/initialized")
}

pub fn already_initialized() -> Refusal {
    refusal(NOT_NOW, "already initialized")
}

pub fn shutting_down() -> Refusal {
    refusal(SHUTTING_DOWN, "dynamic-mcp is shutting down")
}

pub fn not_negotiated(capability: &'static str) -> Refusal {
    refusal(NOT_NEGOTIATED, format!("capability not negotiated: {capability}"))
}

pub fn unknown_method() -> Refusal {
    refusal(code::METHOD_NOT_FOUND, "method not found")
}

/// A request of a revision without handshake that is not spoken here.
pub fn unsupported_revision(requested: &Raw) -> Refusal {
    let requested: Value = serde_json::from_slice(requested).unwrap_or_default();
    let data = json!({ "supported": REVISIONS, "requested": requested });
    Refusal { data: Some(data), ..refusal(code::UNSUPPORTED_REVISION, "unsupported protocol version") }
}

/// The client of a stateless request would have to be able to do this.
pub fn missing_capability(required: Value) -> Refusal {
    let data = json!({ "requiredCapabilities": required });
    Refusal { data: Some(data), ..refusal(code::MISSING_CAPABILITY, "missing required client capability") }
}

pub fn bad_params(what: impl Into<Cow<'static, str>>) -> Refusal {
    refusal(code::INVALID_PARAMS, what)
}

pub fn unknown_tool(name: &str) -> Refusal {
    bad_params(format!("unknown tool: {name}"))
}

/// A group that a method other than `tools/call` names, and that has no connection.
pub fn unreachable(unreachable: &Unreachable) -> Refusal {
    let Unreachable { group, why, login } = unreachable;
    let snapshot = group.snapshot();
    let (attempts, cause) = match (&snapshot.state, why) {
        (State::Failed(failure), _) => (failure.attempts, failure.error.to_string()),
        (_, why) => (0, unavailable(&group.name, why, None)),
    };
    let retry = match why {
        Unavailable::Failed(error) if !error.retryable() => None,
        _ => Some(5000),
    };
    let data = json!({
        "group": group.name.as_str(),
        "state": snapshot.state.name(),
        "attempts": attempts,
        "retryAfterMs": retry,
        "cause": cause,
    });
    let refusal = refusal(UNAVAILABLE, format!("group {} is not available", group.name));
    Refusal { data: Some(data), ..refusal }.with_login(login.clone())
}

/// A request that reached the upstream and has no answer.
pub fn unanswered(group: &GroupName, method: &str, error: &CallError, lost: Option<String>) -> Refusal {
    let data = Some(json!({ "group": group.as_str(), "cause": lost.unwrap_or_else(|| error.to_string()) }));
    let code = match error {
        CallError::TimedOut(_) => TIMED_OUT,
        CallError::Closed { .. } => CLOSED,
        CallError::TooLong { .. } | CallError::Failed { .. } => code::INTERNAL_ERROR,
    };
    Refusal { data, ..refusal(code, format!("group {group} did not answer {method}: {error}")) }
}

/// An answer of a group that a client of the other era cannot be given.
pub fn not_bridged(group: &GroupName, method: &str, why: &str) -> Refusal {
    let data = json!({ "group": group.as_str() });
    let message = format!("group {group} did not answer {method}: {why}");
    Refusal { data: Some(data), ..refusal(code::INTERNAL_ERROR, message) }
}

/// Requests of one client that are not answered yet.
pub fn too_many_open() -> Refusal {
    refusal(code::INTERNAL_ERROR, "too many requests are open; wait for the answers to some of them")
}

/// Calls of a stateless client whose servers ask it something.
pub fn too_many_waiting() -> Refusal {
    refusal(code::INTERNAL_ERROR, "too many calls wait for input; answer or give up some of them")
}

/// A server did not say in time that it will tell of changes.
pub fn not_subscribed() -> Refusal {
    refusal(TIMED_OUT, "the subscription was not confirmed in time")
}

pub fn lacks(group: &GroupName, capability: &str) -> Refusal {
    let data = json!({ "group": group.as_str(), "capability": capability });
    Refusal { data: Some(data), ..refusal(LACKS_CAPABILITY, format!("group {group} has no {capability}")) }
}

pub fn resource_not_found(uri: &str) -> Refusal {
    Refusal { data: Some(json!({ "uri": uri })), ..refusal(code::RESOURCE_NOT_FOUND, "resource not found") }
}

pub fn internal() -> Refusal {
    refusal(code::INTERNAL_ERROR, "internal error in dynamic-mcp; its log says more")
}

/// A line from the client that is no message.
pub fn malformed(what: &MessageError) -> Refusal {
    match what {
        MessageError::NotJson => refusal(code::PARSE_ERROR, "not JSON"),
        MessageError::NotAMessage { .. } => {
            refusal(code::INVALID_REQUEST, "neither a request, a notification nor a response")
        }
        MessageError::Batch => refusal(
            code::INVALID_REQUEST,
            "a batch, which only revision 2025-03-26 has: send messages one by one",
        ),
        MessageError::EmptyBatch => refusal(code::INVALID_REQUEST, "an empty batch"),
        MessageError::LargeBatch { messages, limit } => {
            let message =
                format!("a batch of {messages} messages is over the limit of {limit}: none was looked at");
            refusal(code::INVALID_REQUEST, message)
        }
        MessageError::TooLong { bytes, limit, .. } => refusal(
            code::INVALID_REQUEST,
            format!("message of {bytes} bytes is over the limit of {limit} (settings.max_message_bytes)"),
        ),
    }
}

/// A tool result that says to the model what went wrong.
pub fn tool_error(text: &str) -> Raw {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true }).to_string().into()
}

/// Why a group has no connection, and what the model can do. `login`: what came of the login that would help.
pub fn unavailable(group: &GroupName, why: &Unavailable, login: Option<&str>) -> String {
    match why {
        Unavailable::Failed(error) => {
            let advice = match login {
                Some(login) => login.to_owned(),
                None if error.retryable() => {
                    let wait = cool_down(error).as_secs();
                    format!("Call again in {wait} seconds to try once more; get_status shows all groups.")
                }
                None => "Trying again will not help before this is mended; tell the user.".to_owned(),
            };
            format!("Group {group} is not available: {error}\n{advice}")
        }
        Unavailable::Gone => format!("Group {group} is no longer in the config."),
        Unavailable::StillConnecting(waited) => format!(
            "Group {group} is initializing ({} s so far), please retry in 10 seconds",
            waited.as_secs()
        ),
    }
}

pub fn login_declined(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Connecting => {
            "The user was offered the login and declined it. Leave this group alone unless the user asks for it."
        }
        Purpose::Rights => {
            "The user was offered a login with more rights and declined it. What needs no more rights can be used."
        }
    }
}

pub const LOGIN_DISMISSED: &str = "The user was offered the login and dismissed it. \
    Call again only if the user wants to log in.";

/// A login that the client could not offer; it is open for so long.
pub fn login_url(url: &str, open: Duration) -> String {
    let time = match open.as_secs() / 60 {
        0 => "at once".to_owned(),
        1 => "within a minute".to_owned(),
        minutes => format!("within {minutes} minutes"),
    };
    format!(
        "Ask the user to log in: this address is to be opened {time}, in a browser on the machine that dynamic-mcp \
         runs on. Then call again.\n{url}"
    )
}

/// A login that takes long.
pub fn login_goes_on(url: &str) -> String {
    format!(
        "The user has agreed to log in and is not done yet. Call again once that is done. The address:\n{url}"
    )
}

/// Nobody came back from the browser in time.
pub fn login_late(group: &GroupName) -> String {
    format!("The login to group {group} was begun, and nobody finished it. Call again to begin another one.")
}

pub fn login_failed(why: &str) -> String {
    format!("A login was begun and failed: {why}\nTell the user.")
}

/// A stateful server was lost: what it held is gone, and a call would run on nothing.
pub fn lost_state(group: &GroupName) -> String {
    format!(
        "Group {group} was restarted since the last call, and the state of its session is gone (open pages, \
         connections, shells). This call was not run. Build the state up again, then call again."
    )
}

/// The arguments do not fit the tool's schema. `signature`: how they would.
pub fn bad_arguments(group: &GroupName, tool: &str, problem: &str, signature: &str) -> String {
    format!(
        "The arguments do not fit tool {tool} of group {group}, so it was not called:\n{problem}\n\
         Its signature: {signature}"
    )
}

/// A tool's bare name that does not say whose it is.
pub fn several_have<'a>(tool: &str, groups: impl Iterator<Item = &'a GroupName>) -> String {
    let names = groups.map(GroupName::as_str).collect::<Vec<_>>().join(", ");
    format!(
        "Several groups have a tool {tool:?}: {names}. Use call_dynamic_tool with the group that you mean."
    )
}

/// A tool that the user is to confirm, and a client that cannot ask.
pub fn cannot_confirm(group: &GroupName, tool: &str) -> String {
    format!(
        "Tool {tool} of group {group} is to be confirmed by the user before each call (tools.ask in the config), and \
         this client cannot ask (it has no form elicitation), so it was not called. The user can take it out of \
         tools.ask."
    )
}

pub fn not_confirmed(group: &GroupName, tool: &str, action: &str) -> String {
    let did = if action == "decline" { "declined" } else { "dismissed" };
    format!(
        "The user was asked to confirm this call of tool {tool} of group {group} and {did} it, so it was not called. \
         Do not call it again without the user's consent."
    )
}

/// Why a call that reached the upstream has no result. `lost`: how the connection ended, if it did.
pub fn failed_call(group: &GroupName, tool: &str, error: &CallError, lost: Option<String>) -> String {
    match error {
        CallError::TimedOut(after) => format!(
            "Tool {tool} of group {group} gave no answer within {} s and was cancelled. \
             It may have done part of its work. The limit is timeout.tools in the config.",
            after.as_secs_f32()
        ),
        CallError::TooLong { bytes, limit } => format!(
            "The answer of tool {tool} of group {group} was too long: {bytes} bytes, the limit is {limit} \
             (settings.max_message_bytes). Ask for less at once."
        ),
        CallError::Failed { why, .. } => format!("Tool {tool} of group {group} gave no answer: {why}."),
        CallError::Closed { sent } => {
            let why = lost.unwrap_or_else(|| "the connection was closed".to_owned());
            let done = if *sent { "It may have done part of its work. " } else { "" };
            format!(
                "Group {group} was lost while tool {tool} was called: {why}\n{done}Call again: the server is restarted on the next call."
            )
        }
    }
}
