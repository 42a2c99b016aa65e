//! Finds the authorization server of a server: from its challenge, its protected resource metadata (RFC 9728) and the
//! metadata of the authorization server (RFC 8414, OpenID Connect Discovery).

use super::account::Account;
use super::egress::{Egress, REQUEST_TIMEOUT};
use super::error::AuthError;
use super::metadata_walk::without_slash;
use super::secret::quote_sanitized;
use super::token_store::StoredLogin;
use http_client::tls;
use oauth2::http::Request;
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{AuthError as RmcpError, ProtectedResourceMetadataInvalidReason};
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution, AuthorizationMetadataSource,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a refused request waits to learn whether a login is possible.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// An authorization server whose metadata has been read and checked.
pub(super) struct AuthorizationServer {
    /// rmcp's client for it.
    pub(super) manager: AuthorizationManager,
    /// What `manager` sends its requests with.
    pub(super) egress: Arc<Egress>,
    /// What the server says about itself.
    pub(super) metadata: AuthorizationMetadata,
    /// Whether there is no metadata, so that the endpoints are the defaults of MCP 2025-03-26.
    is_assumed: bool,
}

impl AuthorizationServer {
    /// Returns the identifier of the server, if it has metadata.
    pub(super) fn issuer(&self) -> Option<String> {
        self.metadata.issuer.clone()
    }

    /// Says how this server differs from the one that issued a login. `None`: it is the same, or there was no login.
    /// Tokens and clients are known to their issuer alone, so nothing of them is sent to another one.
    pub(super) fn change_since(&self, login: &StoredLogin) -> Option<String> {
        let is_same = login.client_id.is_empty() || login.issuer == self.issuer();
        let [known, found] = [login.issuer.as_deref(), self.metadata.issuer.as_deref()].map(shown_issuer);
        (!is_same)
            .then(|| format!("its authorization server was {known} at the last login, and is {found} now"))
    }

    /// Returns whether this boolean member of the metadata is true.
    pub(super) fn supports(&self, member: &str) -> bool {
        self.metadata.additional_fields.get(member).and_then(|value| value.as_bool()).unwrap_or_default()
    }

    /// Returns where tokens are revoked (RFC 7009), if the server does that.
    pub(super) fn revocation_endpoint(&self) -> Option<&str> {
        self.metadata.additional_fields.get("revocation_endpoint").and_then(|value| value.as_str())
    }

    /// Returns whether the client's secret is sent in the form. As in rmcp, only if the server does not accept the
    /// `Authorization` header.
    pub(super) fn uses_client_secret_post(&self) -> bool {
        let methods = self.metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let supports = |method: &str| {
            methods.and_then(|methods| methods.as_array()).is_some_and(|all| all.iter().any(|m| m == method))
        };
        supports("client_secret_post") && !supports("client_secret_basic")
    }
}

/// What a server answers to a request without a token.
pub(super) enum ProbeOutcome {
    /// It requires a token, and sends this `WWW-Authenticate` header.
    Challenge(Option<String>),
    /// It answers anything but 401.
    NoChallenge,
}

impl Account {
    /// Makes the HTTP client for this login.
    ///
    /// # Errors
    ///
    /// `Refused` if `ca_file` cannot be used, or the client cannot be created.
    async fn egress(&self) -> Result<Arc<Egress>, AuthError> {
        let tls = tls::client_config(self.ca_file.as_deref(), REQUEST_TIMEOUT).await;
        let tls = tls.map_err(AuthError::refused)?;
        Ok(Egress::new(&self.url, self.oauth.allow_private_addresses, tls))
    }

    /// Sends a request without a token, to see whether the server requires one. The request is a ping, which leaves no
    /// session behind.
    ///
    /// # Errors
    ///
    /// `Refused` or `Unreachable` if the request fails: see [`Egress::send`].
    pub(super) async fn probe(&self) -> Result<ProbeOutcome, AuthError> {
        let egress = self.egress().await?;
        let mut request = Request::post(self.url.as_str())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_vec();
        let response = egress.send(request.body(body)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(ProbeOutcome::NoChallenge);
        }
        let challenges = response.headers().get_all("www-authenticate");
        let challenges = challenges.iter().filter_map(|value| value.to_str().ok());
        let bearer = challenges.max_by_key(|value| value.contains("resource_metadata"));
        Ok(ProbeOutcome::Challenge(bearer.map(str::to_owned)))
    }

