//! Our own files in the user's directories: the cache, logins and locks. They are checked before they are trusted.
//!
//! A file counts only if it is a regular file of the user that we run as, and no other user can read or write it (mode
//! 0600). Its directory has to be the user's own too, and not writable by others (0700 if we make it). On Windows the
//! owners and the access lists are checked, and what we make admits the user and the system only. A file is never
//! opened through a symbolic link; a directory may be one that the user made. Anything else that is found there is
//! refused, and the error says how to repair it: another user may have put it there to feed us a forged login or a
//! forged tool.
//!
//! Files are replaced atomically: written to a temporary file beside them and renamed. A process that is killed leaves
//! its temporary file, which [`replace`] removes an hour later. An [`anonymous`] file leaves nothing.
//!
//! `unix` and `windows` have the checks, `error` and `access` what they share with this file.

use crate::files;
use access::Access;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;

mod access;
mod error;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
pub mod windows;

pub use error::PrivateFileError;

pub mod anonymous;

/// The extension of temporary files.
const TEMPORARY: &str = "tmp";
/// No process writes a file for this long, so an older temporary file was left behind.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The interval between attempts to take a lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Reads a file of ours of at most `limit` bytes, after a check of the file and its directory. Blocks.
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
    open_checked(path, Access::Read)
}

/// Opens a file of ours that processes lock, and makes it and its directory if they do not exist. Does not lock it.
/// Blocks.
///
/// # Errors
///
/// Fails if the file cannot be opened or made, or cannot be trusted.
pub fn open_lock(path: &Path) -> Result<File, PrivateFileError> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    open_checked(path, Access::Write)
}

/// Opens a file of ours to append to it, and makes it, but not its directory, if it does not exist. Blocks.
///
/// # Errors
///
/// Fails if the file cannot be opened or made, or cannot be trusted.
pub fn open_append(path: &Path) -> Result<File, PrivateFileError> {
    check_parent(path)?;
    open_checked(path, Access::Append)
}

/// Locks a file of ours, as [`open_lock`] opens it, until the returned file is dropped. Blocks for `timeout` at most.
/// `None` if another process holds the lock all the time, or `timeout` is shorter than 10 ms: nothing is tried then.
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

/// Checks that a file belongs to the user and that nobody else can change or replace it. A link is followed. Blocks.
///
/// # Errors
///
/// Fails if the file cannot be reached, or cannot be trusted.
pub fn check_owned(path: &Path) -> Result<(), PrivateFileError> {
    check_parent(path)?;
    let file = fs::canonicalize(path).map_err(|error| PrivateFileError::io(path, error))?;
    check_parent(&file)?;
    platform::check_unwritable(&file)
}

/// Makes a directory that only its owner can enter, and those above it, unless it exists. Checks it in either case.
/// None is made in a directory of another user: root would leave there what keeps that user from using it. Blocks.
///
/// # Errors
///
/// Fails if the directory cannot be made, or cannot be trusted.
pub fn private_dir(dir: &Path) -> Result<(), PrivateFileError> {
    // On Windows, what we make has an access list of its own.
    #[cfg(unix)]
    if let Some(place) = dir.ancestors().find(|dir| dir.exists()).filter(|place| *place != dir) {
        platform::check_place(place)?;
    }
    make_dirs(dir).map_err(|error| PrivateFileError::io(dir, error))?;
    check_dir(dir)
}

/// Makes a directory that only its owner can enter, and those above it, unless they exist. One that exists is not
/// checked. Blocks.
///
/// # Errors
///
/// Fails if one cannot be made.
pub fn make_dirs(dir: &Path) -> io::Result<()> {
    match make_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_dirs(dir.parent().filter(|parent| *parent != Path::new("")).ok_or(error)?)?;
            make_dirs(dir)
        }
        // Another process may have been faster.
        Err(_) if dir.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes a directory that only its owner can enter. Blocks.
///
/// # Errors
///
/// Fails if it exists, or cannot be made.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    platform::make_dir(dir)
}

/// Replaces a file of ours atomically, or makes it and its directory. With `durable`, its content is on the disk before
/// the old one is gone. Removes what killed processes left in the directory. Blocks. The caller sees to it that the
/// writers of a file in one process take turns.
///
/// # Errors
///
/// Fails if the file cannot be written, or its directory cannot be trusted.
pub fn replace(path: &Path, content: &[u8], durable: bool) -> Result<(), PrivateFileError> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
        remove_stale_temporaries(dir);
    }
    replace_one_of_many(path, content, durable)
}

