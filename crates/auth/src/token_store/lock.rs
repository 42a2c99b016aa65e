//! The lock of a login: a file that processes of one user lock while they change the login.

use super::files::{blocking, io_error, store_error};
use crate::error::AuthError;
use base::private_files;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than a refresh by another process takes, which is limited by the timeouts of its requests.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits until nobody else holds the lock. The file that is returned holds it until it is dropped.
///
/// # Errors
///
/// `AuthError::Busy` after `LOCK_TIMEOUT`; `AuthError::Store` if the lock file cannot be used.
pub(super) async fn acquire(path: &Path) -> Result<File, AuthError> {
    let file = open_lock_file(path).await?;
    let locked = async {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(io_error(path, &error)),
            }
        }
    };
    match tokio::time::timeout(LOCK_TIMEOUT, locked).await {
        Ok(locked) => locked.map(|()| file),
        Err(_) => Err(AuthError::Busy(format!(
            "another process has held the lock {} for more than {} s",
            path.display(),
            LOCK_TIMEOUT.as_secs()
        ))),
    }
}

/// Takes the lock. Returns `None` at once if it cannot be taken, as when another process holds it.
pub(super) async fn try_acquire(path: &Path) -> Option<File> {
    open_lock_file(path).await.ok().filter(|file| file.try_lock().is_ok())
}

async fn open_lock_file(path: &Path) -> Result<File, AuthError> {
    let path: PathBuf = path.to_owned();
    blocking(move || private_files::open_lock(&path).map_err(store_error)).await
}
