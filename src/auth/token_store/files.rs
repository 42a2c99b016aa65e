//! Reads and writes the file of a login. Only its owner can read it, and it is replaced atomically.

use super::stored_login::LoginFile;
use crate::auth::error::AuthError;
use crate::blocking;
use crate::files;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The largest file of a login, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// How long an operation on the file of a login may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs file operations on another thread, so that a slow disk does not delay calls.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let done = blocking::run(FILE_TIMEOUT, work).await;
    done.unwrap_or_else(|error| Err(AuthError::Store(format!("access to the file of the login {error}"))))
}

/// Reads the file of a login. `None` if there is none, or its content is not a login.
///
/// # Errors
///
/// `AuthError::Store` if the file cannot be read, is no regular file, or can be read by other users.
pub(super) fn read(path: &Path) -> Result<Option<LoginFile>, AuthError> {
    let file = match private_file_options().read(true).open(path) {
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
    let text = files::read_regular_file(file, MAX_BYTES).map_err(|error| store_error(path, &error))?;
    Ok(serde_json::from_slice(&text).ok())
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
        // A FIFO in place of the file must not block.
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
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
