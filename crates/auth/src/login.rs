//! Logs in with a browser: the authorization code flow (RFC 6749 section 4.1) with PKCE.

use super::account::Account;
use super::callback::{CallbackRequest, CallbackServer};
use super::discovery::{AuthorizationServer, ProbeOutcome, parse_endpoint};
use super::error::AuthError;
use super::secret::{Secret, quote_sanitized};
use super::token_store::StoredLogin;
use reqwest::Url;
use rmcp::transport::auth::OAuthClientConfig;
use std::sync::Arc;

/// The name of registered clients, which authorization servers show to the user.
const CLIENT_NAME: &str = "dynamic-mcp";

/// A login that waits for the browser.
pub struct BrowserLogin {
    /// The account that gets the tokens.
    account: Arc<Account>,
    server: AuthorizationServer,
    /// This program as the authorization server knows it.
    client: OAuthClientConfig,
    /// The scopes that are requested.
    scopes: Vec<String>,
    /// What the user opens in the browser.
    url: Url,
    /// Ties the browser's return to this login (RFC 6749 section 10.12).
    state: Secret,
    /// Where the browser returns to.
    callback: CallbackServer,
}

/// The browser has returned with the answer of the authorization server (RFC 6749 section 4.1.2).
pub struct AuthorizationResponse {
    login: BrowserLogin,
    request: CallbackRequest,
}

/// How a login begins.
pub enum LoginStart {
    /// The server answers without a login, and names no authorization server.
    NotNeeded,
    /// The user has to open the URL of the login.
    Waiting(Box<BrowserLogin>),
}

impl Account {
    /// Finds the authorization server, registers a client there if necessary, and listens for the browser. Does not
    /// open it: the caller shows the URL. Waits up to a minute for the user to unlock the keyring, if prompts are
    /// allowed.
    ///
    /// # Errors
    ///
    /// `Unreachable` if a server cannot be reached; `KeyNeeded` or `ClientNeeded` if no login can succeed; `Store` if a
    /// login could not be stored; `Refused` if the metadata cannot be used, the authorization server is another one than
    /// that of the config's client, or the port of the callback is taken.
    pub async fn start_login(self: &Arc<Self>) -> Result<LoginStart, AuthError> {
        let (is_open, challenge) = match self.probe().await? {
            ProbeOutcome::Challenge(challenge) => (false, challenge),
            // It may require a login for some of its tools.
            ProbeOutcome::NoChallenge => (true, None),
        };
        let mut server = match self.discover(challenge.as_deref()).await {
            Ok(server) if is_open && server.issuer().is_none() => return Ok(LoginStart::NotNeeded),
            server => server?,
        };
        self.check_has_logins(&server).await?;
        // Before a client is registered and the user is asked: both would be in vain.
        self.login.store.check_writable().await?;
        let callback = CallbackServer::listen(self.oauth.redirect_port).await?;
        self.login.unlock_keyring().await;
        let previous = match self.login.peek().await {
            // The login that begins here replaces the one that cannot be read.
            Err(AuthError::Keyring(..)) => None,
            previous => previous?,
        };
        self.check_client(&server, previous.as_ref())?;
        let missing_scopes = previous.map(|login| login.missing_scopes).unwrap_or_default();
        let scopes = self.scopes_to_request(&server, &missing_scopes).await;
        let client = self.configure_client(&mut server, &callback.redirect_uri(), &scopes).await?;
        let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = server.manager.get_authorization_url(&names).await;
        let url = parse_endpoint(&url.map_err(|error| server.egress.explain(&error, &[]))?, &server.egress)?;
        let state = url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
        let state = Secret::new(state.unwrap_or_default());
        let account = self.clone();
        let login = BrowserLogin { account, server, client, scopes, url, state, callback };
        Ok(LoginStart::Waiting(Box::new(login)))
    }

    /// Stores why no client was registered, so that other processes and later requests do not ask for a login.
    async fn remember_unregistered(&self, words: &str) {
        let Ok(lock) = self.login.lock().await else { return };
        let Ok(previous) = lock.read().await else { return };
        let login = previous.clone().unwrap_or_else(|| StoredLogin::new(self.url.as_str()));
        lock.save(&StoredLogin { unregistered: Some(words.to_owned()), ..login }, previous).await;
    }

