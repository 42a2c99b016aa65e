//! Owners and modes.

use super::access::Access;
use super::error::PrivateFileError;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes a directory that only its owner can enter.
///
/// # Errors
///
/// Fails if it exists, or cannot be made. Those above it are not made.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Opens a file, or makes one that only its owner can use. Never follows a link or waits for a FIFO.
///
/// # Errors
///
/// Fails if the file is a link, or cannot be opened or made.
pub(super) fn open(path: &Path, access: Access) -> io::Result<File> {
    access.options(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Renames a file, also to the name of another one.
///
/// # Errors
///
/// Fails as rename(2).
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Returns the error of an open that failed. What is there may say more than the error of the system.
pub(super) fn open_error(path: &Path, error: io::Error) -> PrivateFileError {
    let found = fs::symlink_metadata(path).ok().and_then(|metadata| check_metadata(path, &metadata).err());
    found.unwrap_or_else(|| PrivateFileError::io(path, error))
}

/// Returns whether a file belongs to the user.
pub(super) fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == nix::unistd::geteuid().as_raw()
}

/// Checks that an open file is a regular one that only the user can use.
///
/// # Errors
///
/// `Io` if it cannot be looked at, `Untrusted` if it is something else.
pub(super) fn check_file(path: &Path, file: &File) -> Result<(), PrivateFileError> {
    let metadata = file.metadata().map_err(|error| PrivateFileError::io(path, error))?;
    check_metadata(path, &metadata)
}

fn check_metadata(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
    let untrusted = |problem: &str, remedy: &str| Err(PrivateFileError::untrusted(path, problem, remedy));
    if metadata.is_symlink() {
        return untrusted("is a symbolic link", "delete it, or put the file itself in its place");
    }
    if !metadata.is_file() {
        return untrusted("is not a regular file", "delete it");
    }
    check_owner(path, metadata)?;
    check_mode(path, metadata, 0o077, 0o600)
}

/// Checks that a file, which is no link, belongs to the user and that nobody else can write it.
///
/// # Errors
///
/// `Io` if it cannot be looked at, `Untrusted` if others may have changed it.
pub(super) fn check_unwritable(path: &Path) -> Result<(), PrivateFileError> {
    let metadata = fs::metadata(path).map_err(|error| PrivateFileError::io(path, error))?;
    check_owner(path, &metadata)?;
    check_mode(path, &metadata, 0o022, 0o600)
}

/// Checks that a directory belongs to the user and that nobody else can write it. A link is followed if it belongs to
/// the user.
///
/// # Errors
///
/// `Io` if it cannot be looked at, `Untrusted` if it is something else.
pub(super) fn check_dir(dir: &Path) -> Result<(), PrivateFileError> {
    let failed = |error| PrivateFileError::io(dir, error);
    let link = fs::symlink_metadata(dir).map_err(failed)?;
    check_owner(dir, &link)?;
    // The user may keep the directory elsewhere. Nobody else can make a link that belongs to the user.
    let metadata = if link.is_symlink() { fs::metadata(dir).map_err(failed)? } else { link };
    if !metadata.is_dir() {
        return Err(PrivateFileError::untrusted(dir, "is not a directory", "delete it"));
    }
    check_owner(dir, &metadata)?;
    check_mode(dir, &metadata, 0o022, 0o700)
}

/// Checks that a directory in which one of ours is to be made belongs to the user or to root.
///
/// # Errors
///
/// `Io` if it cannot be looked at, `Untrusted` if it belongs to somebody else.
pub(super) fn check_place(dir: &Path) -> Result<(), PrivateFileError> {
    let metadata = fs::metadata(dir).map_err(|error| PrivateFileError::io(dir, error))?;
    match is_own(&metadata) || metadata.uid() == 0 {
        true => Ok(()),
        false => {
            Err(of_another_user(dir, &metadata, "set HOME and the XDG variables to directories of your own"))
        }
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
    if is_own(metadata) {
        return Ok(());
    }
    let (own, shown) = (nix::unistd::geteuid(), path.display());
    let remedy = format!("delete it, or run `sudo chown {own} {shown}` if you trust it");
    Err(of_another_user(path, metadata, remedy))
}

fn of_another_user(path: &Path, metadata: &Metadata, remedy: impl Into<String>) -> PrivateFileError {
    let (owner, own) = (metadata.uid(), nix::unistd::geteuid());
    let problem = format!("belongs to another user (uid {owner} instead of {own})");
    PrivateFileError::untrusted(path, problem, remedy)
}

/// Checks that no bit of `forbidden` is set; `wanted` is the mode that repairs it.
///
/// # Errors
///
/// `Untrusted` if a bit is set.
fn check_mode(path: &Path, metadata: &Metadata, forbidden: u32, wanted: u32) -> Result<(), PrivateFileError> {
    let mode = metadata.permissions().mode() & 0o777;
    if mode & forbidden == 0 {
        return Ok(());
    }
    let can = if mode & 0o022 == 0 { "read" } else { "changed" };
    let problem = format!("can be {can} by other users (mode {mode:o})");
    Err(PrivateFileError::untrusted(path, problem, format!("run `chmod {wanted:o} {}`", path.display())))
}