    /// Finds the authorization server and checks its metadata. Makes several requests, each with `REQUEST_TIMEOUT`. A
    /// server without metadata is assumed to be its own authorization server, with the default endpoints of MCP
    /// 2025-03-26. `challenge`: the server's `WWW-Authenticate` header.
    ///
    /// # Errors
    ///
    /// `Unreachable` if a request fails; `Refused` if the metadata is invalid, leads to a destination that is not
    /// allowed, announces no PKCE where a user logs in, or is of another server than `oauth.issuer`.
    pub(super) async fn discover(&self, challenge: Option<&str>) -> Result<AuthorizationServer, AuthError> {
        let egress = self.egress().await?;
        let manager =
            AuthorizationManager::new_with_oauth_http_client(self.url.as_str(), egress.clone()).await;
        let mut manager = manager.map_err(|error| egress.explain(&error, &[]))?;
        let resolved = self.find_metadata(&egress, &manager, challenge).await?;
        let metadata = resolved.metadata;
        check_endpoints(&metadata, &egress)?;
        // Servers of MCP 2025-03-26 may have no metadata to announce PKCE in; that revision requires them to support
        // it.
        let can_announce_pkce = resolved.source != AuthorizationMetadataSource::LegacyEndpointFallback;
        if !self.uses_client_credentials() && can_announce_pkce {
            self.check_pkce(&metadata)?;
        }
        if let Some(named) = self.oauth.issuer.as_deref()
            && metadata.issuer.as_deref().map(without_slash) != Some(without_slash(named))
        {
            let (named, found) = (shown_issuer(Some(named)), shown_issuer(metadata.issuer.as_deref()));
            return Err(AuthError::Refused(format!(
                "its authorization server is {found}, and `oauth.issuer` in its config entry is {named}, so nothing was sent \
                 there; if the server is right, correct `oauth.issuer`"
            )));
        }
        manager.set_metadata(metadata.clone());
        Ok(AuthorizationServer { manager, egress, metadata, is_assumed: !can_announce_pkce })
    }

    /// Finds the metadata with rmcp. After `REQUEST_TIMEOUT`, a place that fails ends the search.
    ///
    /// # Errors
    ///
    /// If nothing is found, the reason why the first place failed. So too if what is found may stand in for what failed:
    /// the assumed endpoints, or another issuer than that of the login.
    async fn find_metadata(
        &self,
        egress: &Egress,
        manager: &AuthorizationManager,
        challenge: Option<&str>,
    ) -> Result<AuthorizationMetadataResolution, AuthError> {
        let (end, mut failure) = (Instant::now() + REQUEST_TIMEOUT, None);
        let login = self.login.cached().await.ok().flatten();
        let issuer = self.oauth.issuer.clone().or_else(|| login?.issuer);
        egress.walk.lock().issuer.clone_from(&issuer);
        loop {
            let error = match manager.resolve_metadata_from_challenge(challenge).await {
                Ok(found) => {
                    let named =
                        |issuer: &Option<String>| issuer.as_deref().map(without_slash).map(str::to_owned);
                    let is_other = issuer.is_some() && named(&found.metadata.issuer) != named(&issuer);
                    return failure
                        .filter(|_| is_other || !found.source.is_discovered())
                        .map_or(Ok(found), Err);
                }
                Err(error) => error,
            };
            // The server's own address is asked for a challenge only.
            let is_probe =
                matches!(&error, RmcpError::DiscoveryRequestFailed { url, .. } if *url == self.url);
            let reason = egress.explain(&error, &[]);
            let may_go_on = is_of_one_place(&error) && Instant::now() < end && egress.walk.lock().skip_last();
            if !may_go_on {
                return Err(failure.unwrap_or(reason));
            }
            failure = failure.or_else(|| (!is_probe).then_some(reason));
        }
    }

    /// Checks that the client of the config may be shown to this authorization server: that it is the one of the last
    /// login, or the one that `oauth.issuer` names. The client was registered at one server, and a server can name
    /// another one at any time (SEP-2352). A client that is registered at each login needs no check.
    ///
    /// # Errors
    ///
    /// `Refused` with both servers if it is another one.
    pub(super) fn check_client(
        &self,
        server: &AuthorizationServer,
        login: Option<&StoredLogin>,
    ) -> Result<(), AuthError> {
        let is_bound = self.oauth.client_id.is_some() && self.oauth.issuer.is_none();
        match login.filter(|_| is_bound).and_then(|login| server.change_since(login)) {
            None => Ok(()),
            Some(change) => Err(AuthError::Refused(format!(
                "{change}. The client in `oauth` is known to the first, so nothing was sent to the second. If the change is \
                 right, set `oauth.issuer` to the second, or forget the first with {}, and log in again",
                self.login.store.command("logout", &self.group)
            ))),
        }
    }

