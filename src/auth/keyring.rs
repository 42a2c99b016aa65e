//! The system's keyring, where there is one: the Secret Service, the keychain of macOS, Windows' credential manager.
//!
//! It may be locked, or never answer. Nobody waits for it for long, and only where a person just ran a command is that
//! person asked to unlock it: a proxy opens no windows by itself. (Those of macOS and Windows may, whoever asks them.)

use super::secret::Secret;
use super::token_store::Key;
use crate::config::vars::Env;
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

/// Who all our entries belong to.
const SERVICE: &str = "dynamic-mcp";
/// A keyring that works answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// For a person to type a password.
const UNLOCKING: Duration = Duration::from_secs(60);
/// One that is locked or silent is not asked again for so long: requests wait for it.
const HOLD: Duration = Duration::from_secs(10);

/// Keeps one text for each login.
pub trait Ring: Send + Sync {
    /// Has the person unlock it, if it is locked. The others ask nobody for that.
    fn unlock<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>>;
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Secret>, Unusable>>;
    fn put<'a>(&'a self, key: &'a Key, text: Secret) -> BoxFuture<'a, Result<(), Unusable>>;
    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>>;
}

/// Why the keyring cannot be used. Completes "the system's keyring …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("is turned off (`keyring` in `settings`)")]
    Off,
    #[error("cannot be reached from here")]
    Missing,
    #[error("is locked")]
    Locked,
    #[error("does not answer")]
    Silent,
    #[error("does not work: {0}")]
    Failed(String),
}

/// The keyring, or why it is not used.
#[derive(Clone)]
pub struct Keyring(Result<Arc<Asked>, Unusable>);

struct Asked {
    ring: Box<dyn Ring>,
    /// There is one who can unlock it.
    person: bool,
    trouble: Mutex<Option<(Instant, Unusable)>>,
}

impl Keyring {
    /// The logins are in files.
    pub fn off() -> Self {
        Self(Err(Unusable::Off))
    }

    /// That of this user; nothing is asked of it yet. With `person` there is one who can unlock it.
    pub fn of_system(env: &Env, person: bool) -> Self {
        match system::ring(env, person) {
            Some(ring) => Self::new(ring, person),
            None => Self(Err(Unusable::Missing)),
        }
    }

    fn new(ring: impl Ring + 'static, person: bool) -> Self {
        Self(Ok(Arc::new(Asked { ring: Box::new(ring), person, trouble: Mutex::default() })))
    }

    /// Where there is a person, has them unlock it. That lasts: nobody else may have to wait for it.
    pub(super) async fn unlock(&self, key: &Key) {
        if self.0.as_ref().is_ok_and(|asked| asked.person) {
            // Whoever needs it meets what is wrong with it again.
            drop(self.ask(UNLOCKING, |ring| ring.unlock(key)).await);
        }
    }

    pub(super) async fn get(&self, key: &Key) -> Result<Option<Secret>, Unusable> {
        self.ask(PATIENCE, |ring| ring.get(key)).await
    }

    pub(super) async fn put(&self, key: &Key, text: Secret) -> Result<(), Unusable> {
        self.ask(PATIENCE, |ring| ring.put(key, text)).await
    }

    pub(super) async fn remove(&self, key: &Key) -> Result<(), Unusable> {
        self.ask(PATIENCE, |ring| ring.remove(key)).await
    }

    async fn ask<'a, T>(
        &'a self,
        patience: Duration,
        what: impl FnOnce(&'a dyn Ring) -> BoxFuture<'a, Result<T, Unusable>>,
    ) -> Result<T, Unusable> {
        let asked = self.0.as_ref().map_err(Clone::clone)?;
        let known = asked.trouble.lock().clone();
        if let Some((at, trouble)) = known
            && at.elapsed() < HOLD
        {
            return Err(trouble);
        }
        let outcome = timeout(patience, what(&*asked.ring)).await.unwrap_or(Err(Unusable::Silent));
        if let Err(trouble @ (Unusable::Locked | Unusable::Silent)) = &outcome {
            let known = Some((Instant::now(), trouble.clone()));
            *asked.trouble.lock() = known;
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
