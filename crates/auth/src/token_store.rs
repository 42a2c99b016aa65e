//! Stores the logins of this user: one file for each, shared by all processes of the user.
//!
//! # Theory of operation
//!
//! Where the system has a keyring that works, a login is an entry of the keyring and its file only says so. Otherwise
//! the file has the login. There is a file in any case: its time and its inode tell other processes that a login changed.
//!
//! - A process changes a login only while it holds the login's lock (`lock`).
//! - The entry is written before the file that points to it. A login that moves from its file to the keyring is first
//!   written to the file. So a process that is killed between two writes leaves a file that leads to the newest tokens.
//! - Only a new login (`write`) moves to the keyring. Refreshed tokens (`save`) stay where they are, because another
//!   process that uses them may not reach the keyring.
//! - Refreshed tokens that cannot be written stay in memory (`unsaved`), and each later use tries again to write them.

use super::error::{AuthError, KeyringError};
use super::keyring::{Keyring, KeyringEntry};
use super::secret::Secret;
use super::shutdown_guard::ShutdownTracker;
use base::private_files::private_dir;
use base::text::shell_word;
use config::GroupName;
use files::{blocking, check_writable, io_error};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use stored_login::{KeyringMarker, LoginFile};
use unsaved::UnsavedLogins;

mod files;
mod key;
mod lock;
mod stored_login;
mod unsaved;

pub(super) use files::FileVersion;
pub use key::StoreKey;
pub use lock::LoginLock;
pub use stored_login::StoredLogin;

/// All logins of this user. Clones share the state of this process.
#[derive(Debug, Clone)]
pub struct TokenStore {
    /// Has the files and the locks.
    dir: PathBuf,
    /// Has the logins where it works.
    keyring: Keyring,
    /// Delays exit while a token request is under way.
    pub(super) shutdown: ShutdownTracker,
    /// Logins that could not be written yet.
    unsaved: UnsavedLogins,
    /// The options with which a command finds the same config, with a space before them.
    command_options: Arc<str>,
}

impl TokenStore {
    /// Makes a store with its files in `dir`. Nothing is read or written yet.
    pub fn new(dir: PathBuf, keyring: Keyring) -> Self {
        let (shutdown, unsaved) = (ShutdownTracker::default(), UnsavedLogins::default());
        Self { dir, keyring, shutdown, unsaved, command_options: "".into() }
    }

    /// Adds these options to the commands that errors name.
    pub fn with_command_options(self, options: &str) -> Self {
        Self { command_options: options.into(), ..self }
    }

    /// Returns a command about the login of a group, which can be typed in a shell as it is.
    pub(super) fn command(&self, command: &str, group: &GroupName) -> String {
        let name = shell_word(group.as_str()).unwrap_or_else(|| group.to_string());
        format!("`dynamic-mcp {command} {name}{}`", self.command_options)
    }

    /// Returns the path of a login's file.
    pub fn file(&self, key: &StoreKey) -> PathBuf {
        self.dir.join(format!("{}.json", key.file_stem()))
    }

    fn lock_file(&self, key: &StoreKey) -> PathBuf {
        self.dir.join(format!("{}.lock", key.file_stem()))
    }

    /// Reads the login at the server with this address. `None` if there is none, if it is damaged, or if its keyring
    /// entry is gone: in each case the user has to log in. If this process has a newer login that could not be written,
    /// returns that one.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the file cannot be used; `AuthError::Keyring` if the login is in a keyring that cannot be
    /// used.
    pub async fn read(&self, key: &StoreKey, url: &str) -> Result<Option<StoredLogin>, AuthError> {
        let stored = self.read_stored(key, url).await;
        self.unsaved.newest(key, stored)
    }

    async fn read_stored(&self, key: &StoreKey, url: &str) -> Result<Option<StoredLogin>, AuthError> {
        let login = match self.read_file(key).await? {
            Some(LoginFile::Inline(login)) => Some(*login),
            Some(LoginFile::InKeyring(marker)) if marker.url == url => {
                let entry = self.keyring_entry(key).await?;
                let text = self.keyring.get(&entry).await.map_err(|why| self.unreadable_keyring(key, why))?;
                text.and_then(|text| serde_json::from_str(text.expose()).ok())
            }
            Some(LoginFile::InKeyring(_)) | None => None,
        };
        Ok(login.filter(|login: &StoredLogin| login.is_usable_for(url)))
    }

