//! A person logs in, in a browser.

use super::Account;
use super::callback::{Callback, Came};
use super::challenge::union;
use super::discovery::{Answer, Found, address};
use super::error::AuthError;
use super::refresh::renewed;
use super::secret::{Secret, cleaned};
use super::token_store::Record;
use reqwest::Url;
use rmcp::transport::auth::OAuthClientConfig;
use std::sync::Arc;

/// What registered clients are called where the user is asked.
const NAME: &str = "dynamic-mcp";

/// Waits for the browser to come back.
pub struct Login {
    account: Arc<Account>,
    found: Found,
    client: OAuthClientConfig,
    scopes: Vec<String>,
    url: Url,
    state: Secret,
    callback: Callback,
}

/// The browser came back.
pub struct Returned {
    login: Login,
    came: Came,
}

pub enum LoginStart {
    /// The server answers without one, and says nothing of where to get one.
    NotNeeded,
    /// The URL is to be opened.
    Waiting(Box<Login>),
}

impl Account {
    /// Finds out where to log in, registers us there and listens for the browser's return.
    pub async fn begin(self: &Arc<Self>) -> Result<LoginStart, AuthError> {
        let (open, challenge) = match self.knock().await? {
            Answer::Challenge(challenge) => (false, challenge),
            // It may want a login for some of its tools only.
            Answer::Open => (true, None),
        };
        let mut found = match self.discover(challenge.as_deref()).await {
            Ok(found) if open && found.issuer().is_none() => return Ok(LoginStart::NotNeeded),
            found => found?,
        };
        // Before anything is asked of anybody: what cannot be kept, or a port that is taken, is the end of it.
        self.vault.try_out().await?;
        let callback = Callback::listen(self.oauth.redirect_port).await?;
        self.vault.unlock(&self.key).await;
        let before = match self.read().await {
            // The way out of that is a login.
            Err(AuthError::Keyring(..)) => None,
            before => before?,
        };
        let scopes = self.scopes(&found, before.map(|record| record.wanted).unwrap_or_default()).await;
        let client = self.client(&mut found, &callback.address(), &scopes).await?;
        let named: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = found.manager.get_authorization_url(&named).await;
        let url = address(&url.map_err(|error| found.trouble(&error, &[]))?, &found.gate)?;
        let state = url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
        let state = Secret::new(state.unwrap_or_default());
        let account = self.clone();
        Ok(LoginStart::Waiting(Box::new(Login { account, found, client, scopes, url, state, callback })))
    }

    /// The config's word, else the server's; and whatever it has missed since the last login.
    pub(super) async fn scopes(&self, found: &Found, wanted: Vec<String>) -> Vec<String> {
        let chosen = match self.oauth.scopes.is_empty() {
            true => found.manager.select_initial_scopes(&[]).await,
            false => self.oauth.scopes.clone(),
        };
        let mut scopes = union([&chosen, &wanted]);
        // Without it, some servers give no refresh token.
        const OFFLINE: &str = "offline_access";
        let offered = found.metadata.scopes_supported.iter().flatten().any(|scope| scope == OFFLINE);
        let alone = self.oauth.flow == crate::config::OAuthFlow::ClientCredentials;
        if offered && !alone && !scopes.is_empty() && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        scopes
    }

    /// Who we are to the authorization server: as the config says, by a published document, or registered now.
    async fn client(
        &self,
        found: &mut Found,
        redirect: &str,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, AuthError> {
        let oauth = &self.oauth;
        let client = if let Some(id) = &oauth.client_id {
            let client = OAuthClientConfig::new(id, redirect);
            match &oauth.client_secret {
                Some(secret) => client.with_client_secret(secret),
                None => client,
            }
        } else if let Some(document) = &oauth.client_metadata_url
            && found.says("client_id_metadata_document_supported")
        {
            OAuthClientConfig::new(document, redirect)
        } else if found.metadata.registration_endpoint.is_some() {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let client = found.manager.register_client(NAME, redirect, &scopes).await;
            client.map_err(|error| found.trouble(&error, &[]))?
        } else {
            return Err(AuthError::Refused(
                "its authorization server registers no clients by itself: \
                 register one there and set `oauth.client_id` (and `oauth.redirect_port`)"
                    .to_owned(),
            ));
        };
        found.manager.configure_client(client.clone()).map_err(|error| found.trouble(&error, &[]))?;
        Ok(client)
    }
}

impl Login {
    /// To be opened in a browser on this machine.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Waits for the browser.
    pub async fn returned(mut self) -> Returned {
        let came = self.callback.came(&self.state).await;
        Returned { login: self, came }
    }

    /// Waits for the browser, gets the tokens and keeps them. Returns what was granted.
    pub async fn finish(self) -> Result<Vec<String>, AuthError> {
        self.returned().await.redeem().await
    }

    async fn redeem(&self, came: &Came) -> Result<Vec<String>, AuthError> {
        let issuer = came.parameter("iss");
        let expected = self.found.issuer();
        let mixed_up = match (&issuer, &expected) {
            (Some(issuer), expected) => Some(issuer) != expected.as_ref(),
            (None, _) => self.found.says("authorization_response_iss_parameter_supported"),
        };
        if mixed_up {
            // Not a word of what it says: it is not from who we asked.
            return Err(AuthError::Refused(
                "the browser came back from another authorization server".to_owned(),
            ));
        }
        if let Some(error) = came.parameter("error") {
            let more =
                came.parameter("error_description").map(|more| format!(" ({more})")).unwrap_or_default();
            return Err(AuthError::Refused(cleaned(&format!("the login was refused: {error}{more}"), &[])));
        }
        let code = came.parameter("code").unwrap_or_default();
        let manager = &self.found.manager;
        let response =
            manager.exchange_code_for_token_with_issuer(&code, self.state.expose(), issuer.as_deref()).await;
        let secret = self.client.client_secret.clone().unwrap_or_default();
        let response = response.map_err(|error| self.found.trouble(&error, &[&code, &secret]))?;
        let record = Record {
            issuer: expected,
            client_id: self.client.client_id.clone(),
            client_secret: self.client.client_secret.clone().map(Secret::new),
            asked: self.scopes.clone(),
            ..Record::new(self.account.url.as_str())
        };
        let record = renewed(record, &response)?;
        // It may have been locked again while the person was in the browser.
        self.account.vault.unlock(&self.account.key).await;
        let _lock = self.account.vault.lock(&self.account.key).await?;
        self.account.write(&record).await?;
        Ok(record.granted)
    }
}

impl Returned {
    /// Gets the tokens and keeps them. Returns what was granted. A task of its own, as a renewal: who waits for it may
    /// go away.
    pub async fn redeem(self) -> Result<Vec<String>, AuthError> {
        let Self { login, came } = self;
        let redeeming = tokio::spawn(async move {
            let errand = login.account.vault.errands.begin();
            let outcome = match errand {
                Some(_) => login.redeem(&came).await,
                None => Err(AuthError::Unreachable("dynamic-mcp ends".to_owned())),
            };
            came.answer(outcome.is_ok()).await;
            drop(errand);
            outcome
        });
        redeeming.await.unwrap_or_else(|_| Err(AuthError::Unreachable("the login was given up".to_owned())))
    }
}
