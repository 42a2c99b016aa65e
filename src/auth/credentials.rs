//! The login as the transport sees it: a header for each request, a verdict on each refusal.

use super::token_store::TokenStore;
use super::{Account, AuthError, Remedy, Secret};
use crate::config::{GroupName, HttpConfig, OAuthFlow};
use crate::transport::remote::credentials::{
    AuthChallenge, ChallengeOutcome, Credentials, LoginService, PendingLogin,
};
use crate::transport::remote::error::RemoteError;
use futures_util::future::BoxFuture;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::sync::Arc;
use std::time::SystemTime;

/// The logins of this user. Without a vault nobody is logged in.
pub struct Kept(pub Option<TokenStore>);

impl LoginService for Kept {
    fn credentials(&self, group: &GroupName, http: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError> {
        if is_written(http) {
            return Ok(Arc::new(Written));
        }
        let Some(vault) = self.0.clone() else {
            return Err(RemoteError::config("there is no place for logins: HOME is not set"));
        };
        let account = Account::new(group, http, vault).map_err(|trouble| fault(&trouble))?;
        Ok(Arc::new(Bearer(account)))
    }

    fn last_changed(&self, group: &GroupName, http: &HttpConfig) -> BoxFuture<'static, Option<SystemTime>> {
        let vault = self.0.clone().filter(|_| !is_written(http));
        let key = super::place(group, http).map(|(_, key)| key);
        Box::pin(async move { vault?.changed(&key.ok()?).await })
    }

    fn flush(&self) -> BoxFuture<'static, ()> {
        let vault = self.0.clone();
        Box::pin(async move {
            if let Some(vault) = vault {
                vault.errands.settled().await;
            }
        })
    }

    fn begin_login(
        &self,
        group: &GroupName,
        http: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>> {
        let alone = http.oauth.as_ref().is_some_and(|oauth| oauth.flow == OAuthFlow::ClientCredentials);
        let vault = self.0.clone().filter(|_| !alone && !is_written(http));
        let account = vault.map(|vault| Account::new(group, http, vault));
        Box::pin(async move {
            let Some(account) = account else { return Ok(None) };
            let begun = async { account?.begin().await };
            let super::LoginStart::Waiting(login) = begun.await.map_err(|trouble| fault(&trouble))? else {
                return Ok(None);
            };
            let url = login.url().to_string();
            let done =
                Box::pin(async move { login.finish().await.map(drop).map_err(|trouble| fault(&trouble)) });
            Ok(Some(PendingLogin { url, done }))
        })
    }
}

fn is_written(http: &HttpConfig) -> bool {
    http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// The config has the header itself.
struct Written;

impl Credentials for Written {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>> {
        Box::pin(async { Ok(None) })
    }

    fn handle_challenge(&self, challenge: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome> {
        let outcome = match challenge.status {
            StatusCode::UNAUTHORIZED => {
                let how = "the server refused the Authorization in \"headers\"";
                ChallengeOutcome::Fail(RemoteError::login_needed(how))
            }
            _ => ChallengeOutcome::Unrelated,
        };
        Box::pin(async { outcome })
    }
}

struct Bearer(Arc<Account>);

impl Credentials for Bearer {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>> {
        Box::pin(async {
            match self.0.token().await {
                Ok(token) => Ok(token.as_ref().and_then(header)),
                // There is no login any more. If the server needs one, it refuses this, and then that is said again.
                Err(trouble @ (AuthError::LoginNeeded(_) | AuthError::Refused(_))) => {
                    tracing::debug!(%trouble, "there is no token for a request");
                    Ok(None)
                }
                Err(trouble) => Err(fault(&trouble)),
            }
        })
    }

    fn handle_challenge(&self, challenge: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome> {
        Box::pin(async move {
            let status = challenge.status;
            let sent = challenge.authorization.as_ref().and_then(|value| value.to_str().ok());
            let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).map(Secret::new);
            let challenge = challenge.www_authenticate.as_ref().and_then(|value| value.to_str().ok());
            let forbidden = status == StatusCode::FORBIDDEN;
            match self.0.refused(forbidden, challenge, sent).await {
                Ok(Remedy::Again) => ChallengeOutcome::Retry,
                Ok(Remedy::Unrelated) => ChallengeOutcome::Unrelated,
                // What this request lacks, others may do without: the connection is as good as before.
                Err(AuthError::LoginNeeded(how)) if forbidden => {
                    ChallengeOutcome::Fail(RemoteError::insufficient_scope(status, &how))
                }
                Err(trouble) if forbidden => {
                    ChallengeOutcome::Fail(RemoteError::status(status, Some(&trouble.to_string())))
                }
                Err(trouble) => ChallengeOutcome::Fail(fault(&trouble)),
            }
        })
    }
}

fn header(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn fault(trouble: &AuthError) -> RemoteError {
    match trouble {
        AuthError::LoginNeeded(how) => RemoteError::login_needed(how),
        AuthError::Unreachable(why) => {
            RemoteError::unreachable(&format!("its login cannot be renewed: {why}"))
        }
        AuthError::Refused(why) => RemoteError::login_failed(why),
        // Another login would not help.
        AuthError::Store(why) => RemoteError::config(format!("its login cannot be used: {why}")),
        // It may be unlocked, or free, any time.
        AuthError::Keyring(_, why) | AuthError::Busy(why) => RemoteError::unreachable(why),
    }
}