    /// Identifies this program to the authorization server: as the config's client, by a client ID metadata document,
    /// or by registration (RFC 7591), in the order that the MCP specification gives.
    ///
    /// # Errors
    ///
    /// `ClientNeeded` if the config names no client and the server registers none. `Unreachable` or `Refused` if rmcp
    /// fails.
    async fn configure_client(
        &self,
        server: &mut AuthorizationServer,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, AuthError> {
        let oauth = &self.oauth;
        let client = if let Some(id) = &oauth.client_id {
            let client = OAuthClientConfig::new(id, redirect_uri);
            match &oauth.client_secret {
                Some(secret) => client.with_client_secret(secret),
                None => client,
            }
        } else if let Some(document) = &oauth.client_metadata_url
            && server.supports("client_id_metadata_document_supported")
        {
            OAuthClientConfig::new(document, redirect_uri)
        } else if server.metadata.registration_endpoint.is_some() {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let client = server.manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await;
            match client.map_err(|error| server.egress.explain(&error, &[])) {
                Err(AuthError::Refused(words)) => {
                    self.remember_unregistered(&words).await;
                    return Err(self.client_needed(Some(&words)));
                }
                client => client?,
            }
        } else {
            return Err(self.client_needed(None));
        };
        let configured = server.manager.configure_client(client.clone());
        configured.map_err(|error| server.egress.explain(&error, &[]))?;
        Ok(client)
    }
}

impl BrowserLogin {
    /// Returns the URL to open in a browser on this machine.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Waits for the browser to return, without a limit.
    pub async fn wait_for_browser(mut self) -> AuthorizationResponse {
        let request = self.callback.accept(&self.state).await;
        AuthorizationResponse { login: self, request }
    }

    /// Waits for the browser to return, without a limit, gets the tokens and stores them. Returns the granted scopes.
    ///
    /// # Errors
    ///
    /// As for [`AuthorizationResponse::redeem`].
    pub async fn finish(self) -> Result<Vec<String>, AuthError> {
        self.wait_for_browser().await.redeem().await
    }

    async fn redeem(&self, request: &CallbackRequest) -> Result<Vec<String>, AuthError> {
        // Checked first (RFC 9207): nothing from another authorization server may be used or shown.
        let issuer = request.parameter("iss");
        let expected = self.server.issuer();
        let is_from_other_server = match &issuer {
            Some(_) => issuer != expected,
            None => self.server.supports("authorization_response_iss_parameter_supported"),
        };
        if is_from_other_server {
            return Err(AuthError::refused("the browser returned from another authorization server"));
        }
        if let Some(error) = request.parameter("error") {
            let description = request.parameter("error_description");
            let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
            let reason = quote_sanitized(&format!("{error}{description}"), &[]);
            let message = format!("the authorization server refused the login: {reason}");
            return Err(AuthError::Refused(message));
        }
        let code = request.parameter("code").unwrap_or_default();
        let manager = &self.server.manager;
        let response =
            manager.exchange_code_for_token_with_issuer(&code, self.state.expose(), issuer.as_deref()).await;
        let secret = self.client.client_secret.clone().unwrap_or_default();
        let response = response.map_err(|error| self.server.egress.explain(&error, &[&code, &secret]))?;
        let login = StoredLogin {
            issuer: expected,
            client_id: self.client.client_id.clone(),
            client_secret: self.client.client_secret.clone().map(Secret::new),
            requested_scopes: self.scopes.clone(),
            ..StoredLogin::new(self.account.url.as_str())
        };
        let login = login.with_tokens(&response)?;
        // The keyring may have been locked again while the user was in the browser.
        self.account.login.unlock_keyring().await;
        self.account.login.lock().await?.write(&login).await?;
        Ok(login.granted_scopes)
    }
}

impl AuthorizationResponse {
    /// Exchanges the authorization code for tokens and stores them. Then shows in the browser whether the login
    /// succeeded. Returns the granted scopes. Like a refresh, this runs in a task of its own, because the caller may be
    /// cancelled.
    ///
    /// # Errors
    ///
    /// `Refused` if the authorization server refused the login, or its answer cannot be used; `Unreachable` if the
    /// request for tokens failed or the process is shutting down; `Busy` or `Store` if the login cannot be stored.
    pub async fn redeem(self) -> Result<Vec<String>, AuthError> {
        let Self { login, request } = self;
        let task = tokio::spawn(async move {
            let guard = login.account.login.store.shutdown.guard();
            let outcome = match guard {
                Some(_) => login.redeem(&request).await,
                None => Err(AuthError::Unreachable("dynamic-mcp is shutting down".to_owned())),
            };
            request.answer(outcome.is_ok()).await;
            drop(guard);
            outcome
        });
        task.await.unwrap_or_else(|_| Err(AuthError::Unreachable("the login was aborted".to_owned())))
    }
}
