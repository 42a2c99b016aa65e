//! Who we are to a remote server: the seam for logging in. What the config's `headers` say is sent in any case.

use super::fault::Fault;
use crate::config::GroupName;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::pin::Pin;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One server's credentials, asked for with every request.
pub trait Credentials: Send + Sync {
    /// The value of `Authorization`, if there is one. May refresh one that is about to expire.
    fn authorization(&self) -> BoxFuture<'_, Option<HeaderValue>>;

    /// A request was refused for who sent it. Many may say so at the same time.
    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Verdict>;
}

/// A 401 or 403.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// The server's `WWW-Authenticate`.
    pub challenge: Option<HeaderValue>,
    /// What the request was sent with: whoever refreshes need not do so for one that is replaced already.
    pub sent: Option<HeaderValue>,
}

/// What follows from a refusal.
pub enum Verdict {
    /// There is something better now: the same request is sent once more.
    Again,
    /// Nothing helps.
    Final(Fault),
    /// It is not about who we are.
    Unrelated,
}

/// No login but what `headers` say.
pub struct Anonymous {
    pub group: GroupName,
    /// `headers` has an `Authorization`.
    pub has_token: bool,
}

impl Credentials for Anonymous {
    fn authorization(&self) -> BoxFuture<'_, Option<HeaderValue>> {
        Box::pin(async { None })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Verdict> {
        let fault = || match self.has_token {
            true => Fault::login_needed("the server refused the Authorization in \"headers\""),
            false => Fault::login_needed(&format!("run `dynamic-mcp login {}`", self.group)),
        };
        let verdict = match refusal.status {
            StatusCode::UNAUTHORIZED => Verdict::Final(fault()),
            _ => Verdict::Unrelated,
        };
        Box::pin(async { verdict })
    }
}
