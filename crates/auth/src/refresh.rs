//! Gets tokens without the user: by refresh token (RFC 6749 section 6), or by client credentials (section 4.4).

use super::account::Account;
use super::assertion::sign_assertion;
use super::discovery::AuthorizationServer;
use super::egress::describe_error_response;
use super::error::AuthError;
use super::secret::Secret;
use super::token_store::{LoginLock, StoredLogin};
use oauth2::basic::BasicTokenType;
use oauth2::{AccessToken, RefreshToken};
use rmcp::transport::auth::AuthError as RmcpError;
use rmcp::transport::auth::{
    ClientCredentialsConfig, CredentialStore, InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse,
    StoredCredentials, VendorExtraTokenFields,
};
use std::sync::Arc;

impl Account {
    /// Returns the access token for the next request, if there is one. A token that is about to expire is refreshed
    /// first. If the refresh fails for now, the old token is returned until it expires.
    ///
    /// # Errors
    ///
    /// `LoginNeeded` if there was a login and it has ended; `Refused` if a refresh is refused or would be unsafe. Other
    /// errors mean that the login cannot be used at the moment.
    pub async fn access_token(self: &Arc<Self>) -> Result<Option<Secret>, AuthError> {
        let login = self.login.cached().await?;
        if let Some(token) = login.as_ref().and_then(StoredLogin::fresh_token) {
            return Ok(Some(token.clone()));
        }
        let has_refresh_token = login.as_ref().is_some_and(|login| login.refresh_token.is_some());
        if !self.uses_client_credentials() && !has_refresh_token {
            // The server decides whether it accepts an old token, or no token.
            return Ok(login.and_then(|login| login.access_token));
        }
        match self.refresh(None).await {
            Ok(login) => Ok(login.access_token),
            Err(
                error @ (AuthError::Unreachable(_)
                | AuthError::Busy(_)
                | AuthError::Keyring(..)
                | AuthError::Store(_)),
            ) => {
                let token = login.as_ref().and_then(StoredLogin::valid_token);
                token.cloned().map(Some).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Gets a login whose access token is not `rejected` and does not expire soon.
    ///
    /// This runs in a task of its own, because the caller may be cancelled: the answer to a request that was sent has
    /// the only refresh token that still works. The task ends, because its requests have timeouts, and the process
    /// delays its exit for it.
    ///
    /// # Errors
    ///
    /// `LoginNeeded` if there is no refresh token or it is refused; `Busy` if another process holds the lock for longer
    /// than a refresh takes; `Store` or `Keyring` if the login cannot be read; `Unreachable` if a server cannot be
    /// reached or the process is shutting down; `Refused` if a server asks for something unsafe, or refuses the
    /// client's own credentials. Tokens that cannot be stored are no error.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        rejected: Option<Secret>,
    ) -> Result<StoredLogin, AuthError> {
        let account = self.clone();
        let task = tokio::spawn(async move { account.refresh_locked(rejected).await });
        task.await.unwrap_or_else(|_| Err(AuthError::Unreachable("the refresh was aborted".to_owned())))
    }

    /// Refreshes the login under its lock: one process of the user does so, and the others find the result.
    ///
    /// # Errors
    ///
    /// As for [`refresh`](Self::refresh).
    async fn refresh_locked(&self, rejected: Option<Secret>) -> Result<StoredLogin, AuthError> {
        let lock = self.login.lock().await?;
        let login = lock.read().await?;
        if let Some(login) = &login
            && let Some(token) = login.fresh_token()
            && rejected.as_ref() != Some(token)
        {
            return Ok(login.clone());
        }
        let previous = login.clone();
        let with_refresh_token =
            login.as_ref().and_then(|login| Some((login.clone(), login.refresh_token.clone()?)));
        if with_refresh_token.is_none() && !self.uses_client_credentials() {
            return Err(self.login_needed("the login has expired"));
        }
        let server = self.discover(None).await?;
        self.check_client(&server, login.as_ref())?;
        let shutting_down = || AuthError::Unreachable("dynamic-mcp is shutting down".to_owned());
        let _guard = self.login.store.shutdown.guard().ok_or_else(shutting_down)?;
        let refreshed = match with_refresh_token.filter(|_| !self.uses_client_credentials()) {
            Some((login, token)) => self.use_refresh_token(&lock, server, login, &token).await?,
            None => self.use_client_credentials(server, login).await?,
        };
        lock.save(&refreshed, previous).await;
        Ok(refreshed)
    }

    async fn use_refresh_token(
        &self,
        lock: &LoginLock,
        mut server: AuthorizationServer,
        login: StoredLogin,
        refresh_token: &Secret,
    ) -> Result<StoredLogin, AuthError> {
        if let Some(change) = server.change_since(&login) {
            return Err(self.login_needed(&change));
        }
        let error = match self.exchange_refresh_token(&mut server, &login, refresh_token).await {
            Ok(response) => return login.with_tokens(&response),
            Err(error) => error,
        };
        if let Some(error) = server.egress.take_last_error() {
            return Err(error);
        }
        let secrets: Vec<&str> =
            [Some(refresh_token), login.access_token.as_ref(), login.client_secret.as_ref()]
                .into_iter()
                .flatten()
                .map(Secret::expose)
                .collect();
        let reason = server.egress.explain(&error, &secrets).to_string();
        tracing::debug!(group = %self.group, "the authorization server did not refresh the tokens: {reason}");
        let needed = self.login_ended(Some(&reason));
        if matches!(error, RmcpError::TokenRefreshRejected(_)) {
            lock.save(&login.clone().without_tokens(reason), Some(login)).await;
        }
        Err(needed)
    }

    async fn exchange_refresh_token(
        &self,
        server: &mut AuthorizationServer,
        login: &StoredLogin,
        refresh_token: &Secret,
    ) -> Result<OAuthTokenResponse, RmcpError> {
        let mut client = OAuthClientConfig::new(&login.client_id, "http://127.0.0.1/callback");
        if let Some(secret) = &login.client_secret {
            client = client.with_client_secret(secret.expose());
        }
        server.manager.configure_client(client)?;
        let access_token = login.access_token.as_ref().map_or("", Secret::expose);
        let mut tokens = OAuthTokenResponse::new(
            AccessToken::new(access_token.to_owned()),
            BasicTokenType::Bearer,
            VendorExtraTokenFields::default(),
        );
        tokens.set_refresh_token(Some(RefreshToken::new(refresh_token.expose().to_owned())));
        let credentials = StoredCredentials::new(
            login.client_id.clone(),
            Some(tokens),
            login.granted_scopes.clone(),
            Some(login.received_at),
        );
        let store = InMemoryCredentialStore::new();
        store.save(credentials.with_issuer(login.issuer.clone())).await?;
        server.manager.set_credential_store(store);
        server.manager.refresh_token().await
    }

    /// Gets tokens with the client's own secret or key. Does not store them.
    ///
    /// # Errors
    ///
    /// `Refused` if the client is refused, or the response cannot be used; `Unreachable` if the request fails.
    async fn use_client_credentials(
        &self,
        mut server: AuthorizationServer,
        login: Option<StoredLogin>,
    ) -> Result<StoredLogin, AuthError> {
        let client_id = self.oauth.client_id.clone().unwrap_or_default();
        let missing_scopes = login.map(|login| login.missing_scopes).unwrap_or_default();
        let scopes = self.scopes_to_request(&server, &missing_scopes).await;
        let response = match &self.oauth.private_key {
            Some(key) => self.authenticate_with_key(&server, &client_id, key, &scopes).await?,
            None => self.authenticate_with_secret(&mut server, &client_id, &scopes).await?,
        };
        let login = StoredLogin {
            issuer: server.issuer(),
            client_id,
            requested_scopes: scopes,
            missing_scopes,
            ..StoredLogin::new(self.url.as_str())
        };
        login.with_tokens(&response)
    }

    async fn authenticate_with_secret(
        &self,
        server: &mut AuthorizationServer,
        client_id: &str,
        scopes: &[String],
    ) -> Result<OAuthTokenResponse, AuthError> {
        let secret = self.oauth.client_secret.clone().unwrap_or_default();
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.to_owned(),
            client_secret: secret.clone(),
            scopes: scopes.to_vec(),
            resource: Some(self.url.to_string()),
        };
        let exchanged = async {
            server.manager.validate_client_credentials_metadata(&config)?;
            server.manager.configure_client_credentials(&config)?;
            server.manager.exchange_client_credentials(&config).await
        };
        exchanged.await.map_err(|error| server.egress.explain(&error, &[&secret]))
    }

    /// Sends a client assertion (RFC 7523 section 2.2). rmcp can do that too, but with a second cryptography library.
    ///
    /// # Errors
    ///
    /// `Refused` if `key` cannot sign, the client is rejected or the response is invalid; `Unreachable` if the request
    /// fails.
    async fn authenticate_with_key(
        &self,
        server: &AuthorizationServer,
        client_id: &str,
        key: &str,
        scopes: &[String],
    ) -> Result<OAuthTokenResponse, AuthError> {
        let audience = server.issuer().unwrap_or_else(|| server.metadata.token_endpoint.clone());
        let assertion = sign_assertion(key, client_id, &audience)?;
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
            ("scope", &scopes.join(" ")),
            ("resource", self.url.as_str()),
        ];
        let form: Vec<_> = form.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let response = server.egress.post_form(&server.metadata.token_endpoint, &form, None).await?;
        if !response.status().is_success() {
            return Err(AuthError::Refused(format!(
                "its authorization server rejected the client: {}",
                describe_error_response(&response, &[&assertion])
            )));
        }
        serde_json::from_slice(response.body())
            .map_err(|_| AuthError::refused("its authorization server sent an invalid token response"))
    }
}
