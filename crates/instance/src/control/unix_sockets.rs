//! Endpoints that are sockets: `instance-PID.sock`, with a number if a process has several, in the runtime directory (`process/runtime_dir.rs`).

use config::env::Env;
use process::runtime_dir::RuntimeDir;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
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
}

impl Drop for SocketEndpoint {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

impl SocketEndpoint {
    /// Makes it and listens. `name`: that of its file.
    ///
    /// # Errors
    ///
    /// Fails if the runtime directory cannot be used.
    pub(super) fn listen(base: Option<&Path>, name: &str) -> io::Result<Self> {
        let dir = RuntimeDir::open(base)?;
        let path = dir.path().join(format!("{}.sock", name));
        // A process that had this pid before and was killed has left its file. In another pid namespace it may still live.
        if StdUnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            fs::remove_file(&path)?;
        }
        // It gets its name when it listens: before that it refuses connections, and commands remove a socket that does.
        let unnamed = path.with_extension("new");
        fs::remove_file(&unnamed).ok();
        let listener = UnixListener::bind(&unnamed)?;
        fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o600))?;
        fs::rename(&unnamed, &path)?;
        Ok(Self { listener, path })
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
