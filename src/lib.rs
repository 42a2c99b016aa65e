//! dynamic-mcp: one MCP server in front of many.
//!
//! A request of the client passes `front` (the session and its tools), `groups` (which upstreams there are), `upstream`
//! (one of them and its connection) and `transport` (its process, or HTTP). All connections use `wire`, which is JSON-RPC
//! with bodies as bytes. `cli` wires everything together. `auth` logs in to remote servers, `config` reads the config,
//! `cache` keeps catalogs between runs, `rules` says which tools may be called, `pins` notices definitions that change,
//! `schema` reads the definitions of tools, `host` is the process in which shared servers run,
//! `jq` runs programs of models over results, `search` finds tools, `dirs` names the directories of our files, and
//! `private_files` checks what lies there. `files` reads files, `clock` is the time of day, `blocking` runs what may block, and `memory` configures
//! the allocator. ARCHITECTURE.md has the map and the invariants.
//!
//! The library exists so that tests and benches can reach the code. It is not an interface for other programs.

pub use dynamic_mcp_core::{protocol, schema, search, text, wire};

pub mod auth;
pub mod blocking;
pub mod cache;
pub mod cli;
mod clock;
pub mod config;
mod digest;
pub mod dirs;
pub mod files;
pub mod front;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod groups;
#[cfg(unix)]
pub mod host;
pub mod jq;
pub mod memory;
pub mod pins;
pub mod private_files;
pub mod processes;
mod random;
pub mod rules;
pub mod telemetry;
pub mod transport;
pub mod upstream;
