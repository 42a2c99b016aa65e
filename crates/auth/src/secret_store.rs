//! The secrets of `{keyring:NAME}`, which `dynamic-mcp secret set` stores in the system's keyring.
//!
//! Beside each entry there is an empty file of its name: keyrings cannot list the names, and a file that is replaced
//! tells running instances that its secret changed. Entries are named `secret:NAME`, so other programs can make them
//! too; they have no file and are not listed.

use super::error::KeyringError;
use super::keyring::{Keyring, KeyringEntry};
use super::secret::Secret;
use base::blocking;
use base::private_files::{PrivateFileError, private_dir, replace};
use config::secrets::SecretKeyring;
use config::secrets::is_secret_name;
use futures_util::future::BoxFuture;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// How long an operation on the files may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// The secrets of this user.
#[derive(Debug, Clone)]
pub struct SecretStore {
    /// Has the values.
    keyring: Keyring,
    /// Has an empty file for each secret.
    dir: PathBuf,
}

/// Why a secret cannot be stored, removed or listed. No text contains a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretStoreError {
    /// No secret can have this name.
    #[error("{0:?} cannot be the name of a secret: write 1 to 64 letters, digits, `_` and `-`")]
    Name(String),
    /// There is no value to store.
    #[error("the value was not read: {0}")]
    Value(String),
    /// The keyring cannot be used.
    #[error("the system's keyring {error}{}", advice(.error))]
    Keyring {
        /// Why.
        #[from]
        error: KeyringError,
    },
    /// The file of the secret cannot be written or removed.
    #[error("the list of secrets cannot be changed: {0}")]
    Files(String),
}

/// Returns what the user can do about a keyring that cannot be used.
fn advice(error: &KeyringError) -> &'static str {
    match error {
        KeyringError::Locked => "; unlock it and try again",
        KeyringError::Unavailable => {
            "; without one, keep the value in a file that only you can read and write `{file:PATH}`, or have your \
             password manager print it and write `{command:…}`"
        }
        KeyringError::Disabled | KeyringError::TimedOut | KeyringError::Failed(_) => "",
    }
}

impl SecretStore {
    /// Makes a store. Nothing is read or written yet. `dir`: see [`marker_dir`](config::secrets::marker_dir).
    pub fn new(keyring: Keyring, dir: PathBuf) -> Self {
        Self { keyring, dir }
    }

    /// Stores a secret, in place of an earlier one of this name. The user may be asked to unlock the keyring.
    ///
    /// # Errors
    ///
    /// No secret can have this name, or the keyring or the file cannot be written.
    pub async fn set(&self, name: &str, value: Secret) -> Result<(), SecretStoreError> {
        let entry = entry(name)?;
        self.keyring.unlock(&entry).await;
        self.keyring.set(&entry, value).await?;
        let file = self.dir.join(name);
        blocking(move || replace(&file, b"", false)).await
    }

    /// Reads a secret. `None` if there is none of this name, or no secret can have it. The user may be asked to unlock
    /// the keyring, if `may_prompt`.
    ///
    /// # Errors
    ///
    /// The keyring cannot be used.
    pub async fn get(&self, name: &str, may_prompt: bool) -> Result<Option<Secret>, KeyringError> {
        let Ok(entry) = entry(name) else { return Ok(None) };
        match may_prompt {
            true => self.keyring.unlock_and_get(&entry).await,
            false => self.keyring.get(&entry).await,
        }
    }

    /// Removes a secret. Returns whether there was one. The user may be asked to unlock the keyring.
    ///
    /// # Errors
    ///
    /// No secret can have this name, the keyring cannot be used, or the file cannot be removed.
    pub async fn remove(&self, name: &str) -> Result<bool, SecretStoreError> {
        let entry = entry(name)?;
        let is_stored = self.keyring.unlock_and_get(&entry).await?.is_some();
        self.keyring.remove(&entry).await?;
        let file = self.dir.join(name);
        let is_listed = blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(|error| PrivateFileError::Io { path: file, error }),
        });
        Ok(is_listed.await? || is_stored)
    }

    /// Returns the names of the secrets, sorted. No keyring is asked.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, or another user may have written it.
    pub async fn names(&self) -> Result<Vec<String>, SecretStoreError> {
        let dir = self.dir.clone();
        blocking(move || {
            private_dir(&dir)?;
            let entries = fs::read_dir(&dir).map_err(|error| PrivateFileError::Io { path: dir, error })?;
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<String> = names.filter(|name| is_secret_name(name)).collect();
            names.sort_unstable();
            Ok(names)
        })
        .await
    }
}

