//! Our own files in the user's directories: the cache, logins and locks. They are checked before they are trusted.
//!
//! A file counts only if it is a regular file of the user that we run as, and no other user can read or write it
//! (mode 0600). Its directory has to be the user's own too, and not writable by others (0700 if we make it). A file is
//! never opened through a symbolic link; a directory may be one that the user made. Whatever else is found there is
//! refused, and the error says how to repair it: another user may have put it there to feed us a forged login or a
//! forged tool.
//!
//! Files are replaced atomically: written to a temporary file beside them and renamed. A process that is killed leaves
//! its temporary file, which [`remove_stale_temporaries`] removes later. An [`anonymous`] file leaves nothing.
//!
//! Owners and modes are checked on Unix only. Windows gives the directories of a user's profile to that user alone.

use crate::files;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub mod anonymous;

/// The extension of temporary files.
const TEMPORARY: &str = "tmp";
/// No process writes a file for this long, so an older temporary file was left behind.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The interval between attempts to take a lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

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
    fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }

    #[cfg(unix)]
    fn untrusted(path: &Path, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Untrusted { path: path.to_owned(), problem: problem.into(), remedy: remedy.into() }
    }

    /// Whether the file or its directory does not exist, or cannot be reached: then we never wrote it.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { path, .. } if fs::symlink_metadata(path).is_err())
    }

    /// Whether a person has to repair something.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, Self::Untrusted { .. })
    }
}

/// Reads a file of ours of at most `limit` bytes, after a check of the file and its directory.
///
/// # Errors
///
/// Fails if the file cannot be read, is larger, or cannot be trusted.
pub fn read_private(path: &Path, limit: u64) -> Result<Vec<u8>, PrivateFileError> {
    let file = open_private(path)?;
    files::read_to_limit(file, limit).map_err(|error| PrivateFileError::io(path, error))
}

/// Opens a file of ours for reading, after a check of the file and its directory. Does not block, even on a FIFO.
///
/// # Errors
///
/// Fails if the file cannot be opened, or cannot be trusted.
fn open_private(path: &Path) -> Result<File, PrivateFileError> {
    check_parent(path)?;
    open_checked(path, File::options().read(true))
}

/// Opens a file of ours that processes lock, and makes it and its directory if they do not exist.
///
/// # Errors
///
/// Fails if the file cannot be opened or made, or cannot be trusted.
pub fn open_lock(path: &Path) -> Result<File, PrivateFileError> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    open_checked(path, File::options().create(true).truncate(false).write(true))
}

/// Opens a file of ours to append to it, and makes it if it does not exist.
///
/// # Errors
///
/// Fails if the file cannot be opened or made, or cannot be trusted.
pub fn open_append(path: &Path) -> Result<File, PrivateFileError> {
    check_parent(path)?;
    open_checked(path, File::options().create(true).append(true))
}

/// Locks a file of ours, as [`open_lock`] opens it, until the returned file is dropped. Blocks. `None` if another process
/// holds the lock all the time.
///
/// # Errors
///
/// Fails if the file cannot be opened or made, or cannot be trusted.
pub fn lock_within(path: &Path, timeout: Duration) -> Result<Option<File>, PrivateFileError> {
    let file = open_lock(path)?;
    for _ in 0..timeout.as_millis() / LOCK_RETRY_INTERVAL.as_millis() {
        if file.try_lock().is_ok() {
            return Ok(Some(file));
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
    Ok(None)
}

/// Checks that a file belongs to the user and that nobody else can change or replace it. A link is followed.
///
/// # Errors
///
/// Fails if the file cannot be reached, or cannot be trusted.
pub fn check_owned(path: &Path) -> Result<(), PrivateFileError> {
    check_parent(path)?;
    let file = fs::canonicalize(path).map_err(|error| PrivateFileError::io(path, error))?;
    check_parent(&file)?;
    #[cfg(unix)]
    {
        let metadata = fs::metadata(&file).map_err(|error| PrivateFileError::io(path, error))?;
        check_owner(&file, &metadata)?;
        check_mode(&file, &metadata, 0o022, 0o600)?;
    }
    Ok(())
}

/// Makes a directory that only its owner can enter, unless it exists. Checks one that exists.
///
/// # Errors
///
/// Fails if the directory cannot be made, or cannot be trusted.
pub fn private_dir(dir: &Path) -> Result<(), PrivateFileError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| PrivateFileError::io(dir, error))?;
    check_dir(dir)
}

