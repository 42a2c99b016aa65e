//! The end of a login.

use super::Account;
use super::error::AuthError;
use super::keyring::Unusable;
use super::token_store::{Record, not_forgotten};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::sync::Arc;

/// How a login ended.
#[derive(Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// There was none.
    Nothing,
    /// The authorization server was told, and no token works any more.
    Revoked,
    /// Only here: the tokens work until they expire.
    Forgotten(String),
    /// The same, and nobody could ask the keyring that it is in for it, so that it may be left there.
    Left(Unusable),
}

impl Account {
    /// Revokes the tokens where that can be done (RFC 7009), and forgets them also where not: of a login in the keyring
    /// unless that is there and does not give it.
    pub async fn log_out(self: &Arc<Self>) -> Result<LogoutOutcome, AuthError> {
        self.vault.unlock(&self.key).await;
        let _lock = self.vault.lock(&self.key).await?;
        let record = match self.read().await {
            // Nobody can ask it; nobody here uses what is in it.
            Err(AuthError::Keyring(Unusable::Off | Unusable::Missing, _)) => None,
            Err(AuthError::Keyring(why, _)) => return Err(not_forgotten(&self.key, why)),
            record => record?,
        };
        let ended = match &record {
            None => LogoutOutcome::Nothing,
            Some(record) if record.access_token.is_none() && record.refresh_token.is_none() => {
                LogoutOutcome::Nothing
            }
            Some(record) => match self.revoke(record).await {
                Ok(()) => LogoutOutcome::Revoked,
                Err(why) => LogoutOutcome::Forgotten(why.to_string()),
            },
        };
        let left = self.vault.remove(&self.key).await?;
        self.saw(None, None);
        Ok(left.map_or(ended, LogoutOutcome::Left))
    }

    async fn revoke(&self, record: &Record) -> Result<(), AuthError> {
        let found = self.discover(None).await?;
        if found.issuer() != record.issuer {
            return Err(AuthError::Refused(
                "the authorization server is another than at the login".to_owned(),
            ));
        }
        let nowhere = || AuthError::Refused("the authorization server revokes no tokens".to_owned());
        let endpoint = found.address("revocation_endpoint").ok_or_else(nowhere)?;
        // The refresh token first: with it goes what was made with it.
        let tokens = [("refresh_token", &record.refresh_token), ("access_token", &record.access_token)];
        for (kind, token) in tokens {
            let Some(token) = token else { continue };
            let mut form = vec![
                ("token", token.expose()),
                ("token_type_hint", kind),
                ("client_id", record.client_id.as_str()),
            ];
            let mut basic = None;
            if let Some(secret) = &record.client_secret {
                match found.takes_secret_in_form() {
                    true => form.push(("client_secret", secret.expose())),
                    false => {
                        let encode = |text: &str| -> String {
                            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
                        };
                        let pair = format!("{}:{}", encode(&record.client_id), encode(secret.expose()));
                        basic = Some(format!("Basic {}", BASE64_STANDARD.encode(pair)));
                    }
                }
            }
            let answer = found.gate.post(endpoint, &form, basic.as_deref()).await?;
            if !answer.status().is_success() {
                let secret = record.client_secret.as_ref().map_or("", |secret| secret.expose());
                return Err(AuthError::Refused(super::egress::said(&answer, &[token.expose(), secret])));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "revocation/tests.rs"]
mod tests;
