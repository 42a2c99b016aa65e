//! Where to log in: the server's word, its resource metadata, the metadata of its authorization server.

use super::Account;
use super::egress::{Gate, PATIENCE};
use super::error::AuthError;
use super::secret::cleaned;
use crate::config::OAuthFlow;
use crate::transport::remote::tls;
use oauth2::http::Request;
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource};
use std::sync::Arc;

/// Ready for requests to the authorization server.
pub(super) struct Found {
    pub(super) manager: AuthorizationManager,
    pub(super) gate: Arc<Gate>,
    pub(super) metadata: AuthorizationMetadata,
}

impl Found {
    pub(super) fn issuer(&self) -> Option<String> {
        self.metadata.issuer.clone()
    }

    pub(super) fn says(&self, flag: &str) -> bool {
        self.metadata.additional_fields.get(flag).and_then(|value| value.as_bool()).unwrap_or_default()
    }

    pub(super) fn address(&self, name: &str) -> Option<&str> {
        self.metadata.additional_fields.get(name).and_then(|value| value.as_str())
    }

    /// As rmcp chooses: only where a server takes it in no better way.
    pub(super) fn takes_secret_in_form(&self) -> bool {
        let methods = self.metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let has =
            |wanted: &str| methods.and_then(|m| m.as_array()).is_some_and(|m| m.iter().any(|m| m == wanted));
        has("client_secret_post") && !has("client_secret_basic")
    }

    /// What rmcp failed at.
    pub(super) fn trouble(&self, error: &rmcp::transport::auth::AuthError, secrets: &[&str]) -> AuthError {
        AuthError::of(error, &self.gate, secrets)
    }
}

/// What a server answers to who has no token.
pub(super) enum Answer {
    /// That it wants one: its `WWW-Authenticate`.
    Challenge(Option<String>),
    /// Anything else.
    Open,
}

impl Account {
    pub(super) async fn gate(&self) -> Result<Arc<Gate>, AuthError> {
        let tls = tls::client_config(self.ca_file.as_deref(), PATIENCE).await;
        let tls = tls.map_err(|fault| AuthError::Refused(fault.to_string()))?;
        Gate::new(&self.url, self.oauth.allow_private_addresses, tls)
    }

    /// Asks the server for what it answers with 401, if it does. A ping leaves no session behind.
    pub(super) async fn knock(&self) -> Result<Answer, AuthError> {
        let gate = self.gate().await?;
        let mut request = Request::post(self.url.as_str())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
        let request = request.body(body).map_err(|error| AuthError::Refused(error.to_string()))?;
        let answer = gate.send(request).await?;
        if answer.status() != 401 {
            return Ok(Answer::Open);
        }
        let challenges = answer.headers().get_all("www-authenticate");
        let bearer = challenges.iter().filter_map(|value| value.to_str().ok());
        let bearer = bearer.max_by_key(|value| value.contains("resource_metadata"));
        Ok(Answer::Challenge(bearer.map(str::to_owned)))
    }

    /// Finds the authorization server and looks at what it says of itself.
    pub(super) async fn discover(&self, challenge: Option<&str>) -> Result<Found, AuthError> {
        let gate = self.gate().await?;
        let manager = AuthorizationManager::new_with_oauth_http_client(self.url.as_str(), gate.clone()).await;
        let mut manager = manager.map_err(|error| AuthError::of(&error, &gate, &[]))?;
        let found = manager.resolve_metadata_from_challenge(challenge).await;
        let found = found.map_err(|error| AuthError::of(&error, &gate, &[]))?;
        let metadata = found.metadata;
        check(&metadata, &gate)?;
        if self.oauth.flow == OAuthFlow::Browser
            && found.source != AuthorizationMetadataSource::LegacyEndpointFallback
        {
            self.check_pkce(&metadata)?;
        }
        manager.set_metadata(metadata.clone());
        Ok(Found { manager, gate, metadata })
    }

    /// A server that does not say so may not check it, and then a stolen code is enough. Servers of 2025-03-26 without
    /// metadata cannot say anything; of them the specification asked for PKCE already.
    fn check_pkce(&self, metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
        match &metadata.code_challenge_methods_supported {
            Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
            Some(_) => {
                Err(AuthError::Refused("its authorization server does not know PKCE with S256".to_owned()))
            }
            None if !self.oauth.require_pkce => Ok(()),
            None => Err(AuthError::Refused(
                "its authorization server does not say that it knows PKCE; \
                 if it is known to, set `oauth.require_pkce` to false"
                    .to_owned(),
            )),
        }
    }
}

/// All addresses before the first is used, so that a login does not stop halfway.
fn check(metadata: &AuthorizationMetadata, gate: &Gate) -> Result<(), AuthError> {
    let registration = metadata.registration_endpoint.as_ref();
    for written in
        [&metadata.authorization_endpoint, &metadata.token_endpoint].into_iter().chain(registration)
    {
        address(written, gate)?;
    }
    Ok(())
}

/// An address out of metadata, as it was understood: what is opened is not what was written.
pub(super) fn address(written: &str, gate: &Gate) -> Result<Url, AuthError> {
    let url: Option<Url> = written.parse().ok().filter(|_| !written.contains(char::is_control));
    let url = url.ok_or_else(|| {
        AuthError::Refused(format!("the login leads to {:?}, which is no address", cleaned(written, &[])))
    })?;
    gate.check(&url)?;
    Ok(url)
}
