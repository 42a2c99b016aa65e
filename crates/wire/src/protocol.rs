//! MCP as the proxy knows it: its revisions, the two eras they fall into, methods, capabilities, keys of `_meta` and
//! error codes.
//!
//! Revisions up to 2025-11-25 begin with `initialize` and keep the state of a session (the handshake era). From
//! 2026-07-28 on every request carries its revision and its client's capabilities (the stateless era). Everything else
//! in the program asks this module instead of comparing literals.

use serde::{Deserialize, Serialize};

pub use log_severity::LogSeverity;

mod log_severity;
pub mod methods;

/// The name under which we are the client of upstreams.
pub const CLIENT_NAME: &str = "dynamic-mcp";

/// The revisions that begin with `initialize`, oldest first.
pub const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision that upstreams are offered, and that a client gets if it asks for one that is not known.
pub const LATEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[HANDSHAKE_REVISIONS.len() - 1];

/// The first revision.
pub const OLDEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[0];

/// The only revision that has JSON-RPC batches.
pub const WITH_BATCHES: &str = "2025-03-26";

/// The only revision of the handshake era that has tasks.
pub const WITH_TASKS: &str = "2025-11-25";

/// The first revision without a handshake.
pub const STATELESS: &str = "2026-07-28";

/// Returns whether a revision belongs to the stateless era, even if it is a later one that is not known here.
pub fn is_stateless(revision: &str) -> bool {
    revision.len() == STATELESS.len()
        && revision.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && revision >= STATELESS
}

/// All revisions, newest first, for `supportedVersions`. It names the revisions of the handshake era too, because an
/// SDK falls back to `initialize` only if one of them is named.
pub const REVISIONS: [&str; HANDSHAKE_REVISIONS.len() + 1] = {
    let [a, b, c, d] = HANDSHAKE_REVISIONS;
    [STATELESS, d, c, b, a]
};

/// Returns the revisions up to `latest`, newest first.
pub fn revisions_up_to(latest: &str) -> impl Iterator<Item = &'static str> {
    REVISIONS.into_iter().filter(move |revision| *revision <= latest)
}

/// How the two ends of a connection speak. The specification calls the eras "legacy" and "modern".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `initialize` exchanges versions and capabilities once.
    #[default]
    Handshake,
    /// `params._meta` carries them with each request (2026-07-28 and later).
    Stateless,
}

/// Keys of `_meta` that MCP reserves.
pub mod meta {
    /// The revision of a stateless request.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The capabilities of the client that sends a stateless request.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The client that sends a stateless request.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// The server that answers.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    /// The least severe log messages that the client wants while this request is open.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The `subscriptions/listen` that a notification belongs to.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    /// The task that a message belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

    /// Of a tool: every call needs the user (an extension of Claude).
    pub const REQUIRES_USER_INTERACTION: &str = "anthropic/requiresUserInteraction";

    /// Ours, of a sampling request: the group that asks.
    pub const GROUP: &str = "dynamic-mcp/group";

    /// The keys that only requests of the stateless era carry.
    pub const OF_REQUESTS: [&str; 4] = [VERSION, CAPABILITIES, CLIENT, LOG_LEVEL];
}

/// Names of capabilities, of servers and of clients.
pub mod capability {
    /// Of servers: they have tools.
    pub const TOOLS: &str = "tools";
    /// Of servers: they have resources, resource templates, or both.
    pub const RESOURCES: &str = "resources";
    /// Of servers: they have prompts.
    pub const PROMPTS: &str = "prompts";
    /// Of servers: they complete arguments of prompts and resource templates.
    pub(crate) const COMPLETIONS: &str = "completions";
    /// Of servers: they send log messages.
    pub const LOGGING: &str = "logging";
    /// Of servers and of clients: they answer some requests with a task (2025-11-25).
    pub const TASKS: &str = "tasks";
    /// Of clients: they answer `roots/list`.
    pub const ROOTS: &str = "roots";
    /// Of clients: they answer `sampling/createMessage`.
    pub const SAMPLING: &str = "sampling";
    /// Of clients: they answer `elicitation/create`.
    pub const ELICITATION: &str = "elicitation";
    /// Of servers and of clients: extensions of MCP, by identifier.
    pub const EXTENSIONS: &str = "extensions";
    /// Of servers and of clients: capabilities that MCP does not define.
    pub const EXPERIMENTAL: &str = "experimental";
}

/// The extension of the stateless era that lets a server answer a call later.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The extension by which tools have a user interface: MCP Apps (SEP-1865).
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The media type of an app that is a page of HTML.
pub const PAGE_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// The extension by which servers have skills (SEP-2640).
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The extensions of clients that upstreams are not offered. Tasks are declared in another way in each era, and the
/// others are about the authorization of the client, which to an upstream is this proxy.
pub const EXTENSIONS_OF_OUR_OWN: [&str; 3] = [
    TASKS_EXTENSION,
    "io.modelcontextprotocol/oauth-client-credentials",
    "io.modelcontextprotocol/enterprise-managed-authorization",
];

/// The limits for texts by which requests and lists of servers identify something, in bytes. What identifies something is
/// looked for, compared and kept; everything else is only passed on.
pub mod max_bytes {
    /// A name, such as that of a tool, a prompt or a group.
    pub const NAME: usize = 1 << 10;
    /// The words of a search for tools.
    pub const QUERY: usize = 2 << 10;
    /// A URI, a URI template or the id of a task, as its server writes it.
    pub const URI: usize = 8 << 10;
}

/// Error codes of JSON-RPC 2.0 (section 5.1), and those that MCP assigns.
pub mod code {
    /// The message is not JSON (JSON-RPC).
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a request (JSON-RPC).
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist, or its capability was not declared (JSON-RPC).
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params are invalid, or name something that does not exist (JSON-RPC).
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed (JSON-RPC).
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The first of the codes that servers define for themselves (JSON-RPC).
    pub const SERVER_ERROR: i64 = -32000;
    /// There is no resource with the URI (MCP, up to revision 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user has to open the URLs in the error's data before the request can succeed (MCP, revision 2025-11-25
    /// only).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The HTTP headers of a request differ from its body (MCP, from revision 2026-07-28 on).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that its client did not declare (MCP, from revision 2026-07-28 on).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not support the revision that the request names (MCP, from revision 2026-07-28 on).
    pub const UNSUPPORTED_REVISION: i64 = -32022;
}
