//! Decides what to do about a request that the server refused with 401 or 403.

use super::account::Account;
use super::error::AuthError;
use super::scopes::merge_scopes;
use super::secret::{Secret, quote_sanitized};
use super::token_store::StoredLogin;
use base::clock::unix_time_s;
use http_client::credentials::ChallengeOutcome;
use rmcp::transport::auth::WWWAuthenticateParams;
use std::sync::Arc;

/// A token that is refused sooner than this many seconds after it was received is not refused because of its age.
const MIN_REFUSAL_AGE_SECS: u64 = 10;

impl Account {
    /// Handles a refused request: `is_forbidden` for 403, else 401. A 403 that does not ask for more scopes is
    /// unrelated to the login. `challenge` is the `WWW-Authenticate` header, `sent` the token of the request.
    ///
    /// # Errors
    ///
    /// `LoginNeeded` if the user has to log in. Other errors if a login would not help, the stored login cannot be
    /// used, or a refresh failed.
    pub(crate) async fn handle_refusal(
        self: &Arc<Self>,
        is_forbidden: bool,
        challenge: Option<&str>,
        sent: Option<Secret>,
    ) -> Result<ChallengeOutcome, AuthError> {
        if !is_forbidden {
            return self.handle_unauthorized(challenge, sent).await;
        }
        let challenge = challenge.map(|text| WWWAuthenticateParams::parse(text, &self.url));
        match challenge {
            Some(challenge) if challenge.is_insufficient_scope() => {
                let scopes = challenge.scope.unwrap_or_default();
                self.step_up(scopes.split_whitespace().map(str::to_owned).collect(), sent).await
            }
            _ => Ok(ChallengeOutcome::Unrelated),
        }
    }

    async fn handle_unauthorized(
        self: &Arc<Self>,
        challenge: Option<&str>,
        sent: Option<Secret>,
    ) -> Result<ChallengeOutcome, AuthError> {
        // Not from the cache: another process may have refreshed the token, or the user logged in, a moment ago.
        let login = self.login.read().await?;
        let has_token = login.as_ref().is_some_and(|login| login.access_token.is_some());
        if !has_token && !self.uses_client_credentials() {
            let (ended, unregistered) =
                login.map(|login| (login.ended, login.unregistered)).unwrap_or_default();
            return Err(match (unregistered, ended) {
                (Some(words), _) => self.client_needed(Some(&words)),
                (None, Some(reason)) => self.login_ended(Some(&reason)),
                (None, None) => {
                    self.check_may_log_in(challenge).await?;
                    self.login_needed("the server requires a login")
                }
            });
        }
        if let Some(login) = &login
            && let Some(token) = login.fresh_token()
        {
            if sent.as_ref() != Some(token) {
                return Ok(ChallengeOutcome::Retry);
            }
            // A time in the future, of a clock that was set back since, says nothing.
            let age = unix_time_s().checked_sub(login.received_at);
            if age.is_some_and(|age| age < MIN_REFUSAL_AGE_SECS) {
                return Err(self.login_needed("the server rejects a token that was just issued"));
            }
        }
        self.refresh(sent).await.map(|_| ChallengeOutcome::Retry)
    }

    /// Handles a request that needs `scopes`. If the login has changed since the request was sent, returns `Retry`.
    /// Otherwise stores the scopes for the next login (step-up authorization). The user is asked once: scopes that a
    /// login requested and did not get would not come from another login either. A client with its own credentials gets
    /// a new token at once.
    ///
    /// # Errors
    ///
    /// `LoginNeeded` if the user has to log in again; `Refused` if the last login already requested these scopes. Other
    /// errors if the stored login cannot be used, or a refresh failed.
    async fn step_up(
        self: &Arc<Self>,
        scopes: Vec<String>,
        sent: Option<Secret>,
    ) -> Result<ChallengeOutcome, AuthError> {
        let lock = self.login.lock().await?;
        let previous = lock.read().await?;
        let login = previous.clone().unwrap_or_else(|| StoredLogin::new(self.url.as_str()));
        if login.access_token.is_some() && login.access_token != sent {
            return Ok(ChallengeOutcome::Retry);
        }
        let names = quote_sanitized(&scopes.join(" "), &[]);
        let is_known =
            |scope: &String| login.requested_scopes.contains(scope) || login.granted_scopes.contains(scope);
        if scopes.iter().all(is_known) {
            return Err(AuthError::Refused(format!(
                "this request needs more permissions ({names}), which the last login already asked for"
            )));
        }
        let missing_scopes = merge_scopes([login.missing_scopes.as_slice(), &login.granted_scopes, &scopes]);
        lock.save(&StoredLogin { missing_scopes, ..login }, previous).await;
        drop(lock);
        match self.uses_client_credentials() {
            true => self.refresh(sent).await.map(|_| ChallengeOutcome::Retry),
            false => Err(self.login_needed(&format!("this request needs more permissions: {names}"))),
        }
    }
}
