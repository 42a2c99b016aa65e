//! The client in front, as upstreams see it. An upstream needs nothing else of the front.

use config::GroupName;
use futures_util::future::BoxFuture;
use serde_json::json;
use wire::peer::Progress;
use wire::protocol::CLIENT_NAME;
use wire::{Raw, Reply};

/// The client in front. There is none before its session begins.
pub trait Clients: Send + Sync {
    /// Returns whether the client has room for more messages, or there is none.
    fn is_ready(&self) -> bool;

    /// Resolves when `is_ready` is true. A reader awaits this before each message, so that a client that does not read
    /// slows the upstreams down.
    fn ready(&self) -> BoxFuture<'_, ()>;

    /// The capabilities that upstreams are offered, as a JSON object.
    fn offered_capabilities(&self) -> Raw;

    /// The log level to ask upstreams for, if the client asked for one.
    fn log_level(&self) -> Option<String>;

    /// Returns whether the clients may read what the servers' processes print, and how they end. Clients over HTTP are many
    /// users: what a process prints may be about the call of another one.
    fn see_processes(&self) -> bool {
        true
    }

    /// Passes on a notification of `group`.
    fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>);

    /// Sends a log message of dynamic-mcp itself, about a group or all of them, to the client if it wants it.
    fn log(&self, about: Option<&GroupName>, level: LogLevel, message: &str);

    /// Sends a request of an upstream to its client. If the client did not declare the capability, the answer is an
    /// error and the client does not see the request.
    fn request(&self, request: ClientRequest) -> BoxFuture<'static, Reply>;
}

/// The severity of a log message of dynamic-mcp itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something works in part, or may work later.
    Warning,
    /// Something does not work until a person repairs it.
    Error,
}

/// The params of `notifications/message` for a message of dynamic-mcp itself.
pub fn log_params(level: LogLevel, message: &str) -> Raw {
    let level = match level {
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
    };
    json!({ "level": level, "logger": CLIENT_NAME, "data": message }).to_string().into()
}

/// A request of an upstream to its client: elicitation, sampling, roots, or about a task of the client.
pub struct ClientRequest {
    /// The group that asks.
    pub group: GroupName,
    /// The JSON-RPC method.
    pub method: String,
    /// The params as the client may see them.
    pub params: Option<Raw>,
    /// The number that the front gave to the call during which the upstream asks, if that call is known.
    pub call: Option<u64>,
    /// Where progress goes: to the upstream, under its own token.
    pub progress: Option<Progress>,
}
