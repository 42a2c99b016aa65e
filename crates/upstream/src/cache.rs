//! Catalogs on disk: what earlier processes learned about the upstreams.
//!
//! # Theory of operation
//!
//! At start every group whose server is in the cache is known at once, without starting the server. One index file
//! holds what `tools/list` and search need of all groups, so a start costs one read. The definitions of a group are in
//! a file of their own, which is read when they are asked for. A server is identified by its launch, a hash of its
//! configuration and its directory, so a server that is configured differently has another entry. A server may also
//! list different things to clients with different capabilities, so an entry has a catalog for each of them
//! (`variants`). A client with capabilities that no earlier client had *borrows* a catalog, which answers until the
//! server's own is read.
//!
//! # Invariants
//!
//! - The cache is optional: a file that cannot be read or written costs a line in the log and nothing else.
//! - Files are replaced as a whole, are readable only by their owner, and are not read if another user could have
//!   written them (`private_files`).
//! - No value of the config is stored, only hashes.

use crate::catalog::Catalog;
use base::blocking;
use base::digest;
use base::files::MAX_CACHED_BYTES;
use base::private_files::{
    PrivateFileError, lock_within, private_dir, read_private, replace, replace_one_of_many,
};
use config::env::Env;
use config::{Endpoint, ServerConfig};
use parking_lot::Mutex;
use process::launch;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use variants::{HASH_BYTES, VariantSummary, Variants, definitions_file};

pub mod export;
mod variants;

/// The version of the file format. Changes whenever the meaning of the files changes; files of another version are not
/// read.
const VERSION: u32 = 7;
/// The name of the index file.
const INDEX: &str = "index.json";
/// The capacity of the cache in servers. Beyond it, those that were read longest ago are dropped.
const MAX_SERVERS: usize = 2000;
/// The limit for the entry of one server in the index, in bytes, so that no server makes the index too large to be
/// read.
const MAX_ENTRY_BYTES: usize = 4 << 20;
/// How long the files may take to be read or written.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for another instance that is writing. After that, its entries may be overwritten.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Identifies a catalog by the configuration of its server, without name and config file, and by the client
/// capabilities that the server was offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// A hash of everything that the server's process depends on.
    launch: String,
    /// A hash of the client capabilities offered to it.
    offer: String,
}

impl CacheKey {
    /// The key of a server that is started with the environment `env`. `offered`: the client capabilities.
    pub(crate) fn of_server(server: &ServerConfig, env: &Env, offered: &[u8]) -> Self {
        let cwd = match &server.endpoint {
            Endpoint::Stdio(stdio) => launch::working_dir(stdio, env),
            Endpoint::Http(_) => PathBuf::new(),
        };
        Self::new(server, &cwd, offered)
    }

    /// Hashes everything that a server's catalog depends on: the fields of its entry that `config::fields` marks as
    /// part of the key, the directory `cwd` in which it is started, and the client capabilities `offered` to it.
    pub fn new(server: &ServerConfig, cwd: &Path, offered: &[u8]) -> Self {
        let features = format!("{:?}", server.common.features);
        let inherit_env = match &server.endpoint {
            Endpoint::Stdio(stdio) => format!("{:?}", stdio.inherit_env),
            Endpoint::Http(_) => String::new(),
        };
        let launch = [
            server.launch_text.as_str().as_bytes(),
            cwd.as_os_str().as_encoded_bytes(),
            features.as_bytes(),
            inherit_env.as_bytes(),
        ];
        Self { launch: digest::of_parts(launch, HASH_BYTES), offer: digest::of_parts([offered], HASH_BYTES) }
    }
}

/// The content of the index file.
#[derive(Default, Serialize, Deserialize)]
struct IndexFile {
    /// The version of the file format, `VERSION`.
    version: u32,
    /// The entries by launch, not yet parsed.
    servers: BTreeMap<String, Box<RawValue>>,
    /// Why the last attempt to connect failed, in a few words, by launch.
    #[serde(default)]
    failures: BTreeMap<String, String>,
}

/// The catalogs that were in the cache when it was read. Holds the whole index, so it is not meant to be kept.
#[derive(Default)]
pub struct CachedCatalogs {
    /// The directory of the cache.
    dir: PathBuf,
    /// Its index.
    index: IndexFile,
}

impl CachedCatalogs {
    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.index.servers.is_empty() && self.index.failures.is_empty()
    }

    /// Why the last attempt to connect to a server failed, in a few words; `None` if it succeeded or is not known.
    pub fn failure(&self, key: &CacheKey) -> Option<&str> {
        self.index.failures.get(&key.launch).map(String::as_str)
    }

    /// The catalog of a server, borrowed if the cache has none under this offer; `None` if the cache does not know the
    /// server or cannot read its entry.
    pub fn get(&self, key: &CacheKey) -> Option<Arc<Catalog>> {
        let variants: Variants = serde_json::from_str(self.index.servers.get(&key.launch)?.get()).ok()?;
        variants.into_catalog(&self.dir, &key.launch, &key.offer)
    }
}

