//! Stores the logins of this user: one file for each, shared by all processes of the user.
//!
//! # Theory of operation
//!
//! Where the system has a keyring that works, a login is an entry of the keyring and its file only says so. Otherwise
//! the file has the login. There is a file in any case: its time and its inode tell other processes that a login changed.
//!
//! - A process changes a login only while it holds the login's lock, which has the methods that do ([`LoginLock`]).
//! - What this process knows of a login is kept once ([`LoginEntry`]), whichever connection or command uses it.
//! - The entry is written before the file that points to it. A login that moves from its file to the keyring is first
//!   written to the file. So a process that is killed between two writes leaves a file that leads to the newest tokens.
//! - Only a new login (`write`) moves to the keyring. Refreshed tokens (`save`) stay where they are, because another
//!   process that uses them may not reach the keyring.
//! - Refreshed tokens that cannot be written stay in memory, and each later use tries again to write them.

use super::error::{AuthError, KeyringError};
use super::keyring::{Keyring, KeyringEntry};
use super::secret::Secret;
use super::shutdown_guard::ShutdownTracker;
use base::private_files::private_dir;
use base::text::shell_word;
use config::GroupName;
use files::{FileVersion, blocking, check_writable, io_error};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stored_login::{KeyringMarker, LoginFile};
use tokio::time::Instant;

mod files;
mod key;
mod lock;
mod stored_login;

pub use key::StoreKey;
pub use stored_login::StoredLogin;

/// How long a login is used before the store is checked for changes by other processes.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// All logins of this user. Clones share the state of this process.
#[derive(Clone)]
pub struct TokenStore {
    /// Has the files and the locks.
    dir: PathBuf,
    /// Has the logins where it works.
    keyring: Keyring,
    /// Delays exit while a token request is under way.
    pub(super) shutdown: ShutdownTracker,
    /// What this process knows of each login.
    logins: Arc<Mutex<HashMap<StoreKey, Arc<Mutex<KnownLogin>>>>>,
    /// The options with which a command finds the same config, with a space before them.
    command_options: Arc<str>,
}

