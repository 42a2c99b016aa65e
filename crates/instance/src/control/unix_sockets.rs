//! Endpoints that are sockets: `instance-PID.sock`, with a number if a process has several, in the runtime directory
//! (`process/runtime_dir.rs`). A process of another pid namespace may have the same pid; then another number follows a dot.

use config::env::Env;
use process::runtime_dir::RuntimeDir;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

pub(super) use SocketEndpoint as OwnEndpoint;

/// Returns `$XDG_RUNTIME_DIR`, if it is set.
pub(super) fn base(env: &Env) -> Option<PathBuf> {
    env.get_non_empty("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// Returns the runtime directory.
///
/// # Errors
///
/// Fails if it cannot be used.
pub(super) fn dir(base: Option<&Path>) -> io::Result<PathBuf> {
    Ok(RuntimeDir::open(base)?.path().to_owned())
}

/// The socket of this instance.
pub(super) struct SocketEndpoint {
    listener: UnixListener,
    /// Removed when this is dropped.
    path: PathBuf,
    /// The number of its file, in case that another process has replaced it.
    inode: u64,
}

/// How many processes of one pid an instance makes room for.
const MAX_SAME_PIDS: usize = 64;

impl Drop for SocketEndpoint {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Returns a path for a new socket, after removing what a process that was killed has left there.
///
/// # Errors
///
/// Fails if too many processes have this name, or if such a file cannot be removed.
fn free_path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 0..MAX_SAME_PIDS {
        let suffix = if number == 0 { String::new() } else { format!(".{number}") };
        let path = dir.join(format!("{name}{suffix}.sock"));
        match StdUnixStream::connect(&path) {
            // A process that had this pid before and was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // It lives, in another pid namespace.
            _ => continue,
        }
        return Ok(path);
    }
    Err(io::ErrorKind::AddrInUse.into())
}

impl SocketEndpoint {
    /// Makes it and listens. `name`: that of its file.
    ///
    /// # Errors
    ///
    /// Fails if the runtime directory cannot be used.
    pub(super) fn listen(base: Option<&Path>, name: &str) -> io::Result<Self> {
        let dir = RuntimeDir::open(base)?;
        let path = free_path(dir.path(), name)?;
        // It gets its name when it listens: before that it refuses connections, and commands remove a socket that does.
        let unnamed = path.with_extension("new");
        fs::remove_file(&unnamed).ok();
        let listener = UnixListener::bind(&unnamed)?;
        fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o600))?;
        let inode = fs::symlink_metadata(&unnamed)?.ino();
        fs::rename(&unnamed, &path)?;
        Ok(Self { listener, path, inode })
    }

    /// Waits for the next command.
    ///
    /// # Errors
    ///
    /// Fails if descriptors are exhausted, for example.
    pub(super) async fn accept(&mut self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

/// Checks that a command runs as the same user.
///
/// # Errors
///
/// Fails if it does not.
pub(super) fn check_peer(socket: &UnixStream) -> io::Result<()> {
    match socket.peer_cred()?.uid() == nix::unistd::geteuid().as_raw() {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Returns the sockets of all instances, also of those that were killed.
///
/// # Errors
///
/// Fails if the runtime directory cannot be used.
pub(super) fn find(base: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let dir = RuntimeDir::open(base)?;
    let files = fs::read_dir(dir.path())?.flatten().map(|file| file.path());
    let is_instance = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("instance-") && name.ends_with(".sock")
    };
    Ok(files.filter(is_instance).collect())
}

/// Connects to a socket.
///
/// # Errors
///
/// Fails with `ConnectionRefused` if no process has it, and with `NotFound` if it does not exist.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}
