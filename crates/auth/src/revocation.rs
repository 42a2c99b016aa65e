//! Ends a login: revokes its tokens (RFC 7009) and removes it from the token store.

use super::account::Account;
use super::discovery::AuthorizationServer;
use super::egress::describe_error_response;
use super::error::{AuthError, KeyringError};
use super::secret::Secret;
use super::token_store::StoredLogin;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// What a logout achieved.
#[derive(Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// There was no login.
    NotLoggedIn,
    /// The authorization server has revoked the tokens.
    Revoked,
    /// The login is removed here, but its tokens work until they expire. The text says why.
    NotRevoked(String),
    /// The login was removed, but its entry may still be in the keyring, which cannot be asked.
    EntryLeft(KeyringError),
}

impl Account {
    /// Revokes the tokens if the authorization server supports that, and then removes the login, even if they are not
    /// revoked. The user may be asked to unlock the keyring.
    ///
    /// # Errors
    ///
    /// `AuthError::Keyring` if the login is in a keyring that is locked or fails: then the login stays.
    /// `AuthError::Busy` if another process holds its lock for longer than a refresh takes; `AuthError::Store` if its
    /// file cannot be read or removed.
    pub async fn log_out(&self) -> Result<LogoutOutcome, AuthError> {
        self.login.unlock_keyring().await;
        let lock = self.login.lock().await?;
        let login = match lock.read().await {
            // Such a keyring cannot be asked, and no process here uses what is in it.
            Err(AuthError::Keyring(KeyringError::Disabled | KeyringError::Unavailable, _)) => None,
            Err(AuthError::Keyring(why, _)) => return Err(lock.logout_blocked(why)),
            login => login?,
        };
        let has_tokens = |login: &StoredLogin| login.access_token.is_some() || login.refresh_token.is_some();
        let outcome = match login.filter(has_tokens) {
            None => LogoutOutcome::NotLoggedIn,
            Some(login) => match self.revoke(&login).await {
                Ok(()) => LogoutOutcome::Revoked,
                Err(error) => LogoutOutcome::NotRevoked(error.to_string()),
            },
        };
        let entry_left = lock.remove().await?;
        Ok(entry_left.map_or(outcome, LogoutOutcome::EntryLeft))
    }

    async fn revoke(&self, login: &StoredLogin) -> Result<(), AuthError> {
        let server = self.discover(None).await?;
        if let Some(change) = server.change_since(login) {
            return Err(AuthError::Refused(change));
        }
        let unsupported = || AuthError::refused("the authorization server does not support revocation");
        let endpoint = server.revocation_endpoint().ok_or_else(unsupported)?;
        // The refresh token first: revoking it also revokes the access tokens that were made with it.
        let tokens = [("refresh_token", &login.refresh_token), ("access_token", &login.access_token)];
        for (kind, token) in tokens {
            if let Some(token) = token {
                revoke_token(&server, endpoint, login, kind, token).await?;
            }
        }
        Ok(())
    }
}

async fn revoke_token(
    server: &AuthorizationServer,
    endpoint: &str,
    login: &StoredLogin,
    kind: &str,
    token: &Secret,
) -> Result<(), AuthError> {
    let mut form =
        vec![("token", token.expose()), ("token_type_hint", kind), ("client_id", login.client_id.as_str())];
    let mut authorization = None;
    if let Some(secret) = &login.client_secret {
        match server.uses_client_secret_post() {
            true => form.push(("client_secret", secret.expose())),
            false => authorization = Some(basic_authorization(&login.client_id, secret)),
        }
    }
    let response = server.egress.post_form(endpoint, &form, authorization.as_deref()).await?;
    if !response.status().is_success() {
        let secret = login.client_secret.as_ref().map_or("", Secret::expose);
        return Err(AuthError::Refused(describe_error_response(&response, &[token.expose(), secret])));
    }
    Ok(())
}

/// Returns the `Authorization` header that authenticates a client (RFC 6749 section 2.3.1).
fn basic_authorization(client_id: &str, secret: &Secret) -> String {
    let encode = |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let credentials = format!("{}:{}", encode(client_id), encode(secret.expose()));
    format!("Basic {}", BASE64_STANDARD.encode(credentials))
}

#[cfg(test)]
#[path = "revocation/tests.rs"]
mod tests;