impl TokenStore {
    /// Makes a store with its files in `dir`. Nothing is read or written yet.
    pub fn new(dir: PathBuf, keyring: Keyring) -> Self {
        let (shutdown, logins) = (ShutdownTracker::default(), Arc::default());
        Self { dir, keyring, shutdown, logins, command_options: "".into() }
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

    /// Returns the login at the server with this address.
    pub fn entry(&self, key: StoreKey, url: &str) -> LoginEntry {
        let known = self.logins.lock().entry(key.clone()).or_default().clone();
        LoginEntry { store: self.clone(), key, url: url.to_owned(), known }
    }

    /// Waits at shutdown for token requests that are under way, and tries once more to write what could not be written.
    /// Has no limit of its own. From then on, no token request begins.
    pub async fn finish(&self) {
        self.shutdown.close_and_wait().await;
        let logins = self.logins.lock().clone();
        for (key, known) in logins {
            let url = known.lock().unsaved.as_ref().map(|unsaved| unsaved.login.url.clone());
            if let Some(url) = url {
                self.entry(key, &url).retry_unsaved().await;
            }
        }
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
}

/// One login of the store. All entries of one key share what this process knows of the login.
#[derive(Clone)]
pub struct LoginEntry {
    pub(crate) store: TokenStore,
    pub(crate) key: StoreKey,
    /// The server's address. Tokens for another one are not used.
    url: String,
    known: Arc<Mutex<KnownLogin>>,
}

/// What this process knows of a login.
#[derive(Default)]
struct KnownLogin {
    /// The login as it was last read or written.
    cached: Option<CachedLogin>,
    /// New tokens that could not be written. This process may have the only ones that still work, and goes on with them.
    unsaved: Option<UnsavedLogin>,
}

#[derive(Clone)]
struct CachedLogin {
    /// When the store was last checked for a change.
    checked_at: Instant,
    /// The version of the login's file, if that is known.
    version: Option<FileVersion>,
    /// `None`: there is no login.
    login: Option<StoredLogin>,
}

struct UnsavedLogin {
    /// What has to be written.
    login: StoredLogin,
    /// The stored login that it replaces.
    replaces: Option<StoredLogin>,
}

/// The exclusive right to change a login, across processes. Ends when it is dropped.
pub struct LoginLock {
    login: LoginEntry,
    #[expect(dead_code, reason = "an open file holds the lock")]
    file: File,
}

impl Deref for LoginLock {
    type Target = LoginEntry;

    fn deref(&self) -> &LoginEntry {
        &self.login
    }
}

impl LoginEntry {
    /// Returns the path of the login's file.
    pub fn file(&self) -> PathBuf {
        self.store.dir.join(format!("{}.json", self.key.file_stem()))
    }

    fn lock_file(&self) -> PathBuf {
        self.store.dir.join(format!("{}.lock", self.key.file_stem()))
    }

    /// Waits until nobody else, in this process or another one, holds the lock of the login.
    ///
    /// # Errors
    ///
    /// `AuthError::Busy` after 30 s; `AuthError::Store` if the lock file cannot be used.
    pub async fn lock(&self) -> Result<LoginLock, AuthError> {
        Ok(LoginLock { file: lock::acquire(&self.lock_file()).await?, login: self.clone() })
    }

    /// Returns the stored login, at most `RECHECK_INTERVAL` old. `None`: there is no login. Also tries again to write a
    /// login that could not be written.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub(crate) async fn cached(&self) -> Result<Option<StoredLogin>, AuthError> {
        let cached = self.known.lock().cached.clone();
        if let Some(cached) = &cached
            && cached.checked_at.elapsed() < RECHECK_INTERVAL
        {
            return Ok(cached.login.clone());
        }
        self.retry_unsaved().await;
        match cached {
            // The version of the file shows changes, so that the keyring is not asked every second.
            Some(cached) if cached.version.is_some() && cached.version == self.version().await => {
                self.remember(cached.version, cached.login.clone());
                Ok(cached.login)
            }
            _ => self.read().await,
        }
    }

    /// Reads the stored login, to use it. `None` if there is none, if it is damaged, or if its keyring entry is gone: in
    /// each case the user has to log in. If this process has a newer login that could not be written, returns that one.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if its file cannot be used; `AuthError::Keyring` if it is in a keyring that cannot be used.
    pub async fn read(&self) -> Result<Option<StoredLogin>, AuthError> {
        let version = self.version().await;
        let login = self.peek().await?;
        self.remember(version, login.clone());
        Ok(login)
    }

    /// Reads the stored login like [`read`](Self::read). It still counts as unused by this process.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub(crate) async fn peek(&self) -> Result<Option<StoredLogin>, AuthError> {
        let stored = self.read_stored().await;
        self.newest(stored)
    }

    /// Returns whether another process has changed the login since this one last used or wrote it.
    pub(crate) async fn changed_elsewhere(&self) -> bool {
        let known = self.known.lock().cached.as_ref().and_then(|cached| cached.version);
        let version = self.version().await;
        version.is_some() && version != known
    }

    /// Returns the unwritten login if the stored one is as it was, or cannot be read. If the stored login has changed
    /// since, another process logged in or out: the unwritten one is dropped. `stored` is what was read from the store.
    ///
    /// # Errors
    ///
    /// That of `stored`, if there is no unwritten login.
    fn newest(
        &self,
        stored: Result<Option<StoredLogin>, AuthError>,
    ) -> Result<Option<StoredLogin>, AuthError> {
        let mut known = self.known.lock();
        let unsaved = &mut known.unsaved;
        drop(unsaved.take_if(|unsaved| stored.as_ref().is_ok_and(|stored| *stored != unsaved.replaces)));
        match unsaved {
            Some(unsaved) => Ok(Some(unsaved.login.clone())),
            None => stored,
        }
    }