impl SecretKeyring for SecretStore {
    fn get<'a>(&'a self, name: &'a str, may_prompt: bool) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let secret = self.get(name, may_prompt).await;
            let secret = secret.map_err(|error| format!("{error}{}", advice(&error)))?;
            Ok(secret.map(|secret| secret.expose().to_owned()))
        })
    }
}

/// Returns the keyring entry of a secret.
///
/// # Errors
///
/// `SecretStoreError::Name` if no secret can have this name.
fn entry(name: &str) -> Result<KeyringEntry, SecretStoreError> {
    if !is_secret_name(name) {
        return Err(SecretStoreError::Name(name.to_owned()));
    }
    Ok(KeyringEntry {
        username: format!("secret:{name}"),
        label: format!("secret {name}"),
        content_type: "text/plain",
    })
}

/// Runs file operations on another thread.
///
/// # Errors
///
/// `SecretStoreError::Files` if they fail, or take longer than `FILE_TIMEOUT`.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PrivateFileError> + Send + 'static,
) -> Result<T, SecretStoreError> {
    let done = blocking::run(FILE_TIMEOUT, work).await;
    let done = done.map_err(|error| SecretStoreError::Files(format!("access to its directory {error}")))?;
    done.map_err(|error| SecretStoreError::Files(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::tests::FakeKeyring;

    #[tokio::test]
    async fn a_secret_is_in_the_keyring_and_its_name_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (fake, dir) = (FakeKeyring::default(), dir.path().join("secrets"));
        let store = SecretStore::new(fake.keyring_with_user(), dir.clone());
        assert_eq!(store.names().await.unwrap(), Vec::<String>::new());
        for (name, value) in [("b", "1"), ("a-B_9", "2"), ("b", "3")] {
            store.set(name, Secret::new(value)).await.unwrap();
        }
        assert_eq!(store.names().await.unwrap(), ["a-B_9", "b"]);
        assert_eq!(fs::read(dir.join("b")).unwrap(), b"", "the value is in the keyring only");
        for may_prompt in [true, false] {
            assert_eq!(store.get("b", may_prompt).await, Ok(Some(Secret::new("3"))));
        }
        assert!(store.remove("b").await.unwrap() && !store.remove("b").await.unwrap());
        assert_eq!(store.get("b", false).await, Ok(None));
        assert_eq!(store.names().await.unwrap(), ["a-B_9"]);
        assert_eq!(fake.entries.lock().keys().collect::<Vec<_>>(), ["secret:a-B_9"]);
    }

    #[tokio::test]
    async fn a_name_is_one_word() {
        let dir = tempfile::tempdir().unwrap();
        let store = SecretStore::new(FakeKeyring::default().keyring(), dir.path().join("secrets"));
        for name in ["", ".", "../x", "a b", "a/b", "é", "x.tmp", &"x".repeat(65)] {
            let error = store.set(name, Secret::new("v")).await.unwrap_err();
            assert!(matches!(error, SecretStoreError::Name(_)), "{name}");
            assert_eq!(store.get(name, true).await, Ok(None));
        }
        store.set(&"x".repeat(64), Secret::new("v")).await.unwrap();
    }

    #[tokio::test]
    async fn a_secret_that_the_keyring_rejects_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeKeyring::default();
        fake.set_failure(Some(KeyringError::Unavailable));
        let store = SecretStore::new(fake.keyring_with_user(), dir.path().join("secrets"));
        let error = store.set("a", Secret::new("s3cret")).await.unwrap_err().to_string();
        assert!(error.starts_with("the system's keyring cannot be reached; ") && !error.contains("s3cret"));
        assert_eq!(store.names().await.unwrap(), Vec::<String>::new());
    }
}
