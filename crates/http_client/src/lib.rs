//! The HTTP client of remote servers.
//!
//! # Theory of operation
//!
//! [`client::HttpClient`] sends the requests of one remote server; [`response_body`] reads their answers within a limit. It asks
//! [`credentials`] for the header of each request and for what to do about a 401 or 403: `auth` implements these
//! traits, so that this crate knows nothing of OAuth. [`sender`] sends one request, also those of logins, over connections that
//! [`connector`] makes, and decodes a body with a [`content_coding`]. [`tls`] configures the certificate authorities, and [`trusted_certificates`] accepts a server's
//! own certificate that the config names. [`proxy`] says which proxy of the environment a request takes, for messages.
//!
//! [`error::RemoteError`] is what went wrong, with [`advice`] for the user; [`reqwest_error`] finds the cause of an
//! error in the chain that the HTTP libraries return. The transport in `upstream` and the logins in `auth` both use
//! these.
//!
//! # Invariants
//!
//! - A credential goes only to the origin that the config names. Redirects to another origin are refused.
//! - Every body has a limit, and counts against the budget of `wire::budget` while it is held.
//!
//! ```no_run
//! # use http_client::{client::{HttpClient, HttpRequest}, credentials::Credentials, error::RemoteError};
//! # use std::{sync::Arc, time::Duration};
//! # async fn example(config: &config::HttpConfig, credentials: Arc<dyn Credentials>, request: HttpRequest)
//! # -> Result<(), RemoteError> {
//! let client = HttpClient::new(config, Duration::from_secs(10), credentials).await?;
//! let response = client.send(request).await?;
//! println!("{}", response.status());
//! # Ok(())
//! # }
//! ```

pub mod advice;
pub mod client;
pub mod connector;
pub mod content_coding;
pub mod credentials;
pub mod error;
pub mod proxy;
pub mod reqwest_error;
pub mod response_body;
pub mod sender;
pub mod tls;
pub mod trusted_certificates;

/// The `User-Agent` of all requests.
pub const USER_AGENT: &str = concat!("dynamic-mcp/", env!("CARGO_PKG_VERSION"));
