//! The system's keyring: the Secret Service, the keychain of macOS, or the credential manager of Windows.
//!
//! A keyring may be locked, and it may never answer. So each call has a timeout, and a keyring that is locked or does
//! not answer is not asked again for a while: requests of the client wait for it. Only the commands that a user runs
//! may have the user asked to unlock it; the proxy opens no windows. (The keyrings of macOS and Windows may ask on
//! their own.)

use super::error::KeyringError;
use super::secret::Secret;
use config::env::Env;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[cfg(any(target_os = "macos", windows))]
#[path = "keyring/native.rs"]
mod system;
#[cfg(not(any(target_os = "macos", windows)))]
#[path = "keyring/secret_service.rs"]
mod system;

/// The service name of all entries of this program.
const SERVICE_NAME: &str = "dynamic-mcp";
/// A keyring that works answers in milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// For the user to type a password.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a keyring that is locked or did not answer is not asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Names an entry of the keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyringEntry {
    /// The entry's user name, which is unique among the entries of this program.
    pub username: String,
    /// What the user sees of the entry, after the name of this program: "login to g".
    pub label: String,
    /// The media type of its text.
    pub(crate) content_type: &'static str,
}

/// A kind of keyring: stores one text for each entry. [`Keyring`] limits how long its methods may take.
pub(crate) trait KeyringBackend: Send + Sync {
    /// Has the user unlock the keyring, if it is locked and the user may be asked. `get`, `set` and `remove` never
    /// unlock it, but the keyrings of macOS and Windows may ask on their own.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used.
    fn unlock<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>>;
    /// Reads an entry. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used.
    fn get<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>>;
    /// Writes an entry, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used.
    fn set<'a>(&'a self, entry: &'a KeyringEntry, text: Secret) -> BoxFuture<'a, Result<(), KeyringError>>;
    /// Removes an entry, if there is one.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used.
    fn remove<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>>;

    /// Reads an entry, and has the user unlock the keyring before, if it is locked.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used.
    fn unlock_and_get<'a>(
        &'a self,
        entry: &'a KeyringEntry,
    ) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>> {
        Box::pin(async {
            self.unlock(entry).await?;
            self.get(entry).await
        })
    }
}

/// The user's keyring, or why there is none. Clones share its state. For `RETRY_INTERVAL` after a call found it locked
/// or got no answer, each call fails at once with the same error.
#[derive(Clone)]
pub struct Keyring(Result<Arc<KeyringState>, KeyringError>);

struct KeyringState {
    /// The keyring itself.
    backend: Box<dyn KeyringBackend>,
    /// Whether the user may be asked to unlock it.
    may_prompt: bool,
    /// When and how it last failed, if it was locked or did not answer.
    last_failure: Mutex<Option<(Instant, KeyringError)>>,
}

impl Keyring {
    /// Creates a keyring that is turned off: logins are in files.
    pub fn disabled() -> Self {
        Self(Err(KeyringError::Disabled))
    }

    /// Creates the keyring of this user, which is not asked for anything yet. `may_prompt`: a user is there to unlock
    /// it.
    pub fn of_system(env: &Env, may_prompt: bool) -> Self {
        match system::backend(env, may_prompt) {
            Some(backend) => Self::new(backend, may_prompt),
            None => Self(Err(KeyringError::Unavailable)),
        }
    }

    fn new(backend: impl KeyringBackend + 'static, may_prompt: bool) -> Self {
        let backend = Box::new(backend);
        Self(Ok(Arc::new(KeyringState { backend, may_prompt, last_failure: Mutex::default() })))
    }

    /// Asks the user to unlock the keyring, if prompts are allowed. This may take `UNLOCK_TIMEOUT`, so the caller must
    /// not hold the token store's lock, which other processes wait for. A failure is not returned: the next call
    /// reports it.
    pub(super) async fn unlock(&self, entry: &KeyringEntry) {
        if self.0.as_ref().is_ok_and(|state| state.may_prompt) {
            // The call that needs the keyring reports the same error.
            drop(self.call(UNLOCK_TIMEOUT, |backend| backend.unlock(entry)).await);
        }
    }

    /// Reads an entry. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used: `TimedOut` after `CALL_TIMEOUT`.
    pub(super) async fn get(&self, entry: &KeyringEntry) -> Result<Option<Secret>, KeyringError> {
        self.call(CALL_TIMEOUT, |backend| backend.get(entry)).await
    }

    /// Reads an entry, and asks the user to unlock the keyring before, if prompts are allowed. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used: `TimedOut` after `UNLOCK_TIMEOUT`.
    pub(super) async fn unlock_and_get(&self, entry: &KeyringEntry) -> Result<Option<Secret>, KeyringError> {
        self.call(UNLOCK_TIMEOUT, |backend| backend.unlock_and_get(entry)).await
    }

    /// Writes an entry, in place of an earlier one.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used: `TimedOut` after `CALL_TIMEOUT`.
    pub(super) async fn set(&self, entry: &KeyringEntry, text: Secret) -> Result<(), KeyringError> {
        self.call(CALL_TIMEOUT, |backend| backend.set(entry, text)).await
    }

    /// Removes an entry, if there is one.
    ///
    /// # Errors
    ///
    /// Why the keyring cannot be used: `TimedOut` after `CALL_TIMEOUT`. A missing entry is no error.
    pub(super) async fn remove(&self, entry: &KeyringEntry) -> Result<(), KeyringError> {
        self.call(CALL_TIMEOUT, |backend| backend.remove(entry)).await
    }

    async fn call<'a, T>(
        &'a self,
        limit: Duration,
        request: impl FnOnce(&'a dyn KeyringBackend) -> BoxFuture<'a, Result<T, KeyringError>>,
    ) -> Result<T, KeyringError> {
        let state = self.0.as_ref().map_err(Clone::clone)?;
        let last_failure = state.last_failure.lock().clone();
        if let Some((at, error)) = last_failure
            && at.elapsed() < RETRY_INTERVAL
        {
            return Err(error);
        }
        let outcome = timeout(limit, request(&*state.backend)).await.unwrap_or(Err(KeyringError::TimedOut));
        if let Err(error @ (KeyringError::Locked | KeyringError::TimedOut)) = &outcome {
            let failure = Some((Instant::now(), error.clone()));
            *state.last_failure.lock() = failure;
        }
        outcome
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.0.as_ref().map(|_| ())).finish()
    }
}

#[cfg(test)]
#[path = "keyring/tests.rs"]
pub(super) mod tests;
