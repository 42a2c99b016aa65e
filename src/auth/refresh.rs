//! New tokens without a person: by refresh token, or by the client's own credentials.

use super::discovery::Found;
use super::error::AuthError;
use super::secret::Secret;
use super::token_store::{Record, now};
use super::{Account, assertion};
use crate::config::OAuthFlow;
use oauth2::basic::BasicTokenType;
use oauth2::{AccessToken, RefreshToken, TokenResponse};
use rmcp::transport::auth::AuthError as RmcpError;
use rmcp::transport::auth::{
    ClientCredentialsConfig, CredentialStore, InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse,
    StoredCredentials, VendorExtraTokenFields,
};
use std::sync::Arc;

/// Another record than the one whose token is `refused`, or than one that expires soon. A task of its own: whoever
/// waits may go away, and the answer to a request that was sent must not get lost, for it has the only refresh token
/// that still works. Its requests have their deadlines, so it ends; the process waits for it as long as it can.
pub(super) async fn renew(account: &Arc<Account>, refused: Option<Secret>) -> Result<Record, AuthError> {
    let account = account.clone();
    let renewing = tokio::spawn(async move { account.renew_alone(refused).await });
    renewing.await.unwrap_or_else(|_| Err(AuthError::Unreachable("the renewal was given up".to_owned())))
}

impl Account {
    /// Of all instances of this user one renews; the others find what it got.
    async fn renew_alone(&self, refused: Option<Secret>) -> Result<Record, AuthError> {
        let _lock = self.vault.lock(&self.key).await?;
        let record = self.read().await?;
        if let Some(record) = &record
            && let Some(token) = record.fresh_token()
            && refused.as_ref() != Some(token)
        {
            return Ok(record.clone());
        }
        let before = record.clone();
        let refreshed =
            record.as_ref().and_then(|record| Some((record.clone(), record.refresh_token.clone()?)));
        if refreshed.is_none() && self.oauth.flow == OAuthFlow::Browser {
            return Err(self.login_needed("the login has expired"));
        }
        let found = self.discover(None).await?;
        let over = || AuthError::Unreachable("dynamic-mcp ends".to_owned());
        let _errand = self.vault.errands.begin().ok_or_else(over)?;
        let renewed = match refreshed.filter(|_| self.oauth.flow == OAuthFlow::Browser) {
            Some((record, token)) => self.refresh(found, record, &token).await?,
            None => self.ask_as_client(found, record).await?,
        };
        self.save(&renewed, before).await;
        Ok(renewed)
    }

    async fn refresh(
        &self,
        mut found: Found,
        record: Record,
        refresh_token: &Secret,
    ) -> Result<Record, AuthError> {
        if found.issuer() != record.issuer {
            return Err(self.login_needed("its authorization server is another than at the last login"));
        }
        match self.exchange(&mut found, &record, refresh_token).await {
            Ok(response) => renewed(record, &response),
            Err(error) => {
                let secrets = [refresh_token.expose()];
                match found.gate.take_trouble() {
                    Some(trouble) => Err(trouble),
                    None => {
                        tracing::debug!(group = %self.name, "a refresh was refused: {}", found.trouble(&error, &secrets));
                        if matches!(error, RmcpError::TokenRefreshRejected(_)) {
                            self.save(&record.clone().without_tokens(), Some(record)).await;
                        }
                        Err(self.login_needed("the login is over"))
                    }
                }
            }
        }
    }