/// What is to be written of each server.
type PendingEntries = BTreeMap<CacheKey, PendingEntry>;

/// What attempts to connect to a server gave.
#[derive(Default)]
struct PendingEntry {
    /// The last catalog that was read.
    catalog: Option<Arc<Catalog>>,
    /// Why the last attempt failed, in a few words; `None` if it did not.
    failure: Option<String>,
}

/// The catalog cache of one instance.
pub struct Cache {
    /// The directory of the cache; `None` if nothing is cached.
    dir: Option<PathBuf>,
    /// What the index had when the cache was opened, until it is taken.
    known: Mutex<CachedCatalogs>,
    /// What is not written yet.
    pending: Mutex<PendingEntries>,
    /// Held by the thread that writes.
    writing: Arc<Mutex<()>>,
}

impl Cache {
    /// Opens the cache in this directory, which is created when it is needed, and reads its index. Blocks. Without a
    /// directory nothing is cached.
    pub fn open(dir: Option<PathBuf>) -> Self {
        let known = dir.clone().map(read_cache).unwrap_or_default();
        Self { dir, known: Mutex::new(known), pending: Mutex::default(), writing: Arc::default() }
    }

    /// Returns the catalogs that `open` found. A second call returns none.
    pub fn take_known(&self) -> CachedCatalogs {
        std::mem::take(&mut *self.known.lock())
    }

    /// Writes the pending catalogs and reads the index, on a thread that may block. Waits up to `FILE_TIMEOUT` for
    /// each. Returns no catalogs if there is no directory, or if the index cannot be read in time.
    pub(crate) async fn flush_and_read(&self) -> CachedCatalogs {
        self.flush().await;
        let Some(dir) = self.dir.clone() else { return CachedCatalogs::default() };
        blocking::run(FILE_TIMEOUT, move || read_cache(dir)).await.unwrap_or_default()
    }

    /// Puts a catalog that was read in this process into the cache. It is written at the next `flush`, and takes the
    /// place of what is pending under the same key.
    pub fn put(&self, key: CacheKey, catalog: Arc<Catalog>) {
        self.update(key, |pending| *pending = PendingEntry { catalog: Some(catalog), failure: None });
    }

    /// Notes why the last attempt to connect failed, in a few words, until a catalog is read. It is written at the next
    /// `flush`, with the catalog that is pending under the same key.
    pub(crate) fn put_failure(&self, key: CacheKey, reason: &str) {
        self.update(key, |pending| pending.failure = Some(reason.to_owned()));
    }

    fn update(&self, key: CacheKey, change: impl FnOnce(&mut PendingEntry)) {
        if self.dir.is_some() {
            change(self.pending.lock().entry(key).or_default());
        }
    }

    /// Writes the pending catalogs and failures, on a thread that may block. Waits up to `FILE_TIMEOUT`; a write that
    /// has begun continues after that. If writing fails, that is logged, and what was pending is not written again.
    pub async fn flush(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        let Some(dir) = self.dir.clone().filter(|_| !pending.is_empty()) else { return };
        let writing = self.writing.clone();
        let written = blocking::run(FILE_TIMEOUT, move || {
            let _turn = writing.lock();
            write(&dir, &pending)
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the catalog cache could not be written"),
            Err(error) => tracing::debug!("the catalog cache could not be written: it {error}"),
        }
    }
}

/// Removes the cache. Returns how many servers it had; 0 if its index cannot be read. Blocks.
///
/// # Errors
///
/// Fails if the directory exists and cannot be removed.
pub fn clear(dir: &Path) -> io::Result<usize> {
    let count = read_index(dir).servers.len();
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(count),
    }
}

fn read_cache(dir: PathBuf) -> CachedCatalogs {
    CachedCatalogs { index: read_index(&dir), dir }
}

/// Reads the index. One that is missing or cannot be used is empty.
fn read_index(dir: &Path) -> IndexFile {
    let text = match read_private(&dir.join(INDEX), MAX_CACHED_BYTES) {
        Err(error) if error.is_missing() => return IndexFile::default(),
        Err(error) if error.is_untrusted() => {
            tracing::warn!("cache of the servers' tools: {error}");
            return IndexFile::default();
        }
        text => text,
    };
    let read = || -> Result<_, String> {
        let text = text.map_err(|e| e.to_string())?;
        let index: IndexFile = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        match index.version {
            VERSION => Ok(index),
            other => Err(format!("its format has version {other} instead of {VERSION}")),
        }
    };
    read().unwrap_or_else(|error| {
        tracing::debug!(dir = %dir.display(), error, "the catalog cache cannot be used");
        IndexFile::default()
    })
}

