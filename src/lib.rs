//! dynamic-mcp: one MCP server in front of many.
//!
//! A request of the client passes `front` (the session and its tools), `groups` (which upstreams there are), `upstream`
//! (one of them and its connection) and `transport` (its process, or HTTP). `instance` wires everything together, and `cli` has the commands. `auth` logs
//! in to remote servers, `config` reads the config, `cache` keeps catalogs between runs, `rules` says which tools may be
//! called, `pins` notices definitions that change, `sharing` is about servers that several instances use, `jq` runs programs
//! of models over results, and `dirs` names the directories of our files.
//!
//! The crates below are `wire` (JSON-RPC with bodies as bytes, and the methods of MCP), `schema` (definitions of tools),
//! `search` (finds tools) and `base`. ARCHITECTURE.md has the map and the invariants.
//!
//! The library exists so that tests and benches can reach the code. It is not an interface for other programs.

pub mod cli;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
