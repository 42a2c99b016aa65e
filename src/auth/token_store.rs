//! Where logins are kept: a file each, readable by its owner alone, replaced as a whole. Several instances use it.
//!
//! Where the system has a keyring that works, a login is an entry there, and its file says so; the file's time is how
//! others learn of a change.

use super::error::AuthError;
use super::keyring::{Keyring, Unusable};
use super::secret::Secret;
use super::shutdown_guard::Errands;
use crate::config::GroupName;
use files::{blocking, make_private_dir, private, read, try_out, unusable, write};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use unsaved::Unsaved;

mod files;
mod unsaved;

/// A refresh of another instance has its own limits, which are below this.
const PATIENCE: Duration = Duration::from_secs(30);
const VERSION: u32 = 1;
/// Seconds before a token expires that it is renewed in, at most.
const EARLY: u64 = 30;

/// All logins of this user.
#[derive(Debug, Clone)]
pub struct TokenStore {
    dir: PathBuf,
    keyring: Keyring,
    pub(super) errands: Errands,
    unsaved: Unsaved,
}

/// What a file has.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    /// Nothing that is secret.
    InKeyring(Mark),
    Here(Box<Record>),
}

#[derive(Serialize, Deserialize)]
struct Mark {
    version: u32,
    url: String,
    kept: Place,
}

#[derive(Serialize, Deserialize)]
enum Place {
    #[serde(rename = "in the keyring")]
    Keyring,
}

/// What is kept of one login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    /// The server's address: its tokens go nowhere else.
    pub url: String,
    /// Who issued the tokens and knows the client.
    pub issuer: Option<String>,
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub access_token: Option<Secret>,
    pub refresh_token: Option<Secret>,
    /// Seconds since 1970.
    pub received_at: u64,
    pub expires_at: Option<u64>,
    /// What the tokens are good for.
    #[serde(default)]
    pub granted: Vec<String>,
    /// What was asked for at the last login.
    #[serde(default)]
    pub asked: Vec<String>,
    /// What the server has refused requests for the lack of: the next login asks for it.
    #[serde(default)]
    pub wanted: Vec<String>,
}

impl Record {
    pub fn new(url: &str) -> Self {
        Self { version: VERSION, url: url.to_owned(), ..Self::default() }
    }

    /// The token, unless it has expired.
    pub fn live_token(&self) -> Option<&Secret> {
        self.access_token.as_ref().filter(|_| self.expires_at.is_none_or(|at| now() < at))
    }

    /// The token, unless it is to be renewed by now: somewhat before it expires, so that none expires on its way.
    pub fn fresh_token(&self) -> Option<&Secret> {
        let early = |at: u64| EARLY.min(at.saturating_sub(self.received_at) / 4);
        self.access_token.as_ref().filter(|_| self.expires_at.is_none_or(|at| now() + early(at) < at))
    }

    /// No token of it works any more.
    pub fn without_tokens(mut self) -> Self {
        self.access_token = None;
        self.refresh_token = None;
        self
    }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Names one login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    id: String,
    name: GroupName,
}

impl Key {
    /// A server may be in the config twice, for two accounts; its name says which.
    pub fn new(name: &GroupName, url: &str, client_id: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        for part in [name.as_str(), url, client_id.unwrap_or_default()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let readable =
            name.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40);
        let digest = hex(hash, 12);
        Self { id: readable.chain(['-']).chain(digest.chars()).collect(), name: name.clone() }
    }