    async fn read_stored(&self) -> Result<Option<StoredLogin>, AuthError> {
        let login = match self.read_file().await? {
            Some(LoginFile::Inline(login)) => Some(*login),
            Some(LoginFile::InKeyring(marker)) if marker.url == self.url => {
                let entry = self.keyring_entry().await?;
                let text =
                    self.store.keyring.get(&entry).await.map_err(|why| self.unreadable_keyring(why))?;
                text.and_then(|text| serde_json::from_str(text.expose()).ok())
            }
            Some(LoginFile::InKeyring(_)) | None => None,
        };
        Ok(login.filter(|login: &StoredLogin| login.is_usable_for(&self.url)))
    }

    async fn read_file(&self) -> Result<Option<LoginFile>, AuthError> {
        let file = self.file();
        blocking(move || files::read(&file)).await
    }

    /// Returns the version of the login's file. `None` if there is none, or it cannot be accessed. Each write replaces
    /// the file, so each changes the version.
    async fn version(&self) -> Option<FileVersion> {
        let file = self.file();
        blocking(move || files::version(&file)).await.ok()
    }

    fn remember(&self, version: Option<FileVersion>, login: Option<StoredLogin>) {
        self.known.lock().cached = Some(CachedLogin { checked_at: Instant::now(), version, login });
    }

    /// Tries again to write a login that could not be written, unless another process holds the lock.
    async fn retry_unsaved(&self) {
        if self.known.lock().unsaved.is_none() {
            return;
        }
        let Some(file) = lock::try_acquire(&self.lock_file()).await else { return };
        let lock = LoginLock { login: self.clone(), file };
        // Drops the unwritten login if another process has logged in or out.
        drop(self.newest(self.read_stored().await));
        let unsaved = self.known.lock().unsaved.as_ref().map(|unsaved| unsaved.login.clone());
        let Some(login) = unsaved else { return };
        match lock.replace(&login, false).await {
            Ok(()) => tracing::info!(group = %self.key.group(), "its new tokens are stored now"),
            Err(error) => {
                tracing::debug!(group = %self.key.group(), "its new tokens still cannot be stored: {error}");
            }
        }
    }

    async fn write_keyring(&self, login: &StoredLogin) -> Result<(), KeyringError> {
        let text = serde_json::to_string(login).map_err(|error| KeyringError::Failed(error.to_string()))?;
        let entry = self.keyring_entry().await;
        let entry = entry.map_err(|error| KeyringError::Failed(error.to_string()))?;
        self.store.keyring.set(&entry, Secret::new(text)).await
    }

    async fn write_file(&self, content: LoginFile) -> Result<(), AuthError> {
        let file = self.file();
        blocking(move || files::write(&file, &content)).await
    }

    /// Has the user unlock the keyring, where it may ask one. Waits up to a minute. To be called before `lock`: other
    /// processes wait for the lock less long than a user may take. A failure is not returned.
    pub(crate) async fn unlock_keyring(&self) {
        if let Ok(entry) = self.keyring_entry().await {
            self.store.keyring.unlock(&entry).await;
        }
    }

    async fn keyring_entry(&self) -> Result<KeyringEntry, AuthError> {
        let (dir, key) = (self.store.dir.clone(), self.key.clone());
        blocking(move || {
            // The name of the entry has the canonical path of the directory, which exists only for an existing one.
            drop(private_dir(&dir));
            Ok(key.keyring_entry(&dir))
        })
        .await
    }

