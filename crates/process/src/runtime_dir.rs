//! The directory of our sockets: `$XDG_RUNTIME_DIR/dynamic-mcp`, or `/tmp/dynamic-mcp-UID` if that variable is not
//! set or names no directory, as after `su` and in containers. It must belong to us and be closed to everybody else, or
//! nothing is shared.

use super::own_program::own_program;
use base::digest;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory, verified.
#[derive(Clone, Debug)]
pub struct RuntimeDir(PathBuf);

impl RuntimeDir {
    /// Opens the directory, and creates it if it is missing. `base` is `$XDG_RUNTIME_DIR`, if that is set. If `base`
    /// does not exist, it is the directory in /tmp; if `base` is not ours, that is an error.
    ///
    /// # Errors
    ///
    /// Fails if the directory or `base` is not ours, if others may use it, or if it cannot be created. The error names
    /// the path.
    pub fn open(base: Option<&Path>) -> io::Result<Self> {
        Self::open_or(base, format!("/tmp/dynamic-mcp-{}", nix::unistd::geteuid()).into())
    }

    /// Opens the directory, with `fallback` in place of the directory in /tmp.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    fn open_or(base: Option<&Path>, fallback: PathBuf) -> io::Result<Self> {
        let Some(base) = base else { return Self::open_at(fallback) };
        match check_owner(base) {
            Ok(_) => Self::open_at(base.join("dynamic-mcp")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::open_at(fallback),
            Err(error) => Err(error),
        }
    }

    /// Opens this very directory, and creates it, but none above it, if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if the directory is not ours, if others may use it, or if it cannot be created. The error names the path.
    pub fn open_at(dir: PathBuf) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(with_path(&dir, error)),
        }
        let metadata = check_owner(&dir)?;
        match metadata.mode() & 0o7777 == 0o700 {
            true => Ok(Self(dir)),
            false => Err(with_path(&dir, refused("others may use the directory (its mode is not 0700)"))),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the host's socket. It contains our build, so that a host serves only the build that it is
    /// itself.
    ///
    /// # Errors
    ///
    /// Fails if our executable cannot be found.
    pub fn socket(&self) -> io::Result<PathBuf> {
        Ok(self.0.join(format!("host-{}.sock", build_id()?)))
    }

    /// Opens the file that is locked from looking for a host until one runs, and creates it. The caller locks it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or created.
    pub fn lock_file(&self) -> io::Result<File> {
        self.file_to_lock("lock")
    }

    /// Opens the file with the locks of [`EndingServers`](super::ending_servers::EndingServers), and creates it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or created.
    pub(crate) fn ending_file(&self) -> io::Result<File> {
        self.file_to_lock("ending")
    }

    fn file_to_lock(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW).open(self.0.join(name))
    }

    /// Returns the file that marks a server as one that must not be shared. `program` and `args` identify the server.
    pub fn unshareable_mark(&self, program: &str, args: &[String]) -> PathBuf {
        let parts = std::iter::once(program).chain(args.iter().map(String::as_str));
        self.0.join(format!("private-{}", digest::of_parts(parts, 16)))
    }
}

/// Checks that `path` is a directory of ours that nobody else can write, and no symbolic link. Returns its metadata.
///
/// # Errors
///
/// Fails if it is something else, or there is nothing. The error names the path.
fn check_owner(path: &Path) -> io::Result<fs::Metadata> {
    let metadata = fs::symlink_metadata(path).map_err(|error| with_path(path, error))?;
    let is_ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    match metadata.is_dir() && is_ours && metadata.mode() & 0o022 == 0 {
        true => Ok(metadata),
        false => Err(with_path(path, refused("not a directory of this user alone"))),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Puts the path before an error.
fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Identifies our executable: an upgrade, or another build of the same version, is another file.
///
/// # Errors
///
/// Fails if our executable cannot be found.
fn build_id() -> io::Result<String> {
    let file = fs::metadata(own_program())?;
    let text = format!(
        "{} {} {} {} {} {}",
        env!("CARGO_PKG_VERSION"),
        file.dev(),
        file.ino(),
        file.size(),
        file.mtime(),
        file.mtime_nsec()
    );
    Ok(digest::of(text.as_bytes(), 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_directory_must_be_ours_alone() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o700)).unwrap();
        let dir = RuntimeDir::open(Some(base.path())).unwrap();
        assert_eq!(dir.path(), base.path().join("dynamic-mcp"));
        RuntimeDir::open(Some(base.path())).unwrap();
        for mode in [0o755, 0o777, 0o1700, 0o500] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            assert!(RuntimeDir::open(Some(base.path())).is_err(), "{mode:o}");
        }
        fs::remove_dir(dir.path()).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), dir.path()).unwrap();
        assert!(RuntimeDir::open(Some(base.path())).is_err());
        fs::remove_file(dir.path()).unwrap();
        fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
        let error = RuntimeDir::open(Some(base.path())).unwrap_err().to_string();
        assert_eq!(error, format!("{}: not a directory of this user alone", base.path().display()));
    }

    #[test]
    fn without_a_runtime_directory_the_fallback_is_used_under_the_same_rules() {
        let base = tempfile::tempdir().unwrap();
        let (missing, fallback) = (base.path().join("missing"), base.path().join("fallback"));
        let open = |base| RuntimeDir::open_or(base, fallback.clone());
        for base in [None, Some(&*missing)] {
            let dir = open(base).unwrap();
            assert_eq!(dir.path(), fallback);
            assert_eq!(fs::symlink_metadata(&fallback).unwrap().mode() & 0o7777, 0o700);
            fs::set_permissions(&fallback, Permissions::from_mode(0o755)).unwrap();
            let error = open(base).unwrap_err().to_string();
            let expected = "others may use the directory (its mode is not 0700)";
            assert_eq!(error, format!("{}: {expected}", fallback.display()));
            fs::remove_dir(&fallback).unwrap();
            symlink(base.unwrap_or_else(|| Path::new("/")), &fallback).unwrap();
            assert!(open(base).is_err(), "a symbolic link");
            fs::remove_file(&fallback).unwrap();
        }
        assert!(!missing.exists());
        // A directory that is there is used, and nothing takes the place of one that is not ours alone.
        fs::create_dir(&missing).unwrap();
        fs::set_permissions(&missing, Permissions::from_mode(0o777)).unwrap();
        assert!(open(Some(&missing)).is_err());
        assert!(!fallback.exists());
    }
}
