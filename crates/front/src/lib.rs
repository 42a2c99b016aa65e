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
//! The files beside these folders serve all of them. `errors`, `tool_errors` and `changed_tools` have the texts of all
//! errors of the proxy itself; `request_error` has the causes for which a request has no answer. `arguments` reads what
//! a model writes, in every form that models use. `lookup`, `spelling`, `exposed_names`, `known_names`, `known_lists`,
//! `uri_owner` and `origins` find what a name or a URI belongs to. `text_limits` has the limits of names,
//! queries and URIs. `apps` gives the URIs of user interfaces, and
//! `own_tools` the names of our tools. `results` keeps results that are too large for the client. `status_page` is the page that draws the status.
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
pub mod status_page;
pub(crate) mod text_limits;
pub mod tool_errors;
pub mod tools;
pub mod uri_owner;
