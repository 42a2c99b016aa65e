//! The MCP server that a client sees.
//!
//! # Theory of operation
//!
//! A session serves one client on one pair of streams. Static state answers the handshake and `tools/list`, so they
//! never wait for an upstream. Every other request runs as a future of its own, and only a request that names a group
//! waits for that group.
//!
//! The modules build on each other, from the top down:
//! - `server` reads messages, enforces the phases of a session, and routes each request to its handler;
//! - `tools` has the proxy's own tools and the lists of tools;
//! - `passthrough` forwards requests to the group that they belong to, and merges the lists of all groups;
//! - `notify` keeps track of what the client is to be notified of: changed lists and subscriptions;
//! - `ask` asks the user for approvals and logins, and gets leases on groups;
//! - `session` is the state of a client's session, and the context of each request;
//! - `client` is the client itself: what it declares, what it is told, and how upstreams ask it for input.
//!
//! `errors` and `tool_errors` have all errors of the proxy itself. `lookup`, `exposed_names`, `known_names` and `origins` find
//! what a name or a URI belongs to. `results` keeps results that are too large for the client.

pub mod ask;
pub mod changed_tools;
pub mod client;
pub mod errors;
pub mod exposed_names;
pub mod known_names;
pub mod lookup;
pub mod notify;
pub mod origins;
pub mod passthrough;
pub mod results;
pub mod server;
pub mod session;
pub mod spelling;
pub mod tool_errors;
pub mod tools;
