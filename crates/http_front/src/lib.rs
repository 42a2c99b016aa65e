//! The HTTP server in front (Streamable HTTP): many users, and each request stands alone.
//!
//! # Theory of operation
//!
//! [`server`] accepts connections and drains them at the end. [`service`] takes each request through the same steps: the
//! paths for health, the hosts and origins (`access`), who asks ([`authentication`], by the `tokens` of a file or those of an authorization
//! server: `oauth`), how much (`limits`), the body
//! (`request_body`), whether the headers agree with it (`mcp_headers`), and the answer (`response`), which ends with the
//! token that it depends on ([`state`]). MCP itself is in
//! `front`: a [`RequestServer`](front::server::single_request::RequestServer) serves each request, and there is one for
//! each profile that a token may have. `timed_stream` ends connections that do not read.
//!
//! # Invariants
//!
//! - No request depends on an earlier one. Only limits, open requests and verified tokens are kept, in memory.
//! - A header that another component may have acted on agrees with the body, or the request is refused.
//! - Access is a condition of a whole answer: a stream is checked at each event, and every 10 s.
//! - A request without a token that counts waits for its turn, however it is answered.
//! - Every read and write has a deadline, and every queue a limit.
//! - A request is answered with JSON unless something has to be sent before the answer.
//!
//! ```ignore
//! let front = HttpFront::new(options, access, keys);
//! front.set_server(None, server);
//! front.serve(listener, stop).await;
//! ```

pub mod access;
pub mod authentication;
mod jwks;
mod jwt_signatures;
pub mod limits;
mod mcp_headers;
pub mod oauth;
mod request_body;
mod response;
pub mod server;
mod service;
pub mod state;
mod timed_stream;
pub mod tokens;
