//! Reads and writes the file of a login. Only its owner can read it, and it is replaced atomically.

use super::stored_login::LoginFile;
use crate::auth::error::AuthError;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Runs file operations on another thread, so that a slow disk does not delay calls.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(AuthError::Store("access to the file of the login was aborted".to_owned())))
}

/// Reads the file of a login. `None` if there is none, or its content is not a login.
///
/// # Errors
///
/// `AuthError::Store` if the file cannot be read, is a symbolic link, or can be read by other users.
pub(super) fn read(path: &Path) -> Result<Option<LoginFile>, AuthError> {
    let mut file = match private_file_options().read(true).open(path) {
        // Also `None` if a directory on the way cannot be entered: no login was ever stored there.
        Err(_) if fs::symlink_metadata(path).is_err() => return Ok(None),
        file => file.map_err(|error| store_error(path, &error))?,
    };
    #[cfg(unix)]
    {
        let permissions = file.metadata().map_err(|error| store_error(path, &error))?.permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            let message = format!(
                "{path} contains tokens and can be read by other users (mode {mode:o}): run `chmod 600 {path}`"
            );
            return Err(AuthError::Store(message));
        }
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| store_error(path, &error))?;
    Ok(serde_json::from_str(&text).ok())
}

/// Replaces the file of a login.
pub(super) fn write(dir: &Path, path: &Path, content: &LoginFile) -> Result<(), AuthError> {
    let written = || -> io::Result<()> {
        create_private_dir(dir)?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = create_private_file(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(content)?)?;
        // Otherwise a power failure could bring back the previous refresh token, which is used up.
        file.sync_all()?;
        fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))
    };
    written().map_err(|error| store_error(path, &error))
}

/// Checks that a file can be written to the directory.
pub(super) fn check_writable(dir: &Path) -> Result<(), AuthError> {
    let path = dir.join(format!("{}.tmp", std::process::id()));
    let written = || -> io::Result<()> {
        create_private_dir(dir)?;
        let written = create_private_file(&path)?.write_all(&[0; 4096]);
        fs::remove_file(&path)?;
        written
    };
    written().map_err(|error| store_error(dir, &error))
}

/// Options for files that only their owner can read, and that are never opened through a symbolic link.
pub(super) fn private_file_options() -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    options
}

/// Creates a file in place of one that an earlier process may have left.
fn create_private_file(path: &Path) -> io::Result<File> {
    fs::remove_file(path).ok();
    private_file_options().write(true).create_new(true).open(path)
}

/// Creates a directory that only its owner can enter, unless it exists.
pub(super) fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// The error for a file or directory that cannot be used.
pub(super) fn store_error(path: &Path, error: &io::Error) -> AuthError {
    AuthError::Store(format!("{}: {error}", path.display()))
}