    async fn read_file(&self, key: &StoreKey) -> Result<Option<LoginFile>, AuthError> {
        let file = self.file(key);
        blocking(move || files::read(&file)).await
    }

    /// Returns when the login last changed. `None` if it has no file, or the file cannot be accessed.
    pub async fn modified(&self, key: &StoreKey) -> Option<SystemTime> {
        Some(self.version(key).await?.modified)
    }

    /// Returns the version of the login's file. `None` if there is none, or it cannot be accessed. Each write replaces
    /// the file, so each changes the version.
    pub(super) async fn version(&self, key: &StoreKey) -> Option<FileVersion> {
        let file = self.file(key);
        blocking(move || files::version(&file)).await.ok()
    }

    /// Writes a new login, to the keyring if there is one that works, and else to its file. The caller holds the lock.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the file cannot be written.
    pub async fn write(&self, key: &StoreKey, login: &StoredLogin) -> Result<(), AuthError> {
        self.replace(key, login, true).await
    }

    /// Writes a login that replaces the `previous` one. The caller holds the lock. A login that cannot be written is
    /// kept in memory, and `retry_unsaved` tries again to write it.
    pub async fn save(&self, key: &StoreKey, login: &StoredLogin, previous: Option<StoredLogin>) {
        let Err(error) = self.replace(key, login, false).await else { return };
        if self.unsaved.insert(key, login.clone(), previous) {
            tracing::warn!(
                group = %key.group(),
                "its new tokens cannot be stored and are lost when dynamic-mcp exits: {error}"
            );
        }
    }

    /// Tries again to write a login that could not be written, unless another process holds the lock.
    pub(crate) async fn retry_unsaved(&self, key: &StoreKey) {
        let Some(login) = self.unsaved.get(key) else { return };
        let Ok(Some(_lock)) = LoginLock::try_acquire(&self.lock_file(key)).await else { return };
        // Drops the unwritten login if another process has logged in or out.
        drop(self.read(key, &login.url).await);
        let Some(login) = self.unsaved.get(key) else { return };
        match self.replace(key, &login, false).await {
            Ok(()) => tracing::info!(group = %key.group(), "its new tokens are stored now"),
            Err(error) => {
                tracing::debug!(group = %key.group(), "its new tokens still cannot be stored: {error}");
            }
        }
    }

    /// Waits at shutdown for token requests that are under way, and tries once more to write what could not be written.
    /// Has no limit of its own. From then on, no token request begins.
    pub async fn finish(&self) {
        self.shutdown.close_and_wait().await;
        for key in self.unsaved.keys() {
            self.retry_unsaved(&key).await;
        }
    }

    /// Writes a login to the keyring or its file. Without `may_move`, a login that is in its file stays there if the
    /// file can be written.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the file cannot be written. A keyring that does not work is no error.
    async fn replace(&self, key: &StoreKey, login: &StoredLogin, may_move: bool) -> Result<(), AuthError> {
        let inline = || LoginFile::Inline(Box::new(login.clone()));
        let previous = self.read_file(key).await;
        // The file has to have the new login until the keyring has it: the tokens in the file may be used up.
        let in_file = match previous {
            Ok(Some(LoginFile::Inline(_))) => Some(self.write_file(key, inline()).await),
            _ => None,
        };
        if matches!(in_file, Some(Ok(()))) && !may_move {
            self.unsaved.remove(key);
            return Ok(());
        }
        match self.write_keyring(key, login).await {
            Ok(()) => {
                let marker = KeyringMarker::new(&login.url);
                match (self.write_file(key, LoginFile::InKeyring(marker)).await, previous) {
                    // The file already points to the keyring. Other processes find the new entry when their token
                    // expires.
                    (Err(_), Ok(Some(LoginFile::InKeyring(previous)))) if previous.url == login.url => {}
                    (written, _) => written?,
                }
            }
            Err(why) => {
                let group = key.group();
                match why {
                    KeyringError::Disabled => {}
                    KeyringError::Unavailable => {
                        tracing::debug!(%group, "the login is stored in a file because no keyring can be reached");
                    }
                    why => {
                        tracing::info!(%group, "the login is stored in a file because the system's keyring {why}");
                    }
                }
                match in_file {
                    Some(written) => written?,
                    None => self.write_file(key, inline()).await?,
                }
            }
        }
        self.unsaved.remove(key);
        Ok(())
    }

