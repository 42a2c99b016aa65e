//! What this program knows of MCP's revisions.

use serde::{Deserialize, Serialize};

/// The revisions that begin with `initialize`, oldest first.
pub const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The one we offer upstreams, and answer clients who ask for one we do not know.
pub const LATEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[HANDSHAKE_REVISIONS.len() - 1];

/// The first one.
pub const OLDEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[0];

/// The only one in which messages come in batches.
pub const WITH_BATCHES: &str = "2025-03-26";

/// The only one with a handshake that has tasks.
pub const WITH_TASKS: &str = "2025-11-25";

/// The first revision without a handshake: every request says of itself what it needs.
pub const STATELESS: &str = "2026-07-28";

/// Whether a revision is of the stateless era, be it one that we do not know yet.
pub fn is_stateless(revision: &str) -> bool {
    revision.len() == STATELESS.len()
        && revision.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && revision >= STATELESS
}

/// All of them, newest first: what a client can choose from. With those of the other era, because an SDK tries
/// `initialize` after a revision that is not spoken here only if one of them is named.
pub const REVISIONS: [&str; HANDSHAKE_REVISIONS.len() + 1] = {
    let [a, b, c, d] = HANDSHAKE_REVISIONS;
    [STATELESS, d, c, b, a]
};

/// How the two ends of a connection speak: the specification's "legacy" and "modern".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `initialize` says once who is there and what they can do.
    #[default]
    Handshake,
    /// `params._meta` says it with each request (2026-07-28 and later).
    Stateless,
}

/// Keys of `_meta` that are MCP's own.
pub mod meta {
    /// The revision of a stateless request.
    pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client of a stateless request can do.
    pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Who asks.
    pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
    /// Who answers.
    pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    /// Log messages from this level on are wanted while this request is worked on.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The `subscriptions/listen` that a notification belongs to.
    pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
    /// The task that a message belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

    /// Those that a request has in the stateless era alone.
    pub const OF_REQUESTS: [&str; 4] = [VERSION, CAPABILITIES, CLIENT, LOG_LEVEL];
}

/// The extension of the stateless era in which a server answers later than at once.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Error codes of JSON-RPC, and those that MCP has given out.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Up to revision 2025-11-25.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Revision 2025-11-25 alone.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// From revision 2026-07-28 on: what a request says in its headers is not what its body says.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// From revision 2026-07-28 on.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// From revision 2026-07-28 on.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
}
