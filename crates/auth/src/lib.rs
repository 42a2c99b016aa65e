//! Login to remote servers with OAuth 2.1, as the authorization chapters of the MCP specification describe it.
//!
//! # Theory of operation
//!
//! An `Account` is the login at one server. The transport asks it for a token with every request, and reports each 401
//! and 403 (`credentials`).
//!
//! - `discovery` finds the authorization server, `scopes` chooses what to ask it for.
//! - `login` gets the first tokens: the user agrees in a browser (`browser`), which returns to `callback`.
//! - `refresh` gets the next tokens without the user, by refresh token or by client credentials (`assertion`).
//! - `challenge` decides what to do about a refused request. `revocation` ends a login.
//! - `token_store` shares logins between the processes of the user, in the system's `keyring` where there is one.
//!   `secret_store` has the values of `{keyring:NAME}` in the same keyring.
//!
//! rmcp speaks the protocol; this module adds what rmcp leaves open. It upholds three invariants: every request of a
//! login passes `egress`, which decides where it may go; one process at a time refreshes a login, under the lock of
//! the token store; and a refresh that was sent is completed, because its answer has the only refresh token that
//! still works (`shutdown_guard`).

mod account;
mod addresses;
mod assertion;
pub mod browser;
mod callback;
mod challenge;
mod credentials;
mod discovery;
mod egress;
mod error;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
pub mod fuzz;
pub mod keyring;
mod login;
mod refresh;
mod revocation;
mod scopes;
mod secret;
pub mod secret_store;
mod shutdown_guard;
pub mod token_store;

pub use account::Account;
pub use challenge::RetryDecision;
pub use credentials::{OAuthLogins, has_authorization_header};
pub use error::{AuthError, KeyringError};
pub use login::{AuthorizationResponse, BrowserLogin, LoginStart};
pub use revocation::LogoutOutcome;
pub use secret::Secret;