    /// The same login, as the keyring knows it: that is one for all places with a file and a lock for it.
    fn in_place(&self, dir: &Path) -> Self {
        let canonical = fs::canonicalize(dir);
        let mut hash = Sha256::new();
        hash.update(canonical.as_deref().unwrap_or(dir).as_os_str().as_encoded_bytes());
        Self { id: format!("{}-{}", self.id, hex(hash, 6)), name: self.name.clone() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The server's.
    pub fn name(&self) -> &GroupName {
        &self.name
    }
}

fn hex(hash: Sha256, bytes: usize) -> String {
    hash.finalize().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Nobody else changes this login until it is dropped.
pub struct Lock(#[expect(dead_code, reason = "held")] File);

impl TokenStore {
    pub fn new(dir: PathBuf, keyring: Keyring) -> Self {
        Self { dir, keyring, errands: Errands::default(), unsaved: Unsaved::default() }
    }

    pub fn file(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.json", key.id))
    }

    /// A login that is damaged, or gone from the keyring, is as none: the way out is a login either way.
    pub async fn read(&self, key: &Key, url: &str) -> Result<Option<Record>, AuthError> {
        let kept = self.read_kept(key, url).await;
        self.unsaved.newest(key, kept)
    }

    async fn read_kept(&self, key: &Key, url: &str) -> Result<Option<Record>, AuthError> {
        let record = match self.kept(key).await? {
            Some(Kept::Here(record)) => Some(*record),
            Some(Kept::InKeyring(mark)) if mark.url == url => {
                let text =
                    self.keyring.get(&self.entry(key).await?).await.map_err(|why| out_of_reach(key, why))?;
                text.and_then(|text| serde_json::from_str(text.expose()).ok())
            }
            Some(Kept::InKeyring(_)) | None => None,
        };
        Ok(record.filter(|record| record.version == VERSION && record.url == url))
    }

    async fn kept(&self, key: &Key) -> Result<Option<Kept>, AuthError> {
        let file = self.file(key);
        blocking(move || read(&file)).await
    }

    /// When it was last written. Each writing makes another file of it, so this is another time then.
    pub async fn changed(&self, key: &Key) -> Option<SystemTime> {
        let file = self.file(key);
        let metadata = tokio::task::spawn_blocking(move || fs::symlink_metadata(file)).await.ok()?;
        metadata.ok()?.modified().ok()
    }

    /// Writes a new login: to the keyring, if there is one.
    pub async fn write(&self, key: &Key, record: &Record) -> Result<(), AuthError> {
        self.replace(key, record, true).await?;
        self.unsaved.forget(key);
        Ok(())
    }

    /// Writes what is new of a login to where it is, if that can be: not all who use it may reach the keyring.
    async fn rewrite(&self, key: &Key, record: &Record) -> Result<(), AuthError> {
        self.replace(key, record, false).await?;
        self.unsaved.forget(key);
        Ok(())
    }

    /// The keyring first: whoever sees that the file changed finds the new entry.
    async fn replace(&self, key: &Key, record: &Record, may_move: bool) -> Result<(), AuthError> {
        let here = || Kept::Here(Box::new(record.clone()));
        let before = self.kept(key).await;
        let first = match before {
            // Until the keyring has it: whatever happens meanwhile, what is used up is not all that there is.
            Ok(Some(Kept::Here(_))) => Some(self.keep(key, here()).await),
            _ => None,
        };
        if matches!(first, Some(Ok(()))) && !may_move {
            return Ok(());
        }
        match self.in_keyring(key, record).await {
            Ok(()) => {
                let mark = Mark { version: VERSION, url: record.url.clone(), kept: Place::Keyring };
                match (self.keep(key, Kept::InKeyring(mark)).await, before) {
                    // It says so already; others find the new entry when their token ends.
                    (Err(_), Ok(Some(Kept::InKeyring(before)))) if before.url == record.url => Ok(()),
                    (done, _) => done,
                }
            }
            Err(why) => {
                let group = &key.name;
                match why {
                    Unusable::Off => {}
                    Unusable::Missing => {
                        tracing::debug!(%group, "the login is kept in a file: no keyring can be reached");
                    }
                    why => tracing::info!(%group, "the login is kept in a file: the system's keyring {why}"),
                }
                match first {
                    Some(done) => done,
                    None => self.keep(key, here()).await,
                }
            }
        }
    }

    async fn in_keyring(&self, key: &Key, record: &Record) -> Result<(), Unusable> {
        let text = serde_json::to_string(record).map_err(|error| Unusable::Failed(error.to_string()))?;
        let entry = self.entry(key).await.map_err(|trouble| Unusable::Failed(trouble.to_string()))?;
        self.keyring.put(&entry, Secret::new(text)).await
    }

    /// Where there is a person, has them unlock the keyring. Before `lock`: others wait for that for less long.
    pub async fn unlock(&self, key: &Key) {
        if let Ok(entry) = self.entry(key).await {
            self.keyring.unlock(&entry).await;
        }
    }

    /// Names what the keyring has of a login.
    async fn entry(&self, key: &Key) -> Result<Key, AuthError> {
        let (dir, key) = (self.dir.clone(), key.clone());
        blocking(move || {
            // It has no other name before it is there.
            drop(make_private_dir(&dir));
            Ok(key.in_place(&dir))
        })
        .await
    }

    async fn keep(&self, key: &Key, kept: Kept) -> Result<(), AuthError> {
        let (dir, file) = (self.dir.clone(), self.file(key));
        blocking(move || write(&dir, &file, &kept)).await
    }

    /// If the keyring is not there to be asked, its entry may be left. Returns why, then.
    pub async fn remove(&self, key: &Key) -> Result<Option<Unusable>, AuthError> {
        self.unsaved.forget(key);
        let marked = matches!(self.kept(key).await, Ok(Some(Kept::InKeyring(_))));
        let left = match self.keyring.remove(&self.entry(key).await?).await {
            Err(why @ (Unusable::Off | Unusable::Missing)) if marked => Some(why),
            Err(why) if marked => return Err(not_forgotten(key, why)),
            // At most an entry from before the login came back to its file, whose tokens are used up or replaced.
            Err(_) | Ok(()) => None,
        };
        let file = self.file(key);
        blocking(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(&file, &error)),
            _ => Ok(left),
        })
        .await
    }

    /// Whether a login could be written.
    pub async fn try_out(&self) -> Result<(), AuthError> {
        let dir = self.dir.clone();
        blocking(move || try_out(&dir)).await
    }

    /// Waits for whoever else is changing this login.
    pub async fn lock(&self, key: &Key) -> Result<Lock, AuthError> {
        let file = self.lock_file(key).await?;
        let path = self.lock_path(key);
        let locked = async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(25)).await,
                    Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
                }
            }
        };
        match tokio::time::timeout(PATIENCE, locked).await {
            Ok(locked) => locked.map(|()| Lock(file)),
            Err(_) => Err(AuthError::Busy(format!("another process holds {} for long", path.display()))),
        }
    }

    /// `None`: somebody else is changing this login.
    async fn try_lock(&self, key: &Key) -> Result<Option<Lock>, AuthError> {
        let file = self.lock_file(key).await?;
        let locked = file.try_lock().is_ok();
        Ok(locked.then_some(Lock(file)))
    }

    fn lock_path(&self, key: &Key) -> PathBuf {
        self.dir.join(format!("{}.lock", key.id))
    }

    async fn lock_file(&self, key: &Key) -> Result<File, AuthError> {
        let (dir, path) = (self.dir.clone(), self.lock_path(key));
        blocking(move || {
            make_private_dir(&dir).map_err(|error| unusable(&dir, &error))?;
            let mut options = private();
            options.create(true).truncate(false).write(true);
            options.open(&path).map_err(|error| unusable(&path, &error))
        })
        .await
    }
}

/// The login is in the keyring, which cannot be used.
fn out_of_reach(key: &Key, why: Unusable) -> AuthError {
    let login = format!("run `dynamic-mcp login {}`", key.name);
    let way_out = match why {
        Unusable::Locked => format!("unlock it, or {login}"),
        // A login would go to the same keyring, if its shell reaches it.
        Unusable::Missing => {
            format!("set DBUS_SESSION_BUS_ADDRESS, or set `\"keyring\": false` in `settings` and {login}")
        }
        Unusable::Off | Unusable::Silent | Unusable::Failed(_) => login,
    };
    let what = format!("its login is in the system's keyring, which {why}: {way_out}");
    AuthError::Keyring(why, what)
}

/// The same, for who wants it to be forgotten.
pub(super) fn not_forgotten(key: &Key, why: Unusable) -> AuthError {
    let unlock = match why {
        Unusable::Locked | Unusable::Silent => "unlock it, then",
        _ => "see to that, then",
    };
    let logout = format!("{unlock} run `dynamic-mcp logout {}` again", key.name);
    let what = format!("its login is in the system's keyring, which {why}: {logout}");
    AuthError::Keyring(why, what)
}

#[cfg(test)]
#[path = "token_store/tests.rs"]
mod tests;
