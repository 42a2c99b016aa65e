//! Login to remote servers, by OAuth 2.1 as MCP's chapters on authorization have it.
//!
//! An `Account` is one server's login. `discovery` finds out where to log in, `login` has a person do it in a browser
//! (which comes back to `callback`), `renewal` gets new tokens without one, `revocation` ends it. The `vault` keeps
//! what was granted, in the system's `keyring` where there is one; the `gate` lets requests out. rmcp does the protocol;
//! what it leaves to its user is done here.

use crate::config::{GroupName, HttpConfig, OAuthConfig, OAuthFlow};
use parking_lot::Mutex;
use reqwest::Url;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

mod addresses;
mod assertion;
pub mod browser;
mod callback;
mod challenge;
mod credentials;
mod discovery;
mod egress;
mod error;
pub mod keyring;
mod login;
mod refresh;
mod revocation;
mod secret;
mod shutdown_guard;
pub mod token_store;

pub use challenge::Remedy;
pub use credentials::Kept;
pub use error::AuthError;
pub use login::{Login, LoginStart};
pub use revocation::LogoutOutcome;
pub use secret::Secret;
use token_store::{Key, Record, TokenStore};

/// Logins and refreshes of other instances are noticed after so long.
const FRESH: Duration = Duration::from_secs(1);

/// A server's address, and where its login is kept.
fn place(name: &GroupName, http: &HttpConfig) -> Result<(Url, Key), AuthError> {
    let url: Url = http.url.parse().map_err(|_| AuthError::Refused("its `url` is no address".to_owned()))?;
    let client_id = http.oauth.as_ref().and_then(|oauth| oauth.client_id.as_deref());
    let key = Key::new(name, url.as_str(), client_id);
    Ok((url, key))
}

/// One server's login.
pub struct Account {
    name: GroupName,
    url: Url,
    oauth: OAuthConfig,
    /// What the config sends with every request; may hold secrets.
    headers: Vec<(String, String)>,
    /// Its authorities are trusted beside the system's.
    ca_file: Option<PathBuf>,
    vault: TokenStore,
    key: Key,
    seen: Mutex<Option<Seen>>,
}

/// What was kept when it was last looked at.
#[derive(Clone)]
struct Seen {
    at: Instant,
    /// When that was written, as far as is known.
    written: Option<SystemTime>,
    record: Option<Record>,
}

impl Account {
    pub fn new(name: &GroupName, http: &HttpConfig, vault: TokenStore) -> Result<Arc<Self>, AuthError> {
        let (url, key) = place(name, http)?;
        let oauth = http.oauth.clone().unwrap_or_default();
        let headers = http.headers.clone();
        let seen = Mutex::default();
        Ok(Arc::new(Self {
            name: name.clone(),
            url,
            oauth,
            headers,
            ca_file: http.ca_file.clone(),
            vault,
            key,
            seen,
        }))
    }

    /// A token to send, if there is one; renewed if it is about to expire.
    pub async fn token(self: &Arc<Self>) -> Result<Option<Secret>, AuthError> {
        let record = self.record().await?;
        if let Some(token) = record.as_ref().and_then(Record::fresh_token) {
            return Ok(Some(token.clone()));
        }
        let alone = self.oauth.flow == OAuthFlow::ClientCredentials;
        let renewable = record.as_ref().is_some_and(|record| record.refresh_token.is_some());
        if !alone && !renewable {
            // The server says whether it takes an old one, and whether it needs one at all.
            return Ok(record.and_then(|record| record.access_token));
        }
        match refresh::renew(self, None).await {
            Ok(record) => Ok(record.access_token),
            Err(
                trouble @ (AuthError::Unreachable(_)
                | AuthError::Busy(_)
                | AuthError::Keyring(..)
                | AuthError::Store(_)),
            ) => {
                let rest = record.as_ref().and_then(Record::live_token);
                rest.cloned().map(Some).ok_or(trouble)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// What a person who is to log in is told.
    fn login_needed(&self, why: &str) -> AuthError {
        match self.oauth.flow {
            OAuthFlow::Browser => AuthError::LoginNeeded(format!(
                "run `dynamic-mcp login {}` ({why}); with `--no-browser` it shows the URL to open",
                self.name
            )),
            // No login helps: who we are is in the config.
            OAuthFlow::ClientCredentials => {
                AuthError::Refused(format!("{why}: look at `oauth` in the config"))
            }
        }
    }

    /// What is known of this login, a second old at most.
    async fn record(&self) -> Result<Option<Record>, AuthError> {
        let seen = self.seen.lock().clone();
        let seen = match seen {
            Some(seen) if seen.at.elapsed() < FRESH => return Ok(seen.record),
            seen => seen,
        };
        self.vault.retry(&self.key).await;
        match seen {
            // Its file tells of a change; the keyring need not be asked every second.
            Some(seen) if seen.written.is_some() && seen.written == self.vault.changed(&self.key).await => {
                self.saw(seen.written, seen.record.clone());
                Ok(seen.record)
            }
            _ => self.read().await,
        }
    }

    async fn read(&self) -> Result<Option<Record>, AuthError> {
        let written = self.vault.changed(&self.key).await;
        let record = self.vault.read(&self.key, self.url.as_str()).await?;
        self.saw(written, record.clone());
        Ok(record)
    }

    /// For who holds the lock.
    async fn write(&self, record: &Record) -> Result<(), AuthError> {
        self.vault.write(&self.key, record).await?;
        self.saw(self.vault.changed(&self.key).await, Some(record.clone()));
        Ok(())
    }

    /// What takes the place of `before`, for who holds the lock: in force at once, and whether or not it can be
    /// written.
    async fn save(&self, record: &Record, before: Option<Record>) {
        self.saw(None, Some(record.clone()));
        self.vault.save(&self.key, record, before).await;
        self.saw(self.vault.changed(&self.key).await, Some(record.clone()));
    }

    fn saw(&self, written: Option<SystemTime>, record: Option<Record>) {
        let seen = Seen { at: Instant::now(), written, record };
        *self.seen.lock() = Some(seen);
    }
}
