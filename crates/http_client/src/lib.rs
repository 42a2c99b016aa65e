//! The HTTP client of remote servers and logins.
//!
//! # Theory of operation
//!
//! [`client::HttpClient`] sends the requests of one remote server, with [`credentials`] for its origin alone. [`tls`] has
//! the certificates, with those of the system and of the config. [`proxy`] says which proxy a request takes, for
//! messages. [`error::RemoteError`] is what went wrong, with [`advice`] for the user; `reqwest_error` finds the cause of
//! an error in the chain that the library returns.

pub mod advice;
pub mod client;
pub mod credentials;
pub mod error;
pub mod proxy;
pub mod reqwest_error;
pub mod tls;
pub mod trusted_certificates;

/// The `User-Agent` of all requests.
pub const USER_AGENT: &str = concat!("dynamic-mcp/", env!("CARGO_PKG_VERSION"));
