//! Login to remote servers with OAuth 2.1, as the authorization chapters of the MCP specification describe it.
//!
//! # Theory of operation
//!
//! An [`Account`] is the login at one server. The HTTP transport asks it for a token with every request, and reports
//! each 401 and 403 to it, by the traits of `http_client::credentials`, which `credentials` implements. [`OAuthLogins`]
//! has the accounts of all servers of an instance.
//!
//! - `discovery` finds the authorization server, and goes on after a place that fails (`metadata_walk`). `scopes` chooses
//!   which scopes to request there.
//! - `login` gets the first tokens: the user agrees in a `browser`, which returns to `callback`.
//! - `refresh` gets the next tokens without the user, by refresh token or by client credentials (`assertion`).
//! - `refusal` decides what to do about a refused request. `revocation` ends a login.
//! - `token_store` shares logins between the processes of the user, in the system's `keyring` where there is one.
//!   `secret_store` has the values of `{keyring:NAME}` in the same keyring.
//!
//! rmcp speaks the protocol; this crate adds what rmcp leaves open, and mends the answers that it does not read
//! (`server_answers`).
//!
//! # Invariants
//!
//! - Every request of a login passes `egress`, which decides where it may go by the rules of `addresses`.
//! - One process at a time refreshes a login: it holds the lock of the token store.
//! - A refresh that was sent is completed, because its answer has the only refresh token that still works
//!   (`shutdown_guard`).
//!
//! ```no_run
//! # async fn example(account: &std::sync::Arc<auth::Account>) -> Result<(), auth::AuthError> {
//! if let auth::LoginStart::Waiting(login) = account.start_login().await? {
//!     println!("Open {}", login.url());
//!     login.finish().await?;
//! }
//! # Ok(())
//! # }
//! ```

mod account;
mod addresses;
mod assertion;
pub mod browser;
mod callback;
mod credentials;
mod discovery;
mod egress;
mod error;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/auth.rs"]
pub mod fuzz;
pub mod keyring;
mod login;
mod metadata_walk;
mod refresh;
mod refusal;
mod revocation;
mod scopes;
mod secret;
pub mod secret_store;
mod server_answers;
mod shutdown_guard;
pub mod token_store;

pub use account::Account;
pub use credentials::{OAuthLogins, has_authorization_header};
pub use error::{AuthError, KeyringError};
pub use login::{AuthorizationResponse, BrowserLogin, LoginStart};
pub use revocation::LogoutOutcome;
pub use secret::Secret;
