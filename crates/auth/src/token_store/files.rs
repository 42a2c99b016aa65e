//! Reads and writes the file of a login, which only its owner can read.

use super::stored_login::LoginFile;
use crate::error::AuthError;
use base::blocking;
use base::private_files::{PrivateFileError, private_dir, read_private, replace};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// The largest file of a login, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// How long an operation on the file of a login may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Tells a file from the one that it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    /// When it was written. Two processes can write within one tick of the clock of the file system.
    pub modified: SystemTime,
    /// Its inode, which differs from that of the file that it replaced.
    #[cfg(unix)]
    inode: u64,
}

/// Runs file operations on another thread, so that a slow disk does not delay calls.
///
/// # Errors
///
/// The error of `work`, or `AuthError::Store` if it takes longer than `FILE_TIMEOUT`.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let done = blocking::run(FILE_TIMEOUT, work).await;
    done.unwrap_or_else(|error| Err(AuthError::Store(format!("access to the file of the login {error}"))))
}

/// Reads the file of a login. `None` if there is none, or its content is not a login. Blocks.
///
/// # Errors
///
/// `AuthError::Store` if the file cannot be read, or it or its directory cannot be trusted.
pub(super) fn read(path: &Path) -> Result<Option<LoginFile>, AuthError> {
    let text = match read_private(path, MAX_BYTES) {
        // Also `None` if a directory on the way cannot be entered: no login was ever stored there.
        Err(error) if error.is_missing() => return Ok(None),
        text => text.map_err(store_error)?,
    };
    Ok(serde_json::from_slice(&text).ok())
}

/// Returns the version of the file of a login. Blocks.
///
/// # Errors
///
/// `AuthError::Store` if there is none, or it cannot be accessed.
pub(super) fn version(path: &Path) -> Result<FileVersion, AuthError> {
    let version = fs::symlink_metadata(path).and_then(|metadata| {
        Ok(FileVersion {
            modified: metadata.modified()?,
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    });
    version.map_err(|error| io_error(path, &error))
}

/// Replaces the file of a login, durably. Blocks.
///
/// # Errors
///
/// `AuthError::Store` if it cannot be written.
pub(super) fn write(path: &Path, content: &LoginFile) -> Result<(), AuthError> {
    let text = serde_json::to_vec_pretty(content).map_err(|error| io_error(path, &error.into()))?;
    // Durable: otherwise a power failure could bring back the previous refresh token, which is used up.
    replace(path, &text, true).map_err(store_error)
}

/// Checks that a file can be written to the directory, by writing one and removing it. Creates the directory if there
/// is none. Blocks.
///
/// # Errors
///
/// `AuthError::Store` if it cannot.
pub(super) fn check_writable(dir: &Path) -> Result<(), AuthError> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let path = dir.join(format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    private_dir(dir).and_then(|()| replace(&path, &[0; 4096], false)).map_err(store_error)?;
    fs::remove_file(&path).map_err(|error| io_error(&path, &error))
}

/// Returns the error for a file or directory that cannot be used.
pub(super) fn store_error(error: PrivateFileError) -> AuthError {
    AuthError::Store(error.to_string())
}

/// Returns the error for a file that cannot be read, written or locked.
pub(super) fn io_error(path: &Path, error: &io::Error) -> AuthError {
    AuthError::Store(format!("{}: {error}", path.display()))
}
