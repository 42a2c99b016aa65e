//! A server refused a request for who sent it: what to do.

use super::error::AuthError;
use super::secret::Secret;
use super::token_store::{Record, now};
use super::{Account, refresh};
use crate::config::OAuthFlow;
use rmcp::transport::auth::WWWAuthenticateParams;
use std::sync::Arc;

/// A token that is refused so soon after it was got is not refused for its age.
const JUST_GOT: u64 = 10;

/// What helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// There is another token: the request may be sent once more.
    Again,
    /// It is not about who we are.
    Unrelated,
}

impl Account {
    /// A request was answered with 401 (`forbidden`: 403). `sent` is the token that it had.
    pub async fn refused(
        self: &Arc<Self>,
        forbidden: bool,
        challenge: Option<&str>,
        sent: Option<Secret>,
    ) -> Result<Remedy, AuthError> {
        let challenge = challenge.map(|text| WWWAuthenticateParams::parse(text, &self.url));
        match (forbidden, challenge) {
            (false, _) => self.unauthorized(sent).await,
            (true, Some(challenge)) if challenge.is_insufficient_scope() => {
                let scopes = challenge.scope.unwrap_or_default();
                self.step_up(scopes.split_whitespace().map(str::to_owned).collect(), sent).await
            }
            (true, _) => Ok(Remedy::Unrelated),
        }
    }

    async fn unauthorized(self: &Arc<Self>, sent: Option<Secret>) -> Result<Remedy, AuthError> {
        // Another instance may have renewed it, or a person logged in, this very second.
        let record = self.read().await?;
        if self.oauth.flow == OAuthFlow::Browser
            && record.as_ref().is_none_or(|record| record.access_token.is_none())
        {
            return Err(self.login_needed("the server asks for one"));
        }
        if let Some(record) = &record
            && let Some(token) = record.fresh_token()
        {
            if sent.as_ref() != Some(token) {
                return Ok(Remedy::Again);
            }
            if now().saturating_sub(record.received_at) < JUST_GOT {
                return Err(self.login_needed("it refuses the token that it was just given"));
            }
        }
        refresh::renew(self, sent).await.map(|_| Remedy::Again)
    }

    /// The server wants more than was granted. A person is asked for it once: what a login that asked for it did not
    /// bring, another would not bring either.
    async fn step_up(
        self: &Arc<Self>,
        scopes: Vec<String>,
        sent: Option<Secret>,
    ) -> Result<Remedy, AuthError> {
        let lock = self.vault.lock(&self.key).await?;
        let before = self.read().await?;
        let record = before.clone().unwrap_or_else(|| Record::new(self.url.as_str()));
        if record.access_token.is_some() && record.access_token != sent {
            return Ok(Remedy::Again);
        }
        let named = scopes.join(" ");
        if scopes.iter().all(|scope| record.asked.contains(scope) || record.granted.contains(scope)) {
            let why = format!(
                "it refuses this for want of rights ({named}) that were asked for at the login already"
            );
            return Err(AuthError::Refused(why));
        }
        let wanted = union([&record.wanted, &record.granted, &scopes]);
        self.save(&Record { wanted, ..record }, before).await;
        drop(lock);
        match self.oauth.flow {
            OAuthFlow::ClientCredentials => refresh::renew(self, sent).await.map(|_| Remedy::Again),
            OAuthFlow::Browser => Err(self.login_needed(&format!("it wants more rights for this ({named})"))),
        }
    }
}

/// Each once, in the order they came.
pub(super) fn union<'a>(lists: impl IntoIterator<Item = &'a Vec<String>>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in lists.into_iter().flatten() {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}
