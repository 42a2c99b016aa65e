//! Who we are to a remote server: the seam for logging in. What the config's `headers` say is sent in any case.

use super::error::RemoteError;
use crate::config::{GroupName, HttpConfig};
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Knows how to log in to servers.
pub trait LoginService: Send + Sync {
    /// Asked with every connection, before anything is sent.
    fn of(&self, group: &GroupName, http: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError>;

    /// When what is kept for a server last changed, by whatever process. `None`: nothing is kept.
    fn changed(&self, group: &GroupName, http: &HttpConfig) -> BoxFuture<'static, Option<SystemTime>>;

    /// Begins a login. `None`: there is none that a person could do in a browser.
    fn begin(
        &self,
        group: &GroupName,
        http: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>>;

    /// The process is about to end: resolves when what servers have granted by now is kept. No login or renewal that has
    /// not been sent yet goes on.
    fn settled(&self) -> BoxFuture<'static, ()>;
}

/// A login that waits for a person.
pub struct PendingLogin {
    /// To be opened in a browser on this machine.
    pub url: String,
    /// Resolves when the person has logged in and what was granted is kept, or when that failed.
    pub done: BoxFuture<'static, Result<(), RemoteError>>,
}

/// One server's credentials, asked for with every request.
pub trait Credentials: Send + Sync {
    /// The value of `Authorization`, if there is one. May refresh one that is about to expire. A fault: there is a login,
    /// and it cannot be used at the moment; a request without it may get an answer that is meant for others.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>>;

    /// A request was refused for who sent it. Many may say so at the same time.
    fn refused(&self, refusal: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome>;
}

/// A 401 or 403.
#[derive(Debug)]
pub struct AuthChallenge {
    pub status: StatusCode,
    /// The server's `WWW-Authenticate`.
    pub challenge: Option<HeaderValue>,
    /// What the request was sent with: whoever refreshes need not do so for one that is replaced already.
    pub sent: Option<HeaderValue>,
}

/// What follows from a refusal.
pub enum ChallengeOutcome {
    /// There is something better now: the same request is sent once more.
    Again,
    /// Nothing helps.
    Final(RemoteError),
    /// It is not about who we are.
    Unrelated,
}