    /// Checks that there is something to log in to: a server that only wants a key has no page for logins. Requests
    /// that page only if the server has no metadata.
    ///
    /// # Errors
    ///
    /// `KeyNeeded` if there is not; `Unreachable` or `Refused` if the page cannot be requested.
    pub(super) async fn check_has_logins(&self, server: &AuthorizationServer) -> Result<(), AuthError> {
        if !server.is_assumed {
            return Ok(());
        }
        let request = Request::get(&server.metadata.authorization_endpoint).body(Vec::new());
        let status = server.egress.send(request).await?.status();
        match status.as_u16() {
            401 | 403 | 404 | 405 | 410 => Err(self.key_needed()),
            _ => Ok(()),
        }
    }

    /// Checks whether a login can succeed. Takes `DISCOVERY_TIMEOUT` at most. Finds no fault if the config names a
    /// client, or if the check fails or takes longer: the login says then what is wrong. `challenge`: the
    /// `WWW-Authenticate` header of the server.
    ///
    /// # Errors
    ///
    /// `KeyNeeded` if the server has nothing to log in to; `ClientNeeded` if its authorization server registers no
    /// client.
    pub(super) async fn check_may_log_in(&self, challenge: Option<&str>) -> Result<(), AuthError> {
        if self.oauth.client_id.is_some() {
            return Ok(());
        }
        let check = async {
            let server = self.discover(challenge).await?;
            self.check_has_logins(&server).await?;
            if self.can_register(&server) { Ok(()) } else { Err(self.client_needed(None)) }
        };
        match timeout(DISCOVERY_TIMEOUT, check).await {
            Ok(Err(error @ (AuthError::KeyNeeded(_) | AuthError::ClientNeeded(_)))) => Err(error),
            // A login says what else is wrong.
            _ => Ok(()),
        }
    }

    /// Returns whether a login can get a client without one in the config.
    fn can_register(&self, server: &AuthorizationServer) -> bool {
        server.metadata.registration_endpoint.is_some()
            || (self.oauth.client_metadata_url.is_some()
                && server.supports("client_id_metadata_document_supported"))
    }

    /// Checks that the server announces PKCE with S256 (RFC 7636). A server that does not announce it may not check it,
    /// and then a stolen authorization code is enough to log in. With `oauth.require_pkce: false`, a server may
    /// announce nothing.
    ///
    /// # Errors
    ///
    /// `Refused` if it does not.
    fn check_pkce(&self, metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
        match &metadata.code_challenge_methods_supported {
            Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
            Some(_) => Err(AuthError::refused("its authorization server does not support PKCE with S256")),
            None if !self.oauth.require_pkce => Ok(()),
            None => Err(AuthError::refused(
                "its authorization server does not announce support for PKCE; \
                 if you know that it supports PKCE, set `oauth.require_pkce` to false",
            )),
        }
    }
}

/// Returns how an error shows the issuer of an authorization server.
fn shown_issuer(issuer: Option<&str>) -> String {
    issuer.map_or_else(|| "one without a name".to_owned(), |issuer| quote_sanitized(issuer, &[]))
}

/// Returns whether another place may have the metadata. A document of another resource is the server's own mistake.
fn is_of_one_place(error: &RmcpError) -> bool {
    match error {
        RmcpError::DiscoveryRequestFailed { .. }
        | RmcpError::AuthorizationServerMismatch { .. }
        | RmcpError::AuthorizationServerMissingIssuer { .. } => true,
        RmcpError::ProtectedResourceMetadataInvalid { reason, .. } => {
            **reason == ProtectedResourceMetadataInvalidReason::NotAMetadataDocument
        }
        _ => false,
    }
}

/// Checks the endpoints for authorization, tokens and registration before the first is used, so that a login does not
/// stop halfway.
///
/// # Errors
///
/// `Refused` if one is no valid URL, or requests may not go there.
pub(super) fn check_endpoints(metadata: &AuthorizationMetadata, egress: &Egress) -> Result<(), AuthError> {
    let required = [&metadata.authorization_endpoint, &metadata.token_endpoint];
    for endpoint in required.into_iter().chain(&metadata.registration_endpoint) {
        parse_endpoint(endpoint, egress)?;
    }
    Ok(())
}

/// Parses and checks an address from metadata. Only the parsed form is used afterwards: another program might read the
/// text differently.
///
/// # Errors
///
/// `Refused` if it is no valid URL, or requests may not go there.
pub(super) fn parse_endpoint(text: &str, egress: &Egress) -> Result<Url, AuthError> {
    let url: Option<Url> = text.parse().ok().filter(|_| !text.contains(char::is_control));
    let invalid = || format!("the login leads to {}, which is not a valid URL", quote_sanitized(text, &[]));
    let url = url.ok_or_else(|| AuthError::Refused(invalid()))?;
    egress.check(&url)?;
    Ok(url)
}