/// Writes the definitions first and then the index that refers to them, and removes files that nothing refers to any
/// more at the end, so that a reader in between finds the old state. Leaves out a catalog whose definitions are lost,
/// or whose entry exceeds `MAX_ENTRY_BYTES`. Blocks.
///
/// # Errors
///
/// Fails if the directory cannot be made or trusted, or if a file cannot be written. Files that were written before
/// stay.
fn write(dir: &Path, pending: &PendingEntries) -> Result<(), PrivateFileError> {
    private_dir(dir)?;
    let _lock = lock(dir);
    let IndexFile { version, mut servers, mut failures } = read_index(dir);
    let mut obsolete = Vec::new();
    if version != VERSION {
        obsolete.extend(definitions_in(dir));
    }
    for (key, PendingEntry { catalog, failure }) in pending {
        match failure {
            Some(reason) => drop(failures.insert(key.launch.clone(), reason.clone())),
            None => drop(failures.remove(&key.launch)),
        }
        let Some(catalog) = catalog else { continue };
        let Some(body) = catalog.body() else { continue };
        let known = servers.get(&key.launch);
        let known = known.and_then(|variants| serde_json::from_str::<Variants>(variants.get()).ok());
        let mut variants = known.unwrap_or_default();
        let (file, unneeded) = variants.add(&key.launch, &key.offer, catalog, &body);
        let Ok(variants) = to_raw_value(&variants) else { continue };
        if variants.get().len() > MAX_ENTRY_BYTES {
            tracing::debug!(
                bytes = variants.get().len(),
                "the catalog of a server is too large for the cache"
            );
            continue;
        }
        replace_one_of_many(&dir.join(&file), body.as_bytes(), false)?;
        obsolete.retain(|other| *other != file);
        servers.insert(key.launch.clone(), variants);
        obsolete.extend(unneeded);
    }
    obsolete.extend(drop_oldest(&mut servers));
    while failures.len() > MAX_SERVERS {
        failures.pop_first();
    }
    write_index(dir, servers, failures)?;
    for file in obsolete {
        fs::remove_file(dir.join(file)).ok();
    }
    Ok(())
}

/// The names of all files with definitions. No index refers to those of a version that is not read. Blocks.
fn definitions_in(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    names.filter(|name| name != INDEX && name.ends_with(".json")).collect()
}

/// Replaces the index. Blocks.
///
/// # Errors
///
/// It cannot be written.
fn write_index(
    dir: &Path,
    servers: BTreeMap<String, Box<RawValue>>,
    failures: BTreeMap<String, String>,
) -> Result<(), PrivateFileError> {
    let index_file = dir.join(INDEX);
    let index = serde_json::to_vec(&IndexFile { version: VERSION, servers, failures });
    let index =
        index.map_err(|error| PrivateFileError::Io { path: index_file.clone(), error: error.into() })?;
    replace(&index_file, &index, false)
}

/// Drops the servers that were read longest ago if there are more than the capacity. Returns the names of the files
/// that are no longer needed.
fn drop_oldest(servers: &mut BTreeMap<String, Box<RawValue>>) -> Vec<String> {
    let surplus = servers.len().saturating_sub(MAX_SERVERS);
    if surplus == 0 {
        return Vec::new();
    }
    let summaries =
        |entry: &RawValue| -> Vec<VariantSummary> { serde_json::from_str(entry.get()).unwrap_or_default() };
    let read_at = |entry: &RawValue| summaries(entry).iter().map(|variant| variant.read_at_s).max();
    let mut oldest_first: Vec<_> = servers.iter().map(|(key, entry)| (read_at(entry), key.clone())).collect();
    oldest_first.sort();
    let dropped = oldest_first.into_iter().take(surplus);
    let dropped = dropped.filter_map(|(_, launch)| servers.remove_entry(&launch));
    dropped
        .flat_map(|(launch, entry)| {
            summaries(&entry).into_iter().map(move |variant| definitions_file(&launch, &variant.content))
        })
        .collect()
}

/// Locks the cache against writers in other processes until the file is dropped. Returns `None` if another process
/// holds the lock for longer than `LOCK_TIMEOUT`, or if there can be no lock. Blocks.
fn lock(dir: &Path) -> Option<File> {
    lock_within(&dir.join("lock"), LOCK_TIMEOUT).ok()?
}

#[cfg(test)]
mod tests;
