//! The seam between the HTTP transport and `auth`, which implements these traits.
//!
//! The transport asks a [`LoginService`] for the [`Credentials`] of each connection, and the credentials for the
//! `Authorization` header of each request. The headers that the config sets are sent independently of this.

use super::error::RemoteError;
use config::{GroupName, HttpConfig};
use futures_util::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::sync::Arc;

/// Keeps the user's logins at remote servers.
pub trait LoginService: Send + Sync {
    /// Returns the credentials for a new connection. Sends nothing. An `Authorization` header of the config takes the
    /// place of a login.
    ///
    /// # Errors
    ///
    /// The config has no such header, and its address is invalid or there is no directory for logins. A missing login
    /// is no error.
    fn credentials(&self, group: &GroupName, http: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError>;

    /// Returns whether there is a stored login for a server that another process has changed since this one last used it.
    fn changed_elsewhere(&self, group: &GroupName, http: &HttpConfig) -> BoxFuture<'static, bool>;

    /// Begins a login. The future resolves when the address for the browser is known; `done` waits for the user.
    /// `None`: this server has no login that a user could complete in a browser, or logins cannot be stored.
    ///
    /// # Errors
    ///
    /// `Config` if no login is possible before the config or the system is changed. Otherwise the login cannot begin:
    /// its server cannot be reached, or its metadata cannot be used.
    fn begin_login(
        &self,
        group: &GroupName,
        http: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>>;

    /// Resolves when all tokens that were granted so far are stored. Called before the process ends: no login request
    /// and no token refresh is sent after this call.
    fn flush(&self) -> BoxFuture<'static, ()>;
}

/// A login that waits for the user.
pub struct PendingLogin {
    /// The URL that the user has to open in a browser on this machine.
    pub url: String,
    /// Resolves when the tokens are stored, or when the login has failed.
    pub done: BoxFuture<'static, Result<(), RemoteError>>,
}

/// The credentials for one server.
pub trait Credentials: Send + Sync {
    /// Returns the value of `Authorization` for the next request. `None`: there is no login, or it has ended. May first
    /// refresh a token that is about to expire.
    ///
    /// # Errors
    ///
    /// There is a login and it cannot be used at the moment. The request must not be sent without it: its answer might
    /// be one for anonymous users.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>>;

    /// Handles a 401 or 403 response: refreshes the token where that may help. Requests that were refused at the same
    /// time may call it concurrently.
    fn handle_challenge(&self, challenge: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome>;
}

/// A response with status 401 or 403 (RFC 6750, section 3).
#[derive(Debug)]
pub struct AuthChallenge {
    /// 401 or 403.
    pub status: StatusCode,
    /// The response's `WWW-Authenticate`.
    pub www_authenticate: Option<HeaderValue>,
    /// The request's `Authorization`. If the token in it was replaced meanwhile, no refresh is needed.
    pub authorization: Option<HeaderValue>,
}

/// What to do with the request that was challenged.
pub enum ChallengeOutcome {
    /// Send it once more: there are new credentials.
    Retry,
    /// Fail it with this error.
    Fail(RemoteError),
    /// The response is not about credentials. Treat it like any other error status.
    Unrelated,
}
