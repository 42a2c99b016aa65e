//! The results that a session keeps, until it ends or newer ones need their place.
//!
//! Small ones are in memory. The others are in files that have no name once they are open (`AnonymousFile`), so that the
//! system removes them with the process. A copy is kept, not the message, whose memory others wait for.

use base::blocking;
use base::private_files::anonymous::AnonymousFile;
use base::random;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::Raw;

/// How many results are kept.
pub(crate) const MAX_RESULTS: usize = 64;
/// How many bytes of results are kept in memory.
const MAX_MEMORY: usize = 8 << 20;
/// A larger result is kept in a file, in bytes.
const MAX_IN_MEMORY: usize = 1 << 20;
/// How many bytes of results are kept in files.
const MAX_IN_FILES: usize = 256 << 20;
/// How long a file may take to be written or read.
const FILE_TIMEOUT: Duration = Duration::from_secs(20);

/// A result that is kept.
#[derive(Clone)]
pub struct StoredResult {
    /// The whole result, as the upstream or `select` gave it.
    pub result: Raw,
    /// The largest part that is read at once, in bytes of text.
    pub(crate) part_bytes: usize,
}

/// The results of one session.
pub struct ResultStore {
    /// The directory of the files; `None`: everything is in memory.
    dir: Option<PathBuf>,
    entries: Mutex<Entries>,
}

/// The results, the oldest first.
#[derive(Default)]
struct Entries(VecDeque<Entry>);

struct Entry {
    id: String,
    place: ResultPlace,
    /// The length of the result.
    bytes: usize,
    part_bytes: usize,
}

#[derive(Clone)]
enum ResultPlace {
    Memory(Raw),
    File(Arc<AnonymousFile>),
}

impl Entry {
    fn is_in_file(&self) -> bool {
        matches!(self.place, ResultPlace::File(_))
    }
}

impl Entries {
    /// Adds a result, and removes the oldest ones until the limits hold.
    fn add(&mut self, entry: Entry) {
        let in_file = entry.is_in_file();
        self.0.push_back(entry);
        while self.0.len() > MAX_RESULTS {
            self.0.pop_front();
        }
        let limit = if in_file { MAX_IN_FILES } else { MAX_MEMORY };
        while self.bytes(in_file) > limit {
            let Some(oldest) = self.0.iter().position(|entry| entry.is_in_file() == in_file) else { return };
            self.0.remove(oldest);
        }
    }

    fn bytes(&self, in_file: bool) -> usize {
        self.0.iter().filter(|entry| entry.is_in_file() == in_file).map(|entry| entry.bytes).sum()
    }
}

