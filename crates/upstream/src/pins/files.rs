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