    /// Returns the error for a login in a keyring that cannot be read.
    fn unreadable_keyring(&self, why: KeyringError) -> AuthError {
        let login = format!("run {}", self.store.command("login", self.key.group()));
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
    pub(crate) fn logout_blocked(&self, why: KeyringError) -> AuthError {
        let repair = match why {
            KeyringError::Locked | KeyringError::TimedOut => "unlock it",
            _ => "repair it",
        };
        let message = format!(
            "its login is in the system's keyring, which {why}: {repair}, then run {} again",
            self.store.command("logout", self.key.group())
        );
        AuthError::Keyring(why, message)
    }
}

impl LoginLock {
    /// Writes a new login, to the keyring if there is one that works, and else to its file.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the file cannot be written.
    pub async fn write(&self, login: &StoredLogin) -> Result<(), AuthError> {
        self.replace(login, true).await?;
        self.remember(self.version().await, Some(login.clone()));
        Ok(())
    }

    /// Writes a login that replaces the `previous` one. It takes effect at once. If it cannot be written, it is kept in
    /// memory, and each later use tries again to write it.
    pub async fn save(&self, login: &StoredLogin, previous: Option<StoredLogin>) {
        self.remember(None, Some(login.clone()));
        if let Err(error) = self.replace(login, false).await {
            let mut known = self.known.lock();
            let first = known.unsaved.take();
            if first.is_none() {
                tracing::warn!(
                    group = %self.key.group(),
                    "its new tokens cannot be stored and are lost when dynamic-mcp exits: {error}"
                );
            }
            let replaces = first.map_or(previous, |first| first.replaces);
            known.unsaved = Some(UnsavedLogin { login: login.clone(), replaces });
        }
        self.remember(self.version().await, Some(login.clone()));
    }

    /// Writes a login to the keyring or its file. Without `may_move`, a login that is in its file stays there if the
    /// file can be written.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the file cannot be written. A keyring that does not work is no error.
    async fn replace(&self, login: &StoredLogin, may_move: bool) -> Result<(), AuthError> {
        let inline = || LoginFile::Inline(Box::new(login.clone()));
        let previous = self.read_file().await;
        // The file has to have the new login until the keyring has it: the tokens in the file may be used up.
        let in_file = match previous {
            Ok(Some(LoginFile::Inline(_))) => Some(self.write_file(inline()).await),
            _ => None,
        };
        if matches!(in_file, Some(Ok(()))) && !may_move {
            self.known.lock().unsaved = None;
            return Ok(());
        }
        match self.write_keyring(login).await {
            Ok(()) => {
                let marker = KeyringMarker::new(&login.url);
                match (self.write_file(LoginFile::InKeyring(marker)).await, previous) {
                    // The file already points to the keyring. Other processes find the new entry when their token
                    // expires.
                    (Err(_), Ok(Some(LoginFile::InKeyring(previous)))) if previous.url == login.url => {}
                    (written, _) => written?,
                }
            }
            Err(why) => {
                let group = self.key.group();
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
                    None => self.write_file(inline()).await?,
                }
            }
        }
        self.known.lock().unsaved = None;
        Ok(())
    }

    /// Removes the login, also if it could not be written. If it is in a keyring that is turned off or cannot be reached,
    /// its entry may be left there; the reason is returned.
    ///
    /// # Errors
    ///
    /// `AuthError::Keyring` if the keyring is there but does not remove the entry: then the login stays.
    /// `AuthError::Store` if the file cannot be removed.
    pub async fn remove(&self) -> Result<Option<KeyringError>, AuthError> {
        self.known.lock().unsaved = None;
        let is_in_keyring = matches!(self.read_file().await, Ok(Some(LoginFile::InKeyring(_))));
        let entry_left = match self.store.keyring.remove(&self.keyring_entry().await?).await {
            Err(why @ (KeyringError::Disabled | KeyringError::Unavailable)) if is_in_keyring => Some(why),
            Err(why) if is_in_keyring => return Err(self.logout_blocked(why)),
            // At worst an old entry is left, whose tokens have been used up or replaced since.
            Err(_) | Ok(()) => None,
        };
        let file = self.file();
        blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&file, &error)),
            _ => Ok(()),
        })
        .await?;
        self.remember(None, None);
        Ok(entry_left)
    }
}

#[cfg(test)]
#[path = "token_store/tests.rs"]
mod tests;
