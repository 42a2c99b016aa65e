//! Chooses the scopes to ask an authorization server for.

use super::account::Account;
use super::discovery::AuthorizationServer;

/// Makes some authorization servers issue a refresh token (OpenID Connect Core section 11).
const OFFLINE_ACCESS: &str = "offline_access";

impl Account {
    /// Returns the scopes of the config, or else the scopes that the server names, together with the `missing` ones for
    /// which it refused requests. If there are any and a user logs in, they include `offline_access` where the server
    /// offers it.
    pub(super) async fn scopes_to_request(
        &self,
        server: &AuthorizationServer,
        missing: &[String],
    ) -> Vec<String> {
        let configured = &self.oauth.scopes;
        let initial = match configured.is_empty() {
            true => server.manager.select_initial_scopes(&[]).await,
            false => configured.clone(),
        };
        let mut scopes = merge_scopes([initial.as_slice(), missing]);
        let is_offered =
            server.metadata.scopes_supported.iter().flatten().any(|scope| scope == OFFLINE_ACCESS);
        let is_requested = scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        if is_offered && !self.uses_client_credentials() && !scopes.is_empty() && !is_requested {
            scopes.push(OFFLINE_ACCESS.to_owned());
        }
        scopes
    }
}

/// Concatenates lists of scopes, without duplicates.
pub(super) fn merge_scopes<'a>(lists: impl IntoIterator<Item = &'a [String]>) -> Vec<String> {
    let mut merged: Vec<String> = Vec::new();
    for scope in lists.into_iter().flatten() {
        if !merged.contains(scope) {
            merged.push(scope.clone());
        }
    }
    merged
}
