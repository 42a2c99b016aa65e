//! What this program knows of MCP's revisions.

/// The revisions that begin with `initialize`, oldest first.
pub const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The one we offer upstreams, and answer clients who ask for one we do not know.
pub const LATEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[HANDSHAKE_REVISIONS.len() - 1];

/// The first one.
pub const OLDEST_HANDSHAKE: &str = HANDSHAKE_REVISIONS[0];

/// The key of `params._meta` that marks a request of revision 2026-07-28 or later, which knows no handshake.
pub const STATELESS_META: &str = "io.modelcontextprotocol/protocolVersion";

/// JSON-RPC's own error codes.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
}
