//! Reads, writes and locks the files of the pins. Everything that touches a file is here, and blocks.
//!
//! A file says which tools may be called, so it is opened only through `private_files`.

use super::record::{PinRecord, VERSION};
use base::private_files::{lock_within, read_private, replace};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The limit for one file, in bytes. A record that exceeds it is written without the details of its tools.
const MAX_FILE: u64 = 16 << 20;
/// The number of records from which on those of deleted config files are removed.
const MAX_RECORDS: usize = 500;
/// How long to wait for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads a record. `None` if there is no file.
///
/// # Errors
///
/// The file cannot be used. The text names it and says what to do.
pub(super) fn read(path: &Path) -> Result<Option<PinRecord>, String> {
    let unusable = |why: String| {
        let path = path.display();
        format!("{path} cannot be used: {why}. Repair it, or delete it to trust the tools as they are then")
    };
    let bytes = match read_private(path, MAX_FILE) {
        Err(error) if error.is_missing() => return Ok(None),
        read => read.map_err(|error| unusable(error.to_string()))?,
    };
    let record: PinRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
    match record.version {
        VERSION => Ok(Some(record)),
        other => Err(unusable(format!("its format has version {other} instead of {VERSION}"))),
    }
}

/// Returns the paths of all files in the directory; none if there is no directory. `None` if they cannot be listed.
pub(super) fn list(dir: &Path) -> Option<HashSet<OsString>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Some(entry.ok()?.path().into_os_string())).collect(),
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then(HashSet::new),
    }
}

/// Replaces the file of a record atomically. The caller holds the lock. A record of more than `MAX_FILE` bytes is
/// written without the details of its tools. If the file is new, records of deleted configs may be removed first.
///
/// # Errors
///
/// The file cannot be written, or the record is too large even without details. The text names the file.
pub(super) fn write(dir: &Path, path: &Path, record: &PinRecord) -> Result<(), String> {
    if !path.exists() {
        forget_deleted_configs(dir);
    }
    let unwritable = |why: String| format!("{} cannot be written: {why}", path.display());
    let json = |record: &PinRecord| serde_json::to_vec_pretty(record).map_err(|error| error.to_string());
    let is_too_large = |bytes: &[u8]| bytes.len() as u64 > MAX_FILE;
    let mut bytes = json(record).map_err(unwritable)?;
    if is_too_large(&bytes) {
        bytes = json(&record.clone().without_details()).map_err(unwritable)?;
    }
    if is_too_large(&bytes) {
        // What cannot be read again would refuse every tool.
        return Err(unwritable(format!("it would have more than {MAX_FILE} bytes")));
    }
    // Without `durable`, a power failure could leave an empty file, and every tool would be refused.
    replace(path, &bytes, true).map_err(|error| unwritable(error.to_string()))
}

/// Removes the records of config files that do not exist any more, if there are many records. Those of other configs
/// stay, because without its record a changed tool would be trusted.
fn forget_deleted_configs(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let records: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    if records.len() < MAX_RECORDS {
        return;
    }
    for path in records {
        let is_gone = |record: &PinRecord| {
            fs::symlink_metadata(&record.config).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if read(&path).is_ok_and(|record| record.as_ref().is_some_and(is_gone)) {
            drop(fs::remove_file(&path));
        }
    }
}

/// Locks the records against other processes until the file is dropped. Creates the directory. Waits up to
/// `LOCK_TIMEOUT`.
///
/// # Errors
///
/// There can be no lock, or another process holds it all the time. The text names its file.
pub(super) fn lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let locked = lock_within(&path, LOCK_TIMEOUT);
    let locked = locked.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    locked.ok_or_else(|| format!("another process holds the lock {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::definition::{DefinitionDigest, PinnedTool};
    use super::super::record::PinTarget;
    use super::*;

    /// A record of the config file `config` with one tool.
    fn record(config: &str) -> PinRecord {
        let definition = wire::Raw::from_static(br#"{"name":"a","inputSchema":{"a":1}}"#);
        let tool = PinnedTool::new(DefinitionDigest::of(&definition), &definition);
        let seen = [("a".to_owned(), tool.with_details(&definition, None))];
        let target = PinTarget { config: config.to_owned(), group: "g".into(), server: "s".into() };
        PinRecord::observe(None, &target, &seen, true, 0).unwrap()
    }

    /// A record of exactly `bytes` bytes in its file.
    fn record_of_size(bytes: u64) -> PinRecord {
        let rest = serde_json::to_vec_pretty(&record("")).unwrap().len();
        record(&"c".repeat(usize::try_from(bytes).unwrap() - rest))
    }

    #[test]
    fn a_record_loses_its_details_if_the_file_would_be_too_large_to_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let largest = record_of_size(MAX_FILE);
        write(dir.path(), &path, &largest).unwrap();
        assert_eq!(read(&path).unwrap().as_ref(), Some(&largest));
        let too_large = record_of_size(MAX_FILE + 1);
        write(dir.path(), &path, &too_large).unwrap();
        assert_eq!(read(&path).unwrap(), Some(too_large.without_details()));
        let before = fs::read(&path).unwrap();
        let refused = write(dir.path(), &path, &record_of_size(2 * MAX_FILE)).unwrap_err();
        assert!(refused.contains("cannot be written: it would have more than"), "{refused}");
        assert!(fs::read(&path).unwrap() == before);
    }

    #[test]
    fn records_of_deleted_configs_are_forgotten_from_the_bound_on() {
        let dir = tempfile::tempdir().unwrap();
        let deleted = serde_json::to_vec(&record("/deleted.json")).unwrap();
        for n in 0..MAX_RECORDS - 1 {
            replace(&dir.path().join(format!("{n}.json")), &deleted, false).unwrap();
        }
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let new = |name: &str| write(dir.path(), &dir.path().join(name), &record("/deleted.json")).unwrap();
        new("new.json");
        assert_eq!(count(), MAX_RECORDS);
        new("new.json");
        assert_eq!(count(), MAX_RECORDS, "the file is there already");
        new("newer.json");
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(list(&dir.path().join("missing")), Some(HashSet::new()));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(list(dir.path()), Some(HashSet::from([file.clone().into_os_string()])));
        assert_eq!(list(&file), None);
    }
}
