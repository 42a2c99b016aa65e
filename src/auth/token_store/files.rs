//! A login's file: readable by its owner alone, and replaced as a whole.

use super::{AuthError, Kept};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Off the only thread: a slow disk holds up no call.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(AuthError::Store("the file of the login could not be read".to_owned())))
}

pub(super) fn read(path: &Path) -> Result<Option<Kept>, AuthError> {
    let mut file = match private().read(true).open(path) {
        // Nor is there one that anybody knows of where the way to it is closed.
        Err(_) if fs::symlink_metadata(path).is_err() => return Ok(None),
        file => file.map_err(|error| unusable(path, &error))?,
    };
    #[cfg(unix)]
    {
        let permissions = file.metadata().map_err(|error| unusable(path, &error))?.permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            let message = format!(
                "{path} has tokens in it and may be read by others (mode {mode:o}): run `chmod 600 {path}`"
            );
            return Err(AuthError::Store(message));
        }
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| unusable(path, &error))?;
    Ok(serde_json::from_str(&text).ok())
}

pub(super) fn write(dir: &Path, path: &Path, kept: &Kept) -> Result<(), AuthError> {
    let written = || -> io::Result<()> {
        make_private_dir(dir)?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::remove_file(&temporary).ok();
        let mut file = private().write(true).create_new(true).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(kept)?)?;
        // A refresh token is used up once: a power failure must not leave the old one.
        file.sync_all()?;
        fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary)))
    };
    written().map_err(|error| unusable(path, &error))
}

/// Whether a login could be written, before there is one.
pub(super) fn try_out(dir: &Path) -> Result<(), AuthError> {
    let path = dir.join(format!("{}.tmp", std::process::id()));
    let written = || -> io::Result<()> {
        make_private_dir(dir)?;
        fs::remove_file(&path).ok();
        let mut file = private().write(true).create_new(true).open(&path)?;
        let written = file.write_all(&[0; 4096]);
        fs::remove_file(&path)?;
        written
    };
    written().map_err(|error| unusable(dir, &error))
}

/// Readable by its owner alone; never through a link that somebody put there.
pub(super) fn private() -> fs::OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    options
}

pub(super) fn make_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> AuthError {
    AuthError::Store(format!("{}: {error}", path.display()))
}