/// Replaces a file of ours atomically. With `durable`, its content is on the disk before the old one is gone. The
/// writers of a file in one process take turns.
///
/// # Errors
///
/// Fails if the file cannot be written, or its directory cannot be trusted.
pub fn replace(path: &Path, content: &[u8], durable: bool) -> Result<(), PrivateFileError> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    let temporary = path.with_extension(format!("{}.{TEMPORARY}", std::process::id()));
    // An earlier process with our pid may have left one.
    fs::remove_file(&temporary).ok();
    let written = private_options(File::options().write(true).create_new(true)).open(&temporary);
    let written = written.and_then(|mut file| {
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&temporary, path)
    });
    written.map_err(|error| {
        fs::remove_file(&temporary).ok();
        PrivateFileError::io(path, error)
    })
}

/// Removes the temporary files in a directory of ours that killed processes left behind. Blocks.
pub fn remove_stale_temporaries(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let now = SystemTime::now();
    let is_stale = |metadata: &Metadata| {
        let age = metadata.modified().ok().and_then(|modified| now.duration_since(modified).ok());
        metadata.is_file() && is_own(metadata) && age.is_some_and(|age| age > STALE_AFTER)
    };
    for entry in entries.flatten() {
        let path = entry.path();
        // The metadata of an entry is that of a link itself.
        if path.extension().is_some_and(|extension| extension == TEMPORARY)
            && entry.metadata().is_ok_and(|metadata| is_stale(&metadata))
        {
            fs::remove_file(&path).ok();
        }
    }
}

fn open_checked(path: &Path, options: &mut OpenOptions) -> Result<File, PrivateFileError> {
    let file = private_options(options).open(path).map_err(|error| open_error(path, error))?;
    let metadata = file.metadata().map_err(|error| PrivateFileError::io(path, error))?;
    check_file(path, &metadata)?;
    Ok(file)
}

/// Options that make files which only their owner can use, and that never follow a link or wait for a FIFO.
fn private_options(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options
}

/// The error of an open that failed. What is there may say more than the error of the system.
#[cfg(unix)]
fn open_error(path: &Path, error: io::Error) -> PrivateFileError {
    match fs::symlink_metadata(path) {
        Ok(metadata) => {
            check_file(path, &metadata).err().unwrap_or_else(|| PrivateFileError::io(path, error))
        }
        Err(_) => PrivateFileError::io(path, error),
    }
}

#[cfg(not(unix))]
fn open_error(path: &Path, error: io::Error) -> PrivateFileError {
    PrivateFileError::io(path, error)
}

