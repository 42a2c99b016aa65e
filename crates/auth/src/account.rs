//! The login at one server, as this process knows it.

use super::callback::redirect_uri;
use super::error::AuthError;
use super::token_store::{FileVersion, StoreKey, StoredLogin, TokenStore};
use config::{GroupName, HttpConfig, OAuthConfig, OAuthFlow};
use parking_lot::Mutex;
use reqwest::Url;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a login is used before the token store is checked for changes by other processes.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Where the login is stored.
    pub(super) store: TokenStore,
    /// Identifies the login in `store`.
    pub(super) key: StoreKey,
    /// The stored login as it was last read or written.
    cached: Mutex<Option<CachedLogin>>,
}

#[derive(Clone)]
struct CachedLogin {
    /// When the token store was last checked for a change.
    checked_at: Instant,
    /// The version of the login's file, if that is known.
    version: Option<FileVersion>,
    /// `None`: there is no login.
    login: Option<StoredLogin>,
}

/// Returns the address of a server and the key of its login.
///
/// # Errors
///
/// `AuthError::Refused` if the config has no valid address.
pub(super) fn url_and_key(group: &GroupName, http: &HttpConfig) -> Result<(Url, StoreKey), AuthError> {
    let url: Url = http.url.parse().map_err(|_| AuthError::refused("its `url` is not a valid URL"))?;
    let client_id = http.oauth.as_ref().and_then(|oauth| oauth.client_id.as_deref());
    let key = StoreKey::new(group, url.as_str(), client_id);
    Ok((url, key))
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
    pub fn new(group: &GroupName, http: &HttpConfig, store: TokenStore) -> Result<Arc<Self>, AuthError> {
        let (url, key) = url_and_key(group, http)?;
        Ok(Arc::new(Self {
            group: group.clone(),
            url,
            oauth: http.oauth.clone().unwrap_or_default(),
            headers: http.headers.clone(),
            ca_file: http.ca_file.clone(),
            store,
            key,
            cached: Mutex::default(),
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
                self.store.command("login", &self.group)
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

    /// Returns the stored login, at most `RECHECK_INTERVAL` old. `None`: there is no login. Also tries again to write a
    /// login that could not be written.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if its file cannot be used; `AuthError::Keyring` if it is in a keyring that cannot be used.
    pub(super) async fn cached_login(&self) -> Result<Option<StoredLogin>, AuthError> {
        let cached = self.cached.lock().clone();
        let cached = match cached {
            Some(cached) if cached.checked_at.elapsed() < RECHECK_INTERVAL => return Ok(cached.login),
            cached => cached,
        };
        self.store.retry_unsaved(&self.key).await;
        match cached {
            // The version of the file shows changes, so that the keyring is not asked every second.
            Some(cached)
                if cached.version.is_some() && cached.version == self.store.version(&self.key).await =>
            {
                self.update_cache(cached.version, cached.login.clone());
                Ok(cached.login)
            }
            _ => self.read_login().await,
        }
    }

    /// Reads the stored login, not from the cache, and updates the cache. `None`: there is no login.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if its file cannot be used; `AuthError::Keyring` if it is in a keyring that cannot be used.
    pub(super) async fn read_login(&self) -> Result<Option<StoredLogin>, AuthError> {
        let version = self.store.version(&self.key).await;
        let login = self.store.read(&self.key, self.url.as_str()).await?;
        self.update_cache(version, login.clone());
        Ok(login)
    }

    /// Writes a new login. The caller holds the lock.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if it cannot be written.
    pub(super) async fn write_login(&self, login: &StoredLogin) -> Result<(), AuthError> {
        self.store.write(&self.key, login).await?;
        self.update_cache(self.store.version(&self.key).await, Some(login.clone()));
        Ok(())
    }

    /// Replaces the `previous` login. The caller holds the lock. The new login takes effect at once, even if it
    /// cannot be written.
    pub(super) async fn save_login(&self, login: &StoredLogin, previous: Option<StoredLogin>) {
        self.update_cache(None, Some(login.clone()));
        self.store.save(&self.key, login, previous).await;
        self.update_cache(self.store.version(&self.key).await, Some(login.clone()));
    }

    /// Remembers the stored login, and the version of its file.
    pub(super) fn update_cache(&self, version: Option<FileVersion>, login: Option<StoredLogin>) {
        let cached = CachedLogin { checked_at: Instant::now(), version, login };
        *self.cached.lock() = Some(cached);
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
