//! Why a file of ours is not used.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Why a file or directory of ours cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another user may have made or changed it, or can read it.
    #[error("{} {problem}, so it is not used: {remedy}", path.display())]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it, after its name.
        problem: String,
        /// What the user can do.
        remedy: String,
    },
}

impl PrivateFileError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }

    pub(super) fn untrusted(path: &Path, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Untrusted { path: path.to_owned(), problem: problem.into(), remedy: remedy.into() }
    }

    /// Returns whether the file or its directory does not exist, or cannot be reached: then we never wrote it.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { path, .. } if fs::symlink_metadata(path).is_err())
    }

    /// Returns whether a person has to repair something.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, Self::Untrusted { .. })
    }
}
