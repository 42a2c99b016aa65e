//! The log file that is kept by default: bounded, private, and shared by all instances of the user.
//!
//! Each event is one write to the end of the file. The instance that finds the file full renames it, under a lock; the
//! others notice with their next event that their file is full, and open the new one.

use crate::private_files::{PrivateFileError, lock_within, open_append, private_dir};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The size of a file in bytes. A full one is kept beside the new one.
const MAX_BYTES: u64 = 4 << 20;
/// How many full files are kept.
const KEPT: usize = 2;
/// How long to wait for another instance that renames the files. After that, events are lost.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// The name of the file.
const NAME: &str = "dynamic-mcp.log";

/// The current log file. Each write is one whole event.
pub(super) struct LogFile {
    /// The directory.
    dir: PathBuf,
    /// The file, open for appending.
    file: File,
    /// The limit for its size.
    max_bytes: u64,
    /// What each event begins with, because several instances write to the file.
    prefix: String,
}

impl LogFile {
    /// Opens the file in this directory, and makes both if they do not exist. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or if another user could read it.
    pub(super) fn open(dir: &Path) -> Result<Self, PrivateFileError> {
        Self::open_with_limit(dir, MAX_BYTES)
    }

    fn open_with_limit(dir: &Path, max_bytes: u64) -> Result<Self, PrivateFileError> {
        private_dir(dir)?;
        let file = open_append(&path_in(dir))?;
        Ok(Self { dir: dir.to_owned(), file, max_bytes, prefix: format!("[{}] ", std::process::id()) })
    }

    /// Starts a new file, unless another instance has done so. Waits for such an instance, [`LOCK_TIMEOUT`] at most,
    /// and then goes on with the file that is there, which may be full.
    ///
    /// # Errors
    ///
    /// Fails if the lock or the file cannot be opened, or cannot be trusted.
    fn rotate(&mut self) -> Result<(), PrivateFileError> {
        let lock = lock_within(&self.dir.join("lock"), LOCK_TIMEOUT)?;
        let path = path_in(&self.dir);
        let is_full = fs::symlink_metadata(&path).is_ok_and(|file| file.len() >= self.max_bytes);
        if lock.is_some() && is_full {
            for n in (1..=KEPT).rev() {
                let newer = if n == 1 { path.clone() } else { full_file(&self.dir, n - 1) };
                // An older file may not exist. If none can be renamed, the current one stays full.
                fs::rename(newer, full_file(&self.dir, n)).ok();
            }
        }
        self.file = open_append(&path)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if self.file.metadata()?.len() >= self.max_bytes {
            self.rotate().map_err(io::Error::other)?;
            if self.file.metadata()?.len() >= self.max_bytes {
                return Err(io::Error::other("the log file is full and cannot be renamed"));
            }
        }
        self.file.write_all(&[self.prefix.as_bytes(), event].concat())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the path of the current file in this directory.
pub(super) fn path_in(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Returns the path of the full file that was the current one `n` files ago.
fn full_file(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("{NAME}.{n}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
    fn full_files_are_renamed_and_the_oldest_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("log");
        // Two instances.
        let mut logs = [(); 2].map(|()| LogFile::open_with_limit(&dir, 100).unwrap());
        for n in 0..100 {
            logs[n % 2].write_all(format!("event {n} {}\n", "x".repeat(20)).as_bytes()).unwrap();
        }
        let text = |path: PathBuf| fs::read_to_string(path).unwrap();
        let files = [full_file(&dir, 2), full_file(&dir, 1), path_in(&dir)].map(text);
        let all = files.concat();
        assert!(files.iter().all(|file| file.len() < 200), "{files:?}");
        assert!(all.lines().all(|line| line.starts_with(&logs[0].prefix)), "{all}");
        let first = 100 - all.lines().count();
        for (line, n) in all.lines().zip(first..) {
            assert!(line.contains(&format!("event {n} ")), "{all}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 4, "three files and the lock");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(path_in(&dir)).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
