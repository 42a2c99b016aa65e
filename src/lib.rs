//! dynamic-mcp: one MCP server in front of many.
//!
//! This package has the commands (`cli`) and the program (`main.rs`), which chooses between them and the modes in which
//! the program starts itself: the warden, the host of shared servers, its attach helper, and jq programs. Everything
//! else is in the crates below `crates/`, each of which begins with its theory of operation. From the top down:
//!
//! - `import` finds the servers of other clients. `instance` wires a running instance together.
//! - `front` is the MCP server that a client sees: the session and its tools.
//! - `sharing` attaches to servers that several instances use. `jq` runs programs of models over results.
//! - `upstream` has the groups, their connections and transports, their cached catalogs, and the pins of their tools.
//! - `auth` logs in to remote servers, and `http_client` sends their requests.
//! - `process` starts and ends child processes.
//! - `config` reads the config; `terminal` prints; `schema` reads definitions of tools; `search` finds tools.
//! - `wire` is JSON-RPC with bodies as bytes, and the methods of MCP. `base` has what knows nothing of MCP.
//!
//! ARCHITECTURE.md has the map and the invariants. The library exists so that tests and benches can reach the code. It
//! is not an interface for other programs.

pub mod cli;
#[cfg(any(test, fuzzing))]
#[path = "../fuzz/glue/targets.rs"]
pub mod fuzzing;
