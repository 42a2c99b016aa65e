//! The MCP server that a client sees.
//!
//! # Theory of operation
//!
//! A session (`server::ClientSession`) serves one client on one pair of streams. The config, the cache and the groups'
//! snapshots answer the handshake and `tools/list`, so these never wait for an upstream. Every other request runs as a
//! future of its own, and only a request that names a group waits for that group.
//!
//! The modules build on each other, from the top down:
//!
//! - `server` reads messages, enforces the phases of a session, and routes each request to its handler;
//! - `tools` has the proxy's own tools and the lists of tools;
//! - `passthrough` forwards requests to the group that they belong to, and merges the lists of all groups;
//! - `call` calls the tools of upstreams, and sends every request that is forwarded;
//! - `notify` keeps track of what the client is to be notified of: changed lists and subscriptions;
//! - `ask` asks the user for approvals and logins;
//! - `session` is the state of a client's session, and the context of each request;
//! - `client` is the client itself: what it declares, what it is told, and how upstreams ask it for input.
//!
//! Beside them are what all of these use: `errors` (what a client is told if a request fails), `names` (which group a name or
//! a URI belongs to), `arguments` (what a model writes, in every form that models use, and the limits of names) and
//! `results` (those that are too large for the client).
//!
//! # Invariants
//!
//! - Reading never waits for a request, so a cancellation and the end of the stream are always seen.
//! - Params and results pass as bytes: only members that name a tool, a URI or a task are replaced.
//! - A request is sent to a server again only if it did not run or may be repeated, and only once for each cause: a
//!   lost connection, a login (`call`).
//!
//! ```ignore
//! let (peer, deadlines) = Peer::new(output);
//! tokio::spawn(deadlines.run());
//! let session = ClientSession::new(groups, &front_client, peer, SessionOptions::default(), None);
//! session.run(&mut lines, signals.next(), logins.shutdown()).await;
//! ```

pub mod arguments;
pub mod ask;
pub mod call;
pub mod client;
pub mod errors;
pub mod names;
pub mod notify;
pub mod passthrough;
pub mod results;
pub mod server;
pub mod session;
pub mod tools;
