//! The records of what `--write-client` changed: one file each, `1.json` and so on, in `clients` of the state directory.
//!
//! A record is made before its change, and has the text of the client's file as it was. It stays until everything in it
//! was put back, or until the user forgets it; no record expires. Once a part was put back, the record is incomplete: it
//! then has only the entries that are not back, in a text of the same form, and the comments that are not back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use super::change_record::ChangeRecord;
use crate::clients::apps::ClientApp;
use base::{private_files, text};
use config::dirs;
use config::env::Env;

/// The largest file of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 20;
/// Has the last number that a record has had.
const LAST_NUMBER: &str = "last-number";
/// How long another process may write its record.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The records of all changes that were not taken back.
pub(crate) struct ChangeRecords {
    dir: PathBuf,
    records: BTreeMap<u32, ChangeRecord>,
    /// What is wrong with files that cannot be read.
    pub errors: Vec<anyhow::Error>,
}

impl ChangeRecords {
    /// Reads the records of this user. A record that cannot be read is in `errors`.
    ///
    /// # Errors
    ///
    /// Fails if there is no home directory, or the directory cannot be read.
    pub(crate) fn of_user(env: &Env) -> anyhow::Result<Self> {
        let dir = dirs::state_dir(env).context("there is no state directory because HOME is not set")?;
        Self::read(dir.join("clients"))
    }

    fn read(dir: PathBuf) -> anyhow::Result<Self> {
        let mut all = Self { dir, records: BTreeMap::new(), errors: Vec::new() };
        for id in all.ids()? {
            match read_json(&all.path(id)) {
                Ok(record) => drop(record.map(|record| all.records.insert(id, record))),
                Err(error) => all.errors.push(error.context(format!(
                    "record {id} cannot be used; repair its file, or delete it with `dynamic-mcp import --forget {id}`"
                ))),
            }
        }
        Ok(all)
    }

    /// Returns the numbers of the files, in their order.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read. One that does not exist has none.
    fn ids(&self) -> anyhow::Result<BTreeSet<u32>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be read", text::path(&self.dir)));
            }
        };
        let id = |path: &Path| match path.extension()?.to_str()? {
            "json" => path.file_stem()?.to_str()?.parse().ok(),
            _ => None,
        };
        Ok(entries.flatten().filter_map(|entry| id(&entry.path())).collect())
    }

    /// Returns the last number that a record has had, or 0. A user may still have a number in mind whose record is
    /// gone.
    ///
    /// # Errors
    ///
    /// Fails if the directory or the file with the last number cannot be read.
    fn last_number(&self) -> anyhow::Result<u32> {
        let noted: Option<u32> = read_json(&self.dir.join(LAST_NUMBER))?;
        Ok(self.ids()?.last().copied().max(noted).unwrap_or_default())
    }

    /// Returns the file of a record.
    pub(crate) fn path(&self, id: u32) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Returns all records with their numbers, the oldest first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (u32, &ChangeRecord)> {
        self.records.iter().map(|(id, record)| (*id, record))
    }

    /// Returns the clients that had a server of this config file.
    pub(crate) fn earlier_users(&self, server: &str, config: &Path) -> BTreeSet<ClientApp> {
        let of_config = self.all().filter(|(_, record)| record.config.as_deref() == Some(config));
        of_config.filter_map(|(_, record)| record.earlier_user(server)).collect()
    }

    /// Returns the record of this number.
    pub(crate) fn get(&self, id: u32) -> Option<&ChangeRecord> {
        self.records.get(&id)
    }

    /// Returns the records of these clients' files, the latest first.
    pub(crate) fn of(&self, apps: &[ClientApp]) -> Vec<(u32, ChangeRecord)> {
        let is_of = |record: &ChangeRecord| apps.iter().any(|app| app.id == record.client);
        let of_apps = self.all().rev().filter(|(_, record)| is_of(record));
        of_apps.map(|(id, record)| (id, record.clone())).collect()
    }

    /// Adds a record and saves it, before the change itself is made. Returns its number, which no other record has had.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written, or another process holds the lock for longer than `LOCK_TIMEOUT`.
    pub(crate) fn add(&mut self, record: ChangeRecord) -> anyhow::Result<u32> {
        let _lock = self.lock()?;
        let id = self.last_number()? + 1;
        private_files::replace(&self.dir.join(LAST_NUMBER), id.to_string().as_bytes(), true)?;
        self.write(id, &record)?;
        self.records.insert(id, record);
        Ok(id)
    }

    /// Replaces a record.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written, or another process holds the lock for longer than `LOCK_TIMEOUT`.
    pub(crate) fn update(&mut self, id: u32, record: ChangeRecord) -> anyhow::Result<()> {
        let _lock = self.lock()?;
        self.write(id, &record)?;
        self.records.insert(id, record);
        Ok(())
    }

    /// Removes a record, also one that cannot be read. Its number is not used again.
    ///
    /// # Errors
    ///
    /// Fails if its file does not exist or cannot be removed, or another process holds the lock for longer than
    /// `LOCK_TIMEOUT`.
    pub(crate) fn remove(&mut self, id: u32) -> anyhow::Result<()> {
        let _lock = self.lock()?;
        let last = self.last_number()?;
        private_files::replace(&self.dir.join(LAST_NUMBER), last.to_string().as_bytes(), true)?;
        let path = self.path(id);
        fs::remove_file(&path).with_context(|| format!("{} cannot be removed", text::path(&path)))?;
        self.records.remove(&id);
        Ok(())
    }

    /// Takes values that stand in the keyring out of all records. `values`: their names and the values. Returns the
    /// numbers of the records that were changed.
    ///
    /// # Errors
    ///
    /// Fails at the first record that cannot be written. Those before it stay changed.
    pub(crate) fn remove_values(&mut self, values: &[(&str, &str)]) -> anyhow::Result<Vec<u32>> {
        let mut changed = Vec::new();
        for (id, mut record) in self.records.clone() {
            let has_value = values.iter().map(|(name, value)| record.remove_value(name, value));
            if has_value.fold(false, |any, has_value| any | has_value) {
                self.update(id, record)?;
                changed.push(id);
            }
        }
        Ok(changed)
    }

    /// Locks the records for a change.
    ///
    /// # Errors
    ///
    /// Fails if another process holds the lock for longer than `LOCK_TIMEOUT`.
    fn lock(&self) -> anyhow::Result<File> {
        let path = self.dir.join("lock");
        let lock = private_files::lock_within(&path, LOCK_TIMEOUT)?;
        lock.with_context(|| format!("another process holds the lock {}", text::path(&path)))
    }

    fn write(&self, id: u32, record: &ChangeRecord) -> anyhow::Result<()> {
        Ok(private_files::replace(&self.path(id), &serde_json::to_vec_pretty(record)?, true)?)
    }
}

