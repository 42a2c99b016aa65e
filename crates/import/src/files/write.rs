//! Writing files that belong to others.
//!
//! A file is replaced atomically: a temporary file beside it gets the new text, mode and owner, and then its name. A
//! symbolic link stays one: the file that it points to is replaced. A new file is its owner's alone (0600). A file that
//! changed since it was read is not replaced, because its client writes it too.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::source::is_yaml;
use base::files::{MAX_CONFIG_BYTES, read_regular};
use base::private_files;

/// The length of a path of the usual form on Windows (`MAX_PATH`).
const MAX_PATH: usize = 260;

/// Returns the path of a file that exists as an absolute one, without links, `.` and `..`. If there is no file, the
/// path only loses its `.`.
pub fn absolute(path: &Path) -> PathBuf {
    let missing = || path.components().filter(|part| *part != std::path::Component::CurDir).collect();
    path.canonicalize().map_or_else(|_| missing(), without_verbatim_prefix)
}

/// Returns the usual form of a path that Windows has resolved, such as `\\?\C:\x`, which many programs do not
/// understand. A path that is too long for that form, or that has no drive, stays as it is.
fn without_verbatim_prefix(path: PathBuf) -> PathBuf {
    let usual = path.to_str().and_then(|text| text.strip_prefix(r"\\?\"));
    match usual.filter(|usual| usual.get(1..3) == Some(r":\") && usual.len() < MAX_PATH) {
        Some(usual) => usual.into(),
        None => path,
    }
}

/// Returns whether a file is read-only by its mode or attribute, or YAML, which is not edited. One that does not exist is
/// not read-only.
pub fn is_read_only(path: &Path) -> bool {
    is_yaml(path) || fs::metadata(path).is_ok_and(|file| file.permissions().readonly())
}

/// Returns the directories above a file that do not exist, the innermost first.
pub(crate) fn missing_dirs(path: &Path) -> Vec<PathBuf> {
    path.ancestors().skip(1).take_while(|dir| !dir.exists()).map(Path::to_owned).collect()
}

/// Replaces the text of a file, atomically and durably. Makes the directories above it that are missing. `old` is the
/// text that was read; with `None`, there must be no file yet.
///
/// # Errors
///
/// Fails if the file is not as it was read, or cannot be written with the same mode and owner.
pub fn replace(path: &Path, old: Option<&str>, new: &str) -> io::Result<()> {
    replace_within_mode(path, old, new, u32::MAX)
}

/// Returns the permission bits of a file, of Unix. `None` if there is no file.
#[cfg(unix)]
pub fn mode(path: &Path) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).ok()?) & 0o7777)
}

/// Returns `None`: files have no permission bits here.
#[cfg(not(unix))]
pub fn mode(_path: &Path) -> Option<u32> {
    None
}

/// Replaces a file like [`replace`]. The file keeps only those of its permissions that are in `mode`.
///
/// # Errors
///
/// As [`replace`].
pub(crate) fn replace_within_mode(path: &Path, old: Option<&str>, new: &str, mode: u32) -> io::Result<()> {
    let target = check_unchanged(path, old)?;
    let dir = target.parent().unwrap_or_else(|| Path::new("."));
    private_files::make_dirs(dir)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remove_temporaries(dir, &name);
    let temporary = dir.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = write_temporary(&temporary, &target, old.is_some(), new, mode).and_then(|()| {
        // The client may have written meanwhile.
        check_unchanged(path, old)?;
        fs::rename(&temporary, &target)
    });
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Removes a file whose text is `old`. Of a symbolic link, only the link is removed.
///
/// # Errors
///
/// Fails if the file is not as it was read, or cannot be removed.
pub fn remove(path: &Path, old: &str) -> io::Result<()> {
    check_unchanged(path, Some(old))?;
    fs::remove_file(path)
}

/// Returns the file itself, without symbolic links.
///
/// # Errors
///
/// Fails if the text is not `old`, there is a file although `old` is `None`, or the file cannot be read.
fn check_unchanged(path: &Path, old: Option<&str>) -> io::Result<PathBuf> {
    let changed = || io::Error::other("it was changed meanwhile; run the command again");
    match (fs::symlink_metadata(path), old) {
        (Err(error), None) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        (Err(error), Some(_)) if error.kind() == ErrorKind::NotFound => Err(changed()),
        (Err(error), _) => Err(error),
        (Ok(_), old) => {
            let target = fs::canonicalize(path)?;
            match old.map(str::as_bytes) == Some(&read_regular(&target, MAX_CONFIG_BYTES)?) {
                true => Ok(target),
                false => Err(changed()),
            }
        }
    }
}

/// Removes what processes left that were killed while they replaced a file. The directory has files of others, too.
fn remove_temporaries(dir: &Path, name: &str) {
    let is_temporary = |found: &OsStr| {
        let pid =
            found.to_str().and_then(|found| found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.'));
        pid.and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(|pid| pid.parse::<u32>().is_ok())
    };
    private_files::remove_stale(dir, is_temporary);
}

fn write_temporary(temporary: &Path, target: &Path, exists: bool, text: &str, mode: u32) -> io::Result<()> {
    // Of an earlier process with our pid.
    drop(fs::remove_file(temporary));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(temporary)?;
    if exists {
        keep_owner_and_mode(&file, &fs::metadata(target)?, mode)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(unix)]
fn keep_owner_and_mode(file: &File, of: &fs::Metadata, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (of.uid(), of.gid()) {
        std::os::unix::fs::fchown(file, Some(of.uid()), Some(of.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(of.mode() & mode))
}

#[cfg(not(unix))]
fn keep_owner_and_mode(_file: &File, _of: &fs::Metadata, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn mode_owner_and_symlink_stay_and_new_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("real.json");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
        }
        let before = fs::metadata(&file).unwrap();
        let link = dir.path().join("link.json");
        symlink("real.json", &link).unwrap();
        replace(&link, Some("old"), "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let after = fs::metadata(&file).unwrap();
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        let new = dir.path().join("a/b/new.json");
        replace(&new, None, "x").unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no temporary file is left");
    }

    #[test]
    fn resolved_paths_of_windows_have_their_usual_form() {
        let long = format!(r"\\?\C:\{}", "x".repeat(260));
        for (path, expected) in [
            (r"\\?\C:\Users\me", r"C:\Users\me"),
            (r"\\?\UNC\server\share", r"\\?\UNC\server\share"),
            ("/home/me", "/home/me"),
            (&long, &long),
        ] {
            assert_eq!(without_verbatim_prefix(path.into()), Path::new(expected));
        }
    }

    #[test]
    fn a_file_that_changed_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.json");
        fs::write(&file, "theirs").unwrap();
        for old in [None, Some("old")] {
            assert!(replace(&file, old, "ours").is_err());
        }
        assert!(replace(&dir.path().join("missing"), Some("old"), "ours").is_err());
        assert!(remove(&file, "old").is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    }
}
