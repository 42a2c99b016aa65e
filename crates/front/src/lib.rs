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
//! - `call` calls the tools of upstreams, and sends every request that is forwarded;
//! - `notify` keeps track of what the client is to be notified of: changed lists and subscriptions;
//! - `ask` asks the user for approvals and logins;
//! - `session` is the state of a client's session, and the context of each request;
//! - `client` is the client itself: what it declares, what it is told, and how upstreams ask it for input.
//!
//! `errors` and `tool_errors` have all errors of the proxy itself; `request_error` has the causes for which a request has no
//! answer. `arguments` reads what a model writes, in every form that models use. `lookup`, `exposed_names`, `known_names`, `known_lists`,
//! `uri_owner` and `origins` find what a name or a URI belongs to; `apps` gives the URIs of user interfaces; `own_tools` has the
//! names of our tools. `results` keeps results that are too large for the client.

pub mod apps;
pub mod arguments;
pub mod ask;
pub mod call;
pub mod changed_tools;
pub mod client;
pub mod errors;
pub mod exposed_names;
pub mod known_lists;
pub mod known_names;
pub mod lookup;
pub mod notify;
pub mod origins;
pub mod own_tools;
pub mod passthrough;
pub mod request_error;
pub mod results;
pub mod server;
pub mod session;
pub mod spelling;
pub mod tool_errors;
pub mod tools;
pub mod uri_owner;
