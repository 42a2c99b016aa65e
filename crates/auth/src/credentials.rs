//! The logins as the transport sees them: a header for each request, and a decision about each refused one.

use super::account::Account;
use super::error::AuthError;
use super::login::LoginStart;
use super::secret::Secret;
use super::token_store::TokenStore;
use config::{GroupName, HttpConfig, OAuthFlow};
use futures_util::future::BoxFuture;
use http_client::credentials::{AuthChallenge, ChallengeOutcome, Credentials, LoginService, PendingLogin};
use http_client::error::RemoteError;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::sync::Arc;

/// The logins of this user.
pub struct OAuthLogins {
    /// `None` if there is no directory for logins. Then only servers whose config has the header can be used.
    store: Option<TokenStore>,
}

impl OAuthLogins {
    /// Creates the logins of an instance, with this store.
    pub fn new(store: Option<TokenStore>) -> Self {
        Self { store }
    }
}

impl LoginService for OAuthLogins {
    fn credentials(&self, group: &GroupName, http: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError> {
        if has_authorization_header(http) {
            return Ok(Arc::new(ConfigCredentials::new(http)));
        }
        let Some(store) = &self.store else {
            return Err(RemoteError::config("there is no directory for logins because HOME is not set"));
        };
        let account = Account::new(group, http, store).map_err(|error| remote_error(&error))?;
        Ok(Arc::new(OAuthCredentials(account)))
    }

    fn changed_elsewhere(&self, group: &GroupName, http: &HttpConfig) -> BoxFuture<'static, bool> {
        let store = self.store.as_ref().filter(|_| !has_authorization_header(http));
        let account = store.and_then(|store| Account::new(group, http, store).ok());
        Box::pin(async move {
            match account {
                Some(account) => account.login.changed_elsewhere().await,
                None => false,
            }
        })
    }

    fn flush(&self) -> BoxFuture<'static, ()> {
        let store = self.store.clone();
        Box::pin(async move {
            if let Some(store) = store {
                store.finish().await;
            }
        })
    }

    fn begin_login(
        &self,
        group: &GroupName,
        http: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>> {
        let needs_no_user = has_authorization_header(http)
            || http.oauth.as_ref().is_some_and(|oauth| oauth.flow == OAuthFlow::ClientCredentials);
        let store = self.store.as_ref().filter(|_| !needs_no_user);
        let account = store.map(|store| Account::new(group, http, store));
        Box::pin(async move {
            let Some(account) = account else { return Ok(None) };
            let start = async { account?.start_login().await };
            let LoginStart::Waiting(login) = start.await.map_err(|error| remote_error(&error))? else {
                return Ok(None);
            };
            let url = login.url().to_string();
            let done =
                Box::pin(async move { login.finish().await.map(drop).map_err(|error| remote_error(&error)) });
            Ok(Some(PendingLogin { url, done }))
        })
    }
}

/// Returns whether the config sets the `Authorization` header itself. It is sent as it is, in place of a login.
pub fn has_authorization_header(http: &HttpConfig) -> bool {
    http.headers.iter().any(|(name, _)| is_authorization(name))
}

fn is_authorization(header: &str) -> bool {
    header.eq_ignore_ascii_case("authorization")
}

/// For a server whose config sets the `Authorization` header.
struct ConfigCredentials {
    /// The variable that the header has literally, because it was written in the notation of a shell.
    unexpanded: Option<String>,
}

impl ConfigCredentials {
    fn new(http: &HttpConfig) -> Self {
        let mut values = http.headers.iter().filter(|(name, _)| is_authorization(name));
        let value = values.next().and_then(|(_, value)| value.rsplit(' ').next());
        let name = value.and_then(|value| value.strip_prefix('$')).filter(|name| is_variable_name(name));
        Self { unexpanded: name.map(str::to_owned) }
    }
}

/// Returns whether a text is the name of an environment variable as they are usually written. What follows a `$` is no
/// secret then: neither a bearer token (RFC 6750) nor the value of another scheme has a `$`.
fn is_variable_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

impl Credentials for ConfigCredentials {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>> {
        Box::pin(async { Ok(None) })
    }

    fn handle_challenge(&self, challenge: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome> {
        let outcome = match challenge.status {
            StatusCode::UNAUTHORIZED => {
                let advice = match &self.unexpanded {
                    Some(name) => format!("its value has \"${name}\" literally: write \"${{{name}}}\""),
                    None => {
                        "write a value that is valid now, or remove it if the server has logins".to_owned()
                    }
                };
                // Not `login_needed`: no login is possible.
                ChallengeOutcome::Fail(RemoteError::config(format!(
                    "the server refused \"Authorization\" in \"headers\" of its config entry (HTTP 401); {advice}"
                )))
            }
            _ => ChallengeOutcome::Unrelated,
        };
        Box::pin(async { outcome })
    }
}

/// For a server that may require a login.
struct OAuthCredentials(Arc<Account>);

impl Credentials for OAuthCredentials {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, RemoteError>> {
        Box::pin(async {
            match self.0.access_token().await {
                Ok(token) => Ok(token.as_ref().and_then(bearer_header)),
                // The login has ended. If the server requires one, it refuses the request, and the error is reported
                // then.
                Err(error @ (AuthError::LoginNeeded(_) | AuthError::Refused(_))) => {
                    tracing::debug!(%error, "a request is sent without a token");
                    Ok(None)
                }
                Err(error) => Err(remote_error(&error)),
            }
        })
    }

    fn handle_challenge(&self, challenge: AuthChallenge) -> BoxFuture<'_, ChallengeOutcome> {
        Box::pin(async move {
            let status = challenge.status;
            let sent = challenge.authorization.as_ref().and_then(|value| value.to_str().ok());
            let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).map(Secret::new);
            let www_authenticate = challenge.www_authenticate.as_ref().and_then(|value| value.to_str().ok());
            let is_forbidden = status == StatusCode::FORBIDDEN;
            match self.0.handle_refusal(is_forbidden, www_authenticate, sent).await {
                Ok(outcome) => outcome,
                // Other requests may work without these scopes, so the connection goes on.
                Err(AuthError::LoginNeeded(how)) if is_forbidden => {
                    ChallengeOutcome::Fail(RemoteError::insufficient_scope(status, &how))
                }
                Err(error) if is_forbidden => {
                    ChallengeOutcome::Fail(RemoteError::status(status, Some(&error.to_string())))
                }
                Err(error) => ChallengeOutcome::Fail(remote_error(&error)),
            }
        })
    }
}

fn bearer_header(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn remote_error(error: &AuthError) -> RemoteError {
    match error {
        AuthError::LoginNeeded(how) => RemoteError::login_needed(how),
        AuthError::Unreachable(why) => {
            RemoteError::unreachable(&format!("its login cannot be refreshed: {why}"))
        }
        // Not `login_needed`: no login is possible.
        AuthError::KeyNeeded(how) | AuthError::ClientNeeded(how) => RemoteError::config(how),
        AuthError::Refused(why) => RemoteError::login_failed(why),
        // Not `login_failed`: another login would not help.
        AuthError::Store(why) => RemoteError::config(format!("its login cannot be used: {why}")),
        // Temporary: the keyring may be unlocked, and the other process may finish, at any time.
        AuthError::Keyring(_, why) | AuthError::Busy(why) => RemoteError::unreachable(why),
    }
}