/// Checks the directory of a file. One that is missing is no error here: opening the file then fails.
fn check_parent(path: &Path) -> Result<(), PrivateFileError> {
    match path.parent().map(check_dir) {
        Some(Err(PrivateFileError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => Ok(()),
        checked => checked.unwrap_or(Ok(())),
    }
}

#[cfg(unix)]
fn is_own(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == nix::unistd::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_metadata: &Metadata) -> bool {
    true
}

#[cfg(unix)]
fn check_file(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
    let untrusted = |problem: &str, remedy: String| Err(PrivateFileError::untrusted(path, problem, remedy));
    if metadata.is_symlink() {
        return untrusted("is a symbolic link", "delete it, or put the file itself in its place".to_owned());
    }
    if !metadata.is_file() {
        return untrusted("is not a regular file", "delete it".to_owned());
    }
    check_owner(path, metadata)?;
    check_mode(path, metadata, 0o077, 0o600)
}

#[cfg(unix)]
fn check_dir(dir: &Path) -> Result<(), PrivateFileError> {
    // A relative file without a directory.
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
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

#[cfg(unix)]
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), PrivateFileError> {
    if is_own(metadata) {
        return Ok(());
    }
    let (owner, own) = (std::os::unix::fs::MetadataExt::uid(metadata), nix::unistd::geteuid());
    let shown = path.display();
    let problem = format!("belongs to another user (uid {owner} instead of {own})");
    let remedy = format!("delete it, or run `sudo chown {own} {shown}` if you trust it");
    Err(PrivateFileError::untrusted(path, problem, remedy))
}

/// Checks that no bit of `forbidden` is set; `wanted` is the mode that repairs it.
#[cfg(unix)]
fn check_mode(path: &Path, metadata: &Metadata, forbidden: u32, wanted: u32) -> Result<(), PrivateFileError> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
    if mode & forbidden == 0 {
        return Ok(());
    }
    let can = if mode & 0o022 == 0 { "read" } else { "changed" };
    let problem = format!("can be {can} by other users (mode {mode:o})");
    Err(PrivateFileError::untrusted(path, problem, format!("run `chmod {wanted:o} {}`", path.display())))
}

#[cfg(not(unix))]
fn check_file(_path: &Path, _metadata: &Metadata) -> Result<(), PrivateFileError> {
    Ok(())
}

#[cfg(not(unix))]
fn check_dir(dir: &Path) -> Result<(), PrivateFileError> {
    fs::metadata(dir).map(drop).map_err(|error| PrivateFileError::io(dir, error))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A directory with a file that can be trusted.
    fn private_file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ours/file.json");
        replace(&path, b"text", false).unwrap();
        (dir, path)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// The error of opening a file, which has to be about trust.
    fn refusal(path: &Path) -> String {
        let error = open_private(path).unwrap_err();
        assert!(error.is_untrusted() && !error.is_missing(), "{error}");
        error.to_string()
    }

    #[test]
    fn files_and_directories_are_made_for_their_owner_only() {
        let (_dir, path) = private_file();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(io::read_to_string(open_private(&path).unwrap()).unwrap(), "text");
        let lock = path.with_extension("lock");
        open_lock(&lock).unwrap();
        assert_eq!(mode(&lock), 0o600);
    }

    #[test]
    fn a_mode_that_lets_others_in_is_refused_with_the_chmod_that_repairs_it() {
        let (_dir, path) = private_file();
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610] {
            set_mode(&path, mode);
            assert!(refusal(&path).contains(&format!("(mode {mode:o}), so it is not used: run `chmod 600 ")));
            assert!(open_lock(&path).unwrap_err().is_untrusted());
        }
        set_mode(&path, 0o600);
        let dir = path.parent().unwrap();
        for mode in [0o777, 0o770, 0o702] {
            set_mode(dir, mode);
            assert!(refusal(&path).contains("run `chmod 700 "), "{mode:o}");
            assert!(replace(&path, b"new", false).unwrap_err().is_untrusted());
        }
        // Others see the names of the files, which say nothing.
        set_mode(dir, 0o755);
        open_private(&path).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let (_dir, path) = private_file();
        let elsewhere = path.with_extension("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(refusal(&path).contains("is a symbolic link"));
        assert!(open_lock(&path).unwrap_err().is_untrusted());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(
            refusal(&path).contains("is not a regular file"),
            "and opening it does not wait for a writer"
        );
        assert!(open_lock(&path).unwrap_err().is_untrusted());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(refusal(&path).contains("is not a regular file"));
    }

    /// Only root can give files away.
    #[test]
    fn files_and_directories_of_another_user_are_refused() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: only root can make a file of another user");
            return;
        }
        let (dir, path) = private_file();
        chown(&path, Some(65534), None).unwrap();
        let message = refusal(&path);
        assert!(message.contains("another user (uid 65534 instead of 0)"), "{message}");
        assert!(message.contains("sudo chown 0 "), "{message}");
        chown(&path, Some(0), None).unwrap();
        open_private(&path).unwrap();
        let parent = path.parent().unwrap();
        chown(parent, Some(65534), None).unwrap();
        assert!(refusal(&path).contains(&format!("{} belongs to another user", parent.display())));
        assert!(replace(&path, b"new", false).unwrap_err().is_untrusted());
        chown(parent, Some(0), None).unwrap();
        // A link to our own directory, made by another user.
        let link = dir.path().join("link");
        symlink(parent, &link).unwrap();
        open_private(&link.join("file.json")).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(refusal(&link.join("file.json")).contains("link belongs to another user"));
    }

    #[test]
    fn a_file_that_is_missing_is_told_apart() {
        let (_dir, path) = private_file();
        fs::remove_file(&path).unwrap();
        assert!(open_private(&path).unwrap_err().is_missing());
        assert!(open_private(Path::new("/nowhere/at/all")).unwrap_err().is_missing());
    }

    #[test]
    fn only_old_temporary_files_of_ours_are_removed() {
        let (_dir, path) = private_file();
        let dir = path.parent().unwrap();
        let make = |name: &str, hours: u64| {
            let path = dir.join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
            path
        };
        let kept = [make("a.1-0.tmp", 0), make("b.json", 9), make("c.tmp.json", 9), dir.join("d.tmp")];
        symlink(&kept[1], dir.join("d.tmp")).unwrap();
        let removed = [make("a.2-0.tmp", 2), make("7.tmp", 30)];
        let foreign = nix::unistd::geteuid().is_root().then(|| make("e.tmp", 9));
        if let Some(foreign) = &foreign {
            chown(foreign, Some(65534), None).unwrap();
        }
        remove_stale_temporaries(dir);
        assert!(removed.iter().all(|path| !path.exists()));
        assert!(kept.iter().chain(&foreign).all(|path| fs::symlink_metadata(path).is_ok()));
        remove_stale_temporaries(Path::new("/nowhere"));
    }

    #[test]
    fn a_write_that_fails_leaves_no_temporary_file() {
        let (_dir, path) = private_file();
        let occupied = path.with_extension("dir");
        fs::create_dir_all(occupied.join("x")).unwrap();
        assert!(!replace(&occupied, b"x", true).unwrap_err().is_untrusted());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
