//! The files that a config names and that its values depend on: `env_file` and the targets of `{file:…}`.
//!
//! Loading notes each of them with a stamp, which is taken before the file is read, so that no later change is missed.
//! Stamps come from metadata alone: these files hold secrets, and a password manager may mount one as a FIFO, which
//! gives its content to whoever reads it first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Changes with the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStamp {
    /// There is no such file, or it cannot be reached.
    Missing,
    /// A FIFO or a device. Its content cannot be watched.
    Special,
    /// A regular file.
    Regular {
        /// Its length in bytes.
        length: u64,
        /// When its content last changed.
        modified: Option<SystemTime>,
        /// The device, the inode, and the time of the last change of the inode, in seconds and nanoseconds.
        inode: (u64, u64, i64, i64),
    },
}

impl FileStamp {
    /// Returns the stamp of the file that is at `path` now. Links are followed. Blocks.
    pub fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Err(_) => Self::Missing,
            Ok(metadata) if metadata.is_file() => Self::Regular {
                length: metadata.len(),
                modified: metadata.modified().ok(),
                inode: inode(&metadata),
            },
            Ok(_) => Self::Special,
        }
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn inode(_metadata: &Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

/// The files that were read while a config was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferencedFiles(RefCell<BTreeMap<PathBuf, FileStamp>>);

impl ReferencedFiles {
    /// Notes a file that is about to be read. The first stamp of a file counts.
    pub(super) fn add(&self, path: &Path) {
        self.0.borrow_mut().entry(path.to_owned()).or_insert_with(|| FileStamp::of(path));
    }

    /// Returns the files with their stamps.
    pub(super) fn into_stamps(self) -> BTreeMap<PathBuf, FileStamp> {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_changes_with_the_content_and_not_by_reading() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert_eq!(FileStamp::of(&path), FileStamp::Missing);
        fs::write(&path, "one").unwrap();
        let first = FileStamp::of(&path);
        fs::read(&path).unwrap();
        assert_eq!(FileStamp::of(&path), first);
        let replacement = dir.path().join("new");
        fs::write(&replacement, "two").unwrap();
        fs::rename(&replacement, &path).unwrap();
        let second = FileStamp::of(&path);
        assert_ne!(second, first);
        fs::write(&path, "longer").unwrap();
        assert_ne!(FileStamp::of(&path), second);
        assert_eq!(FileStamp::of(dir.path()), FileStamp::Special);
    }

    #[test]
    fn the_first_stamp_of_a_file_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let files = ReferencedFiles::default();
        files.add(&path);
        fs::write(&path, "x").unwrap();
        files.add(&path);
        assert_eq!(files.into_stamps(), BTreeMap::from([(path, FileStamp::Missing)]));
    }
}
