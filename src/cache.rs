//! What earlier processes learnt of upstreams, on disk: at the next start every group is known from the first
//! millisecond, without starting one of them.
//!
//! One index file holds what `tools/list` and search need of all groups, so that a start costs one read. A group's
//! definitions are a file of their own, read when somebody asks for them. Nothing here is needed: whatever is wrong
//! with a file costs a debug line. No config value is written, only a hash of what the config says of a server.

use crate::config::ServerConfig;
use crate::upstream::catalog::{Catalog, ListHashes, ServerInfo, Tool};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Changes whenever the files' meaning does; files of another version are not read.
const VERSION: u32 = 3;
const INDEX: &str = "index.json";
/// Servers remembered. Beyond that the ones that were read longest ago are dropped.
const REMEMBERED: usize = 2000;
/// How long to wait for another instance that writes at the same moment; then its entries may be written over.
const LOCK: Duration = Duration::from_millis(200);

/// Names one server as it is configured, wherever that is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// From what the config says (variables unexpanded), the directory it is started in, and what we offer it.
    pub fn new(server: &ServerConfig, cwd: &Path, offered: &[u8]) -> Self {
        let features = format!("{:?}", server.features);
        let written = server.written.as_str().as_bytes();
        let mut hash = Sha256::new();
        for part in [written, cwd.as_os_str().as_encoded_bytes(), features.as_bytes(), offered] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// What the index has of one server.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// Seconds since 1970.
    read: u64,
    /// Milliseconds that connecting took.
    #[serde(default)]
    took: Option<u64>,
    marks: ListHashes,
    introduction: ServerInfo,
    tools: Vec<Tool>,
}

#[derive(Serialize, Deserialize)]
struct Index<E> {
    version: u32,
    servers: BTreeMap<String, E>,
}

/// What was remembered when it was read: all of it, so not to be kept.
#[derive(Default)]
pub struct Known {
    dir: PathBuf,
    index: BTreeMap<String, Box<RawValue>>,
}

impl Known {
    /// What is remembered of a server.
    pub fn get(&self, key: &Key) -> Option<Arc<Catalog>> {
        let entry: Entry = serde_json::from_str(self.index.get(&key.0)?.get()).ok()?;
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(entry.read))?;
        let file = body_file(&self.dir, key);
        let mut catalog = Catalog::cached(entry.introduction, entry.tools, file, at);
        catalog.took = entry.took.map(Duration::from_millis);
        catalog.hashes = entry.marks;
        Some(Arc::new(catalog))
    }
}

/// The cache of one instance. Without a directory it remembers nothing.
pub struct Cache {
    dir: Option<PathBuf>,
    /// Learnt and not yet written.
    learnt: Mutex<BTreeMap<Key, Arc<Catalog>>>,
}

impl Cache {
    pub fn open(dir: Option<PathBuf>) -> Self {
        Self { dir, learnt: Mutex::default() }
    }

    /// Reads the index, if there is one.
    pub fn read(&self) -> Known {
        let Some(dir) = self.dir.clone() else { return Known::default() };
        Known { index: read_index(&dir), dir }
    }

    /// The same with what was learnt until now, in a thread that may block.
    pub async fn read_again(&self) -> Known {
        self.flush().await;
        let Some(dir) = self.dir.clone() else { return Known::default() };
        let reading = tokio::task::spawn_blocking(move || Known { index: read_index(&dir), dir });
        reading.await.unwrap_or_default()
    }

    /// Remembers a catalog that was read in this process, once `flush` is called.
    pub fn put(&self, key: Key, catalog: Arc<Catalog>) {
        if self.dir.is_some() {
            self.learnt.lock().insert(key, catalog);
        }
    }

    /// Writes what was learnt since the last time, in a thread that may block.
    pub async fn flush(&self) {
        let learnt = std::mem::take(&mut *self.learnt.lock());
        let Some(dir) = self.dir.clone().filter(|_| !learnt.is_empty()) else { return };
        let written = tokio::task::spawn_blocking(move || write(&dir, &learnt)).await;
        if let Ok(Err(error)) = written {
            tracing::debug!(%error, "the catalog cache could not be written");
        }
    }
}

/// Removes everything remembered. Returns how many servers that were.
pub fn clear(dir: &Path) -> io::Result<usize> {
    let count = read_index(dir).len();
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(count),
    }
}

fn read_index(dir: &Path) -> BTreeMap<String, Box<RawValue>> {
    let read = || -> Result<_, String> {
        let text = match fs::read(dir.join(INDEX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            text => text.map_err(|e| e.to_string())?,
        };
        let index: Index<Box<RawValue>> = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        match index.version {
            VERSION => Ok(index.servers),
            other => Err(format!("it has version {other}")),
        }
    };
    read().unwrap_or_else(|error| {
        tracing::debug!(dir = %dir.display(), error, "the catalog cache cannot be used");
        BTreeMap::new()
    })
}

fn body_file(dir: &Path, key: &Key) -> PathBuf {
    dir.join(format!("{}.json", key.0))
}

/// Bodies first, then the index that names them: a reader between the two finds what it knew.
fn write(dir: &Path, learnt: &BTreeMap<Key, Arc<Catalog>>) -> io::Result<()> {
    make_private_dir(dir)?;
    let _lock = lock(dir);
    let mut servers = read_index(dir);
    for (key, catalog) in learnt {
        let Some(body) = catalog.body() else { continue };
        replace(&body_file(dir, key), body.as_bytes())?;
        let read = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let entry = Entry {
            read,
            took: catalog.took.and_then(|took| u64::try_from(took.as_millis()).ok()),
            marks: catalog.hashes,
            introduction: catalog.info.clone(),
            tools: catalog.tools.clone(),
        };
        servers.insert(key.0.clone(), to_raw_value(&entry)?);
    }
    forget_oldest(dir, &mut servers);
    let index = serde_json::to_vec(&Index { version: VERSION, servers })?;
    replace(&dir.join(INDEX), &index)
}

fn forget_oldest(dir: &Path, servers: &mut BTreeMap<String, Box<RawValue>>) {
    #[derive(Deserialize)]
    struct Age {
        read: u64,
    }
    let surplus = servers.len().saturating_sub(REMEMBERED);
    if surplus == 0 {
        return;
    }
    let age = |entry: &RawValue| serde_json::from_str::<Age>(entry.get()).map_or(0, |age| age.read);
    let mut by_age: Vec<_> = servers.iter().map(|(key, entry)| (age(entry), key.clone())).collect();
    by_age.sort();
    for (_, key) in by_age.into_iter().take(surplus) {
        servers.remove(&key);
        fs::remove_file(body_file(dir, &Key(key))).ok();
    }
}

/// Held until it is dropped. None: somebody else holds it for long, or it cannot be made.
fn lock(dir: &Path) -> Option<File> {
    let file = File::options().create(true).truncate(false).write(true).open(dir.join("lock")).ok()?;
    let step = Duration::from_millis(10);
    for _ in 0..LOCK.as_millis() / step.as_millis() {
        if file.try_lock().is_ok() {
            return Some(file);
        }
        std::thread::sleep(step);
    }
    None
}

/// A whole file or the old one, readable by its owner alone.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{n}.tmp", std::process::id()));
    let written = create_private(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        drop(file);
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        fs::remove_file(&temporary).ok();
    }
    written
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