/// Replaces a file like [`replace`], for a caller that replaces many files of one directory: that has to exist, and no
/// other file in it is looked at.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn replace_one_of_many(path: &Path, content: &[u8], durable: bool) -> Result<(), PrivateFileError> {
    let temporary = path.with_extension(format!("{}.{TEMPORARY}", std::process::id()));
    // An earlier process with our pid may have left one.
    fs::remove_file(&temporary).ok();
    let written = platform::open(&temporary, Access::CreateNew);
    let written = written.and_then(|mut file| {
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        drop(file);
        platform::rename(&temporary, path)
    });
    written.map_err(|error| {
        fs::remove_file(&temporary).ok();
        PrivateFileError::io(path, error)
    })
}

/// Removes the temporary files in a directory of ours that killed processes left behind. Blocks.
fn remove_stale_temporaries(dir: &Path) {
    remove_stale(dir, |name| Path::new(name).extension().is_some_and(|extension| extension == TEMPORARY));
}

/// Removes the files of a directory that have such names, if they are the user's own and older than `STALE_AFTER`. What
/// cannot be removed stays. Blocks.
pub fn remove_stale(dir: &Path, is_temporary: impl Fn(&OsStr) -> bool) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let now = SystemTime::now();
    let is_stale = |metadata: &Metadata| {
        let age = metadata.modified().ok().and_then(|modified| now.duration_since(modified).ok());
        metadata.is_file() && platform::is_own(metadata) && age.is_some_and(|age| age > STALE_AFTER)
    };
    for entry in entries.flatten().filter(|entry| is_temporary(&entry.file_name())) {
        // The metadata of an entry is that of a link itself.
        if entry.metadata().is_ok_and(|metadata| is_stale(&metadata)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn open_checked(path: &Path, access: Access) -> Result<File, PrivateFileError> {
    let file = platform::open(path, access).map_err(|error| platform::open_error(path, error))?;
    platform::check_file(path, &file)?;
    Ok(file)
}

/// Checks the directory of a file. One that is missing is no error here: opening the file then fails.
///
/// # Errors
///
/// Fails if the directory cannot be trusted, or cannot be looked at although it is not missing.
fn check_parent(path: &Path) -> Result<(), PrivateFileError> {
    match path.parent().map(check_dir) {
        Some(Err(PrivateFileError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => Ok(()),
        checked => checked.unwrap_or(Ok(())),
    }
}

/// Checks a directory. The user may keep it elsewhere, behind a link.
///
/// # Errors
///
/// Fails if it is missing, cannot be looked at, or cannot be trusted.
fn check_dir(dir: &Path) -> Result<(), PrivateFileError> {
    // A relative file without a directory.
    platform::check_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

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
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
    fn files_and_directories_are_made_for_their_owner_only() {
        let (_dir, path) = private_file();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(io::read_to_string(open_private(&path).unwrap()).unwrap(), "text");
        let lock = path.with_extension("lock");
        open_lock(&lock).unwrap();
        assert_eq!(mode(&lock), 0o600);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
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
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
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
        // None is made in a directory of another user.
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        private_dir(&home.join("a/b")).unwrap();
        chown(&home, Some(65534), None).unwrap();
        let message = private_dir(&home.join("c/d")).unwrap_err().to_string();
        assert!(message.contains(&format!("{} belongs to another user", home.display())), "{message}");
        assert!(!home.join("c").exists());
        private_dir(&home.join("a/b")).unwrap();
        // A link to our own directory, made by another user.
        let link = dir.path().join("link");
        symlink(parent, &link).unwrap();
        open_private(&link.join("file.json")).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(refusal(&link.join("file.json")).contains("link belongs to another user"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
    fn a_file_that_is_missing_is_told_apart() {
        let (_dir, path) = private_file();
        fs::remove_file(&path).unwrap();
        assert!(open_private(&path).unwrap_err().is_missing());
        assert!(open_private(Path::new("/nowhere/at/all")).unwrap_err().is_missing());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
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
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
    fn a_write_that_fails_leaves_no_temporary_file() {
        let (_dir, path) = private_file();
        let occupied = path.with_extension("dir");
        fs::create_dir_all(occupied.join("x")).unwrap();
        assert!(!replace(&occupied, b"x", true).unwrap_err().is_untrusted());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