/// Reads a file of records; `None` if it does not exist.
///
/// # Errors
///
/// Fails if the file cannot be read or trusted, is larger than `MAX_RECORD_BYTES`, or has other content.
fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<Option<T>> {
    match private_files::read_private(path, MAX_RECORD_BYTES) {
        Ok(bytes) => {
            let read = serde_json::from_slice(&bytes).map(Some);
            read.with_context(|| format!("{} is damaged", text::path(path)))
        }
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const FILE: &str = "/h/.cursor/mcp.json";
    const BEFORE: &str = "{\n  \"mcpServers\": {\n    \"a\": {\"env\": {\"TOKEN\": \"s3cret\\\"x\"}},\n    \"b\": {\"command\": \"b\"}\n  }\n}\n";

    fn record() -> ChangeRecord {
        ChangeRecord::new(ClientApp::find("cursor").unwrap(), Path::new(FILE), Some(BEFORE), "after")
    }

    fn records() -> (tempfile::TempDir, ChangeRecords) {
        let dir = tempfile::tempdir().unwrap();
        let records = ChangeRecords::read(dir.path().join("clients")).unwrap();
        (dir, records)
    }

    #[test]
    fn each_record_has_a_private_file_and_a_number_of_its_own() {
        let (_dir, mut records) = records();
        assert_eq!((records.add(record()).unwrap(), records.add(record()).unwrap()), (1, 2));
        records.remove(1).unwrap();
        // Another process has read them before.
        let mut other = ChangeRecords::read(records.dir.clone()).unwrap();
        assert_eq!((records.add(record()).unwrap(), other.add(record()).unwrap()), (3, 4));
        let ids: Vec<_> = ChangeRecords::read(records.dir.clone()).unwrap().all().map(|(id, _)| id).collect();
        assert_eq!(ids, [2, 3, 4]);
        other.remove(4).unwrap();
        let id = records.add(record()).unwrap();
        assert_eq!(id, 5, "no number is used again");
        records.remove(id).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(records.path(2)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // One that is damaged does not keep the others.
        private_files::replace(&records.path(3), b"{", false).unwrap();
        let read = ChangeRecords::read(records.dir.clone()).unwrap();
        assert_eq!((read.all().count(), read.errors.len()), (1, 1));
        let error = format!("{:#}", read.errors[0]);
        assert!(error.contains("import --forget 3") && error.contains("3.json is damaged"), "{error}");
    }

    #[test]
    fn values_of_the_keyring_leave_the_records_and_come_back() {
        let (_dir, mut records) = records();
        records.add(record()).unwrap();
        let mut doubled = record();
        doubled.before = Some(BEFORE.replace("\"b\"}", "\"{keyring:a-TOKEN}\"}"));
        let text = doubled.before.clone();
        records.add(doubled).unwrap();
        let values = [("a-TOKEN", "s3cret\"x"), ("other", "nowhere")];
        assert_eq!(records.remove_values(&values).unwrap(), [1, 2]);
        let dir = records.dir.clone();
        for id in [1, 2] {
            assert!(!fs::read_to_string(records.path(id)).unwrap().contains("s3cret"));
        }
        let read = ChangeRecords::read(dir).unwrap();
        let known = BTreeMap::from([("a-TOKEN".to_owned(), "s3cret\"x".to_owned())]);
        assert_eq!(read.get(1).unwrap().text_before(&known).as_deref(), Some(BEFORE));
        assert_eq!(read.get(2).unwrap().text_before(&known), text);
        let unknown = read.get(1).unwrap().text_before(&BTreeMap::new()).unwrap();
        assert!(unknown.contains("\"TOKEN\": \"{keyring:a-TOKEN}\""), "{unknown}");
    }
}
