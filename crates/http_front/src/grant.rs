//! What an answer depends on for as long as it lasts: the token of its request, and the profile that the token gives.

use super::authentication::UserAccess;
use super::state::HttpFront;
use super::tokens::Principal;
use config::Config;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a token that was checked counts, unless the tokens change.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// The right of a client to an answer.
pub(crate) struct Grant {
    front: Arc<HttpFront>,
    /// The bearer token, if the request has one.
    token: Option<Box<str>>,
    /// Whose token it is.
    principal: Principal,
    /// The config of the servers that the profile of the principal has.
    config: watch::Receiver<Arc<Config>>,
    /// Whether the config had the profile at first.
    had_profile: bool,
    /// Who could ask when the token was checked last, and when that was.
    checked: (Arc<UserAccess>, Instant),
}

impl Grant {
    /// Creates the right of a principal whose token was checked just now, by `access`.
    pub(crate) fn new(
        front: &Arc<HttpFront>,
        access: Arc<UserAccess>,
        token: Option<&str>,
        principal: Principal,
        config: watch::Receiver<Arc<Config>>,
    ) -> Self {
        let had_profile = !config.borrow().lacks_profile();
        let (front, token) = (front.clone(), token.map(Into::into));
        Self { front, token, principal, config, had_profile, checked: (access, Instant::now()) }
    }

    /// Returns whether the token still counts and gives the same, and whether the config still has the profile.
    pub(crate) async fn holds(&mut self) -> bool {
        if self.had_profile && self.config.borrow().lacks_profile() {
            return false;
        }
        let access = self.front.access();
        let (checked_by, at) = &self.checked;
        if Arc::ptr_eq(&access, checked_by) && at.elapsed() < CHECKED_FOR {
            return true;
        }
        let holds = access.principal(self.token.as_deref()).await.is_ok_and(|now| now == self.principal);
        self.checked = (access, Instant::now());
        holds
    }

    /// The name of the principal.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.principal.name
    }
}
