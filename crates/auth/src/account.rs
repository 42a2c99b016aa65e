//! The login at one server, as this process knows it.

use super::callback::redirect_uri;
use super::error::AuthError;
use super::token_store::{LoginEntry, StoreKey, TokenStore};
use config::{GroupName, HttpConfig, OAuthConfig, OAuthFlow};
use reqwest::Url;
use std::path::PathBuf;
use std::sync::Arc;

/// The port of the redirect URL that a user is told to register.
const EXAMPLE_REDIRECT_PORT: u16 = 8765;

/// The login at one server. Other files of this folder add its operations.
pub struct Account {
    /// The group of the server.
    pub(super) group: GroupName,
    /// The server's address.
    pub(super) url: Url,
    /// The `oauth` object of the server's config.
    pub(super) oauth: OAuthConfig,
    /// The headers that the config adds to every request. They may contain secrets.
    pub(super) headers: Vec<(String, String)>,
    /// Certificate authorities to trust beside the system's.
    pub(super) ca_file: Option<PathBuf>,
    /// The login in the store.
    pub(super) login: LoginEntry,
}

/// Returns a name for the environment variable that may have the API key of a group's server. Errors suggest it.
fn suggested_variable(group: &str) -> String {
    let name: String =
        group.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let prefix = if name.starts_with(|first: char| first.is_ascii_digit()) { "_" } else { "" };
    format!("{prefix}{name}_TOKEN")
}

impl Account {
    /// Makes the account of a group's server. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// `AuthError::Refused` if the config has no valid address.
    pub fn new(group: &GroupName, http: &HttpConfig, store: &TokenStore) -> Result<Arc<Self>, AuthError> {
        let url: Url = http.url.parse().map_err(|_| AuthError::refused("its `url` is not a valid URL"))?;
        let oauth = http.oauth.clone().unwrap_or_default();
        let key = StoreKey::new(group, url.as_str(), oauth.client_id.as_deref());
        Ok(Arc::new(Self {
            group: group.clone(),
            login: store.entry(key, url.as_str()),
            url,
            oauth,
            headers: http.headers.clone(),
            ca_file: http.ca_file.clone(),
        }))
    }

    /// Returns whether the client logs in with its own credentials, without a user.
    pub(super) fn uses_client_credentials(&self) -> bool {
        self.oauth.flow == OAuthFlow::ClientCredentials
    }

    /// Returns the error that tells the user to log in, and for what `reason`.
    pub(super) fn login_needed(&self, reason: &str) -> AuthError {
        match self.oauth.flow {
            OAuthFlow::Browser => AuthError::LoginNeeded(format!(
                "run {} ({reason}); with `--no-browser` it prints the URL instead of opening a browser",
                self.login.store.command("login", &self.group)
            )),
            // A login does not help: the credentials are in the config.
            OAuthFlow::ClientCredentials => {
                AuthError::Refused(format!("{reason}: check `oauth` in the config"))
            }
        }
    }

    /// Returns the error that tells the user to configure a key.
    pub(super) fn key_needed(&self) -> AuthError {
        let what = match self.headers.is_empty() {
            true => "the server wants a key (HTTP 401), and there is nothing to log in to",
            false => {
                "the server does not accept \"headers\" of its config entry as a key (HTTP 401), and there is nothing to log in to"
            }
        };
        let variable = suggested_variable(self.group.as_str());
        AuthError::KeyNeeded(format!(
            "{what}: write \"headers\": {{\"Authorization\": \"Bearer ${{{variable}}}\"}} in its config entry, or the header that \
             its documentation names, and set {variable} to the key"
        ))
    }

    /// Returns the error for a server whose authorization server registers no client, or did not register this one.
    /// `words`: what it answered.
    pub(super) fn client_needed(&self, words: Option<&str>) -> AuthError {
        let port = self.oauth.redirect_port.unwrap_or(EXAMPLE_REDIRECT_PORT);
        let what = match words {
            Some(words) => format!(
                "a login is needed, and its authorization server did not register a client (it answered {words})"
            ),
            None => "a login is needed, and its authorization server does not register clients by itself"
                .to_owned(),
        };
        AuthError::ClientNeeded(format!(
            "{what}: register one there with the redirect URL {}, and write \"oauth\": {{\"client_id\": \"ITS_ID\", \"redirect_port\": {port}}} in its config entry",
            redirect_uri(port)
        ))
    }

    /// Returns the error for a login whose tokens are no longer refreshed. `reason`: the words of the authorization
    /// server.
    pub(super) fn login_ended(&self, reason: Option<&str>) -> AuthError {
        let reason = reason.map(|reason| format!(": its authorization server answered {reason}"));
        self.login_needed(&format!("the login has ended{}", reason.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_of_a_key_has_a_valid_name() {
        assert_eq!(suggested_variable("git-hub.x"), "GIT_HUB_X_TOKEN");
        assert_eq!(suggested_variable("1x"), "_1X_TOKEN");
    }
}
