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

/// The exclusive right to change a login, across processes. Ends when it is dropped.
pub struct LoginLock(#[expect(dead_code, reason = "an open file holds the lock")] File);

impl LoginLock {
    /// Waits until nobody else holds the lock.
    ///
    /// # Errors
    ///
    /// `AuthError::Busy` after `LOCK_TIMEOUT`; `AuthError::Store` if the lock file cannot be used.
    pub(super) async fn acquire(path: &Path) -> Result<Self, AuthError> {
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
            Ok(locked) => locked.map(|()| Self(file)),
            Err(_) => Err(AuthError::Busy(format!(
                "another process has held the lock {} for more than {} s",
                path.display(),
                LOCK_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Takes the lock. Returns `None` at once if it cannot be taken, as when another process holds it.
    ///
    /// # Errors
    ///
    /// `AuthError::Store` if the lock file cannot be opened.
    pub(super) async fn try_acquire(path: &Path) -> Result<Option<Self>, AuthError> {
        let file = open_lock_file(path).await?;
        let is_locked = file.try_lock().is_ok();
        Ok(is_locked.then_some(Self(file)))
    }
}

async fn open_lock_file(path: &Path) -> Result<File, AuthError> {
    let path: PathBuf = path.to_owned();
    blocking(move || private_files::open_lock(&path).map_err(store_error)).await
}