    async fn exchange(
        &self,
        found: &mut Found,
        record: &Record,
        refresh_token: &Secret,
    ) -> Result<OAuthTokenResponse, RmcpError> {
        let mut client = OAuthClientConfig::new(&record.client_id, "http://127.0.0.1/callback");
        if let Some(secret) = &record.client_secret {
            client = client.with_client_secret(secret.expose());
        }
        found.manager.configure_client(client)?;
        let access = record.access_token.as_ref().map_or("", Secret::expose);
        let mut tokens = OAuthTokenResponse::new(
            AccessToken::new(access.to_owned()),
            BasicTokenType::Bearer,
            VendorExtraTokenFields::default(),
        );
        tokens.set_refresh_token(Some(RefreshToken::new(refresh_token.expose().to_owned())));
        let stored = StoredCredentials::new(
            record.client_id.clone(),
            Some(tokens),
            record.granted.clone(),
            Some(record.received_at),
        );
        let store = InMemoryCredentialStore::new();
        store.save(stored.with_issuer(record.issuer.clone())).await?;
        found.manager.set_credential_store(store);
        found.manager.refresh_token().await
    }

    /// By the client's own secret or key.
    async fn ask_as_client(&self, mut found: Found, record: Option<Record>) -> Result<Record, AuthError> {
        let client_id = self.oauth.client_id.clone().unwrap_or_default();
        let wanted = record.map(|record| record.wanted).unwrap_or_default();
        let scopes = self.scopes(&found, wanted.clone()).await;
        let secret = self.oauth.client_secret.clone().unwrap_or_default();
        let response = match &self.oauth.private_key {
            Some(key) => self.ask_with_key(&found, &client_id, key, &scopes).await?,
            None => {
                let config = ClientCredentialsConfig::ClientSecret {
                    client_id: client_id.clone(),
                    client_secret: secret.clone(),
                    scopes: scopes.clone(),
                    resource: Some(self.url.to_string()),
                };
                let refused = |found: &Found, error: RmcpError| found.trouble(&error, &[&secret]);
                found
                    .manager
                    .validate_client_credentials_metadata(&config)
                    .map_err(|e| refused(&found, e))?;
                found.manager.configure_client_credentials(&config).map_err(|e| refused(&found, e))?;
                let response = found.manager.exchange_client_credentials(&config).await;
                response.map_err(|e| refused(&found, e))?
            }
        };
        let record = Record {
            issuer: found.issuer(),
            client_id,
            asked: scopes,
            wanted,
            ..Record::new(self.url.as_str())
        };
        renewed(record, &response)
    }

    /// RFC 7523. rmcp can do it as well, with a second library for cryptography.
    async fn ask_with_key(
        &self,
        found: &Found,
        client_id: &str,
        key: &str,
        scopes: &[String],
    ) -> Result<OAuthTokenResponse, AuthError> {
        let audience = found.issuer().unwrap_or_else(|| found.metadata.token_endpoint.clone());
        let assertion = assertion::signed(key, client_id, &audience)?;
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
            ("scope", &scopes.join(" ")),
            ("resource", self.url.as_str()),
        ];
        let form: Vec<_> = form.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let answer = found.gate.post(&found.metadata.token_endpoint, &form, None).await?;
        if !answer.status().is_success() {
            return Err(AuthError::Refused(format!(
                "its authorization server refused the client: {}",
                super::egress::said(&answer, &[&assertion])
            )));
        }
        serde_json::from_slice(answer.body()).map_err(|_| {
            AuthError::Refused("its authorization server answered with something that is no token".to_owned())
        })
    }
}

/// The record with the tokens of an answer. What the answer leaves out stays as it was.
pub(super) fn renewed(record: Record, response: &OAuthTokenResponse) -> Result<Record, AuthError> {
    if response.token_type() != &BasicTokenType::Bearer {
        return Err(AuthError::Refused("its authorization server gives no bearer tokens".to_owned()));
    }
    let granted = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect());
    let expires_at = response.expires_in().map(|period| now() + period.as_secs());
    let refresh_token = response.refresh_token().map(|token| Secret::new(token.secret().clone()));
    // Without a word of it, it is what was asked for.
    let known = if record.granted.is_empty() { record.asked.clone() } else { record.granted };
    Ok(Record {
        access_token: Some(Secret::new(response.access_token().secret().clone())),
        refresh_token: refresh_token.or(record.refresh_token),
        received_at: now(),
        expires_at,
        granted: granted.unwrap_or(known),
        ..record
    })
}