    async fn write_keyring(&self, key: &StoreKey, login: &StoredLogin) -> Result<(), KeyringError> {
        let text = serde_json::to_string(login).map_err(|error| KeyringError::Failed(error.to_string()))?;
        let entry = self.keyring_entry(key).await;
        let entry = entry.map_err(|error| KeyringError::Failed(error.to_string()))?;
        self.keyring.set(&entry, Secret::new(text)).await
    }

    async fn write_file(&self, key: &StoreKey, content: LoginFile) -> Result<(), AuthError> {
        let file = self.file(key);
        blocking(move || files::write(&file, &content)).await
    }

    /// Has the user unlock the keyring, where it may ask one. Waits up to a minute. To be called before `lock`: other
    /// processes wait for the lock less long than a user may take. A failure is not returned.
    pub(crate) async fn unlock_keyring(&self, key: &StoreKey) {
        if let Ok(entry) = self.keyring_entry(key).await {
            self.keyring.unlock(&entry).await;
        }
    }

    async fn keyring_entry(&self, key: &StoreKey) -> Result<KeyringEntry, AuthError> {
        let (dir, key) = (self.dir.clone(), key.clone());
        blocking(move || {
            // The name of the entry has the canonical path of the directory, which exists only for an existing one.
            drop(private_dir(&dir));
            Ok(key.keyring_entry(&dir))
        })
        .await
    }

    /// Removes a login, also one that could not be written. The caller holds the lock. If the login is in a keyring
    /// that is turned off or cannot be reached, its entry may be left there; the reason is returned.
    ///
    /// # Errors
    ///
    /// `AuthError::Keyring` if the keyring is there but does not remove the entry: then the login stays.
    /// `AuthError::Store` if the file cannot be removed.
    pub async fn remove(&self, key: &StoreKey) -> Result<Option<KeyringError>, AuthError> {
        self.unsaved.remove(key);
        let is_in_keyring = matches!(self.read_file(key).await, Ok(Some(LoginFile::InKeyring(_))));
        let entry_left = match self.keyring.remove(&self.keyring_entry(key).await?).await {
            Err(why @ (KeyringError::Disabled | KeyringError::Unavailable)) if is_in_keyring => Some(why),
            Err(why) if is_in_keyring => return Err(self.logout_blocked(key, why)),
            // At worst an old entry is left, whose tokens have been used up or replaced since.
            Err(_) | Ok(()) => None,
        };
        let file = self.file(key);
        blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&file, &error)),
            _ => Ok(entry_left),
        })
        .await
    }

    /// Checks that a login could be written, before the user is asked to log in.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if it could not.
    pub(crate) async fn check_writable(&self) -> Result<(), AuthError> {
        let dir = self.dir.clone();
        blocking(move || check_writable(&dir)).await
    }

    /// Returns the error for a login in a keyring that cannot be read.
    fn unreadable_keyring(&self, key: &StoreKey, why: KeyringError) -> AuthError {
        let login = format!("run {}", self.command("login", key.group()));
        let way_out = match why {
            KeyringError::Locked => format!("unlock it, or {login}"),
            // A login in a shell that reaches the keyring would be stored in the same keyring.
            KeyringError::Unavailable => {
                format!("set DBUS_SESSION_BUS_ADDRESS, or set `\"keyring\": false` in `settings` and {login}")
            }
            KeyringError::Disabled | KeyringError::TimedOut | KeyringError::Failed(_) => login,
        };
        let message = format!("its login is in the system's keyring, which {why}: {way_out}");
        AuthError::Keyring(why, message)
    }

    /// Returns the error for a logout whose login is in a keyring that does not remove it.
    pub(super) fn logout_blocked(&self, key: &StoreKey, why: KeyringError) -> AuthError {
        let repair = match why {
            KeyringError::Locked | KeyringError::TimedOut => "unlock it",
            _ => "repair it",
        };
        let message = format!(
            "its login is in the system's keyring, which {why}: {repair}, then run {} again",
            self.command("logout", key.group())
        );
        AuthError::Keyring(why, message)
    }

    /// Waits until nobody else, in this process or another one, holds the lock of the login.
    ///
    /// # Errors
    ///
    /// `AuthError::Busy` after 30 s; `AuthError::Store` if the lock file cannot be used.
    pub async fn lock(&self, key: &StoreKey) -> Result<LoginLock, AuthError> {
        LoginLock::acquire(&self.lock_file(key)).await
    }
}

#[cfg(test)]
#[path = "token_store/tests.rs"]
mod tests;
