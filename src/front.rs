//! The MCP server that a client sees.
//!
//! # Theory of operation
//!
//! A session serves one client on one pair of streams. Static state answers the handshake and `tools/list`, so they
//! never wait for an upstream. Every other request runs as a future of its own, and only a request that names a group
//! waits for that group.
//!
//! The four modules build on each other, from the top down:
//! - `server` reads messages, enforces the phases of a session, and routes each request to its handler;
//! - `tools` has the proxy's own tools and the lists of tools;
//! - `passthrough` forwards requests to the group that they belong to, and merges the lists of all groups;
//! - `interaction` asks the client for input, and sends it progress and notifications, while its requests are served.
//!
//! `errors` and `tool_errors` have all errors of the proxy itself. `lookup`, `exposed_names`, `known_names` and `origins` find
//! what a name or a URI belongs to. `results` keeps results that are too large for the client.

pub mod changed_tools;
pub mod errors;
pub mod exposed_names;
pub mod interaction;
pub mod known_names;
pub mod lookup;
pub mod origins;
pub mod passthrough;
pub mod results;
pub mod server;
pub mod spelling;
pub mod tool_errors;
pub mod tools;
