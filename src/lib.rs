//! dynamic-mcp: one MCP server in front of many.
//!
//! From the client to an upstream a request passes `cli` (which wires everything), `front` (a client's session),
//! `groups` (which upstreams there are), `upstream` (the life of one), `transport` (its process) and, under all of
//! them, `wire` (JSON-RPC with bodies as bytes). `auth` logs in to remote ones. `config` is read by all and reads none;
//! `dirs` names the directories of our files; `cache` remembers what was learnt, `rules` say what may be called,
//! `schema` reads tools' definitions, `search` finds tools, `status` tells.
//! ARCHITECTURE.md has the map and the invariants.
//!
//! The library exists so that tests and benches reach the code; it is not an interface for others.

pub mod auth;
pub mod cache;
pub mod cli;
pub mod config;
pub mod dirs;
pub mod front;
pub mod groups;
pub mod protocol;
pub mod rules;
pub mod schema;
pub mod search;
pub mod status;
pub mod telemetry;
pub mod transport;
pub mod upstream;
pub mod wire;
