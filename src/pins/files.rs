//! Reads, writes and locks the files of the pins. Everything that touches a file is here, and blocks.
//!
//! A file must be a regular one that belongs to the user and that nobody else can write, because it says which tools
//! may be called.

use super::record::{PinRecord, VERSION};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The limit for one file, in bytes. The bounds of a record are far below.
const MAX_FILE: u64 = 16 << 20;
/// The number of records from which on those of deleted config files are removed.
const MAX_RECORDS: usize = 500;
/// How long to wait for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between attempts to take the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

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
    let bytes = match open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.and_then(read_to_end).map_err(|error| unusable(error.to_string()))?,
    };
    let record: PinRecord = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
    match record.version {
        VERSION => Ok(Some(record)),
        other => Err(unusable(format!("its format has version {other} instead of {VERSION}"))),
    }
}

/// Opens a file that is trusted.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without O_NONBLOCK, opening a FIFO waits for a writer.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other("other users can write it"));
        }
    }
    Ok(file)
}

fn read_to_end(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

/// Replaces the file of a record atomically. The caller holds the lock.
///
/// # Errors
///
/// The file cannot be written. The text names it.
pub(super) fn write(dir: &Path, path: &Path, record: &PinRecord) -> Result<(), String> {
    // The lock makes one name enough, so a process that is killed here leaves one file at most.
    let temporary = dir.join("write.tmp");
    if !path.exists() {
        forget_deleted_configs(dir);
    }
    let written = || -> io::Result<()> {
        fs::remove_file(&temporary).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = private(File::options().write(true).create_new(true)).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        // Otherwise a power failure could leave an empty file, and every tool would be refused.
        file.sync_all()?;
        fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))
    };
    written().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Removes the records of config files that do not exist any more, if there are many records. Those of other configs stay,
/// because without its record a changed tool would be trusted.
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

/// Locks the records against other processes until the file is dropped. Creates the directory.
///
/// # Errors
///
/// There can be no lock, or another process holds it for too long.
pub(super) fn lock(dir: &Path) -> Result<File, String> {
    let path = dir.join("lock");
    let open = || -> io::Result<File> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
        private(File::options().create(true).truncate(false).write(true)).open(&path)
    };
    let file = open().map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    for _ in 0..LOCK_TIMEOUT.as_millis() / LOCK_RETRY_INTERVAL.as_millis() {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
    Err(format!("another process holds the lock {}", path.display()))
}

/// Makes new files readable only by their owner, and opens none through a symbolic link.
fn private(options: &mut OpenOptions) -> &OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options
}