impl ResultStore {
    /// Creates an empty store, with this directory for files.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, entries: Mutex::default() }
    }

    /// Keeps a result, in a file if it is large. The oldest results are removed if there are too many. Returns its id,
    /// which cannot be guessed. `None` if the result exceeds `MAX_IN_FILES`, or if it exceeds `MAX_MEMORY` and no file
    /// can be written within `FILE_TIMEOUT`.
    pub async fn add(&self, result: &Raw, part_bytes: usize) -> Option<String> {
        let place = self.place(result).await?;
        let id = random::hex_id();
        let entry = Entry { id: id.clone(), place, bytes: result.len(), part_bytes };
        self.entries.lock().add(entry);
        Some(id)
    }

    async fn place(&self, result: &Raw) -> Option<ResultPlace> {
        let in_memory = || ResultPlace::Memory(Raw::copy_from_slice(result));
        let dir = match &self.dir {
            Some(dir) if result.len() > MAX_IN_MEMORY => dir.clone(),
            _ => return (result.len() <= MAX_MEMORY).then(in_memory),
        };
        if result.len() > MAX_IN_FILES {
            return None;
        }
        let content = result.clone();
        let written = blocking::run(FILE_TIMEOUT, move || AnonymousFile::write(&dir, &content)).await;
        let error = match written {
            Ok(Ok(file)) => return Some(ResultPlace::File(Arc::new(file))),
            Ok(Err(error)) => error.to_string(),
            Err(error) => format!("it {error}"),
        };
        tracing::warn!("a result cannot be kept in a file: {error}");
        (result.len() <= MAX_MEMORY).then(in_memory)
    }

    /// Returns the result of this id. `None` if there is none, or if its file cannot be read within `FILE_TIMEOUT`.
    pub async fn get(&self, id: &str) -> Option<StoredResult> {
        let (place, part_bytes) = {
            let entries = self.entries.lock();
            let entry = entries.0.iter().find(|entry| entry.id == id)?;
            (entry.place.clone(), entry.part_bytes)
        };
        let result = match place {
            ResultPlace::Memory(result) => result,
            ResultPlace::File(file) => {
                let read = blocking::run(FILE_TIMEOUT, move || file.read());
                read.await
                    .ok()?
                    .inspect_err(|error| tracing::warn!("a kept result cannot be read: {error}"))
                    .ok()?
                    .into()
            }
        };
        Some(StoredResult { result, part_bytes })
    }

    /// Returns how many results there are, and how many bytes they have.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.entries.lock();
        (entries.0.len(), entries.bytes(false) + entries.bytes(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: usize, bytes: usize) -> Entry {
        Entry { id: id.to_string(), place: ResultPlace::Memory(Raw::new()), bytes, part_bytes: 0 }
    }

    fn ids(entries: &Entries) -> Vec<&str> {
        entries.0.iter().map(|entry| &*entry.id).collect()
    }

    #[test]
    fn the_oldest_give_way_to_newer_ones_by_count_and_by_bytes() {
        let mut entries = Entries::default();
        (0..MAX_RESULTS + 2).for_each(|id| entries.add(entry(id, 1)));
        assert_eq!((entries.0.len(), ids(&entries)[0]), (MAX_RESULTS, "2"));
        entries.add(entry(100, MAX_MEMORY - 1));
        assert_eq!(ids(&entries), [&*(MAX_RESULTS + 1).to_string(), "100"]);
        entries.add(entry(101, 2));
        assert_eq!(ids(&entries), ["101"], "each kind has its own limit of bytes");
    }

    #[tokio::test]
    async fn large_results_are_in_files_without_a_name_and_small_ones_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResultStore::new(Some(dir.path().join("results")));
        let large = Raw::from(vec![b'x'; MAX_IN_MEMORY + 1]);
        let (small_id, large_id) =
            (store.add(&"{}".into(), 7).await.unwrap(), store.add(&large, 8).await.unwrap());
        assert_ne!(small_id, large_id);
        assert_eq!(store.get(&small_id).await.unwrap().result, "{}");
        let stored = store.get(&large_id).await.unwrap();
        assert!(stored.result == large && stored.part_bytes == 8);
        assert_eq!(store.size(), (2, large.len() + 2));
        // On Windows they have one until they are closed, and no other process can open them.
        let files =
            || std::fs::read_dir(dir.path().join("results")).unwrap().map(|file| file.unwrap().path());
        assert_eq!(files().count(), usize::from(cfg!(windows)));
        assert!(files().all(|path| std::fs::read(path).is_err()));
        assert!(store.get("other").await.is_none());
        assert!(store.entries.lock().0[1].is_in_file());
        drop((store, stored));
        assert_eq!(files().count(), 0);
    }

    #[tokio::test]
    async fn without_a_directory_only_memory_is_used_and_its_limit_holds() {
        let store = ResultStore::new(None);
        let large = Raw::from(vec![b'x'; MAX_MEMORY / 2]);
        for _ in 0..3 {
            store.add(&large, 0).await.unwrap();
        }
        assert_eq!(store.size(), (2, MAX_MEMORY));
        assert_eq!(store.add(&vec![b'x'; MAX_MEMORY + 1].into(), 0).await, None);
        let blocked = ResultStore::new(Some("/dev/null/not".into()));
        assert!(blocked.add(&large, 0).await.is_some(), "memory, where no file can be written");
    }
}
