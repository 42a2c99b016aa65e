//! Connects to the host, and starts one if none runs.
//!
//! Connecting needs no lock. Only when there is no host, the lock file is held from the second look for one until the
//! new one listens, so that instances that start at the same moment start one host. A host that ends takes the same
//! lock first. The kernel releases the lock when its holder dies.

use super::attach::{AttachReply, AttachRequest, Declined};
use super::attach_helper::{self, AttachError};
use super::challenge::{self, PeerProcess, Question};
use super::confinement::Confinement;
use super::pipes::SessionPipes;
use config::env::Env;
use process::descriptors;
use process::launch::OWNER_VAR;
use process::own_program::own_program;
use process::runtime_dir::RuntimeDir;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// The first argument that makes our program the host. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__host";

/// The interval between attempts to take the lock while another instance starts the host.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// How long a host that was killed may take to close its sockets.
const DYING_TIMEOUT: Duration = Duration::from_millis(200);

/// Connects to the host.
pub(super) struct HostDialer {
    /// `$XDG_RUNTIME_DIR`.
    runtime_base: Option<PathBuf>,
    /// Whether this process may start a host. One that an upstream has started may not, because the host would end with
    /// that upstream.
    may_start: bool,
}

/// A session with a shared server.
pub(super) struct Attached {
    /// The pipes to the server.
    pub(super) pipes: SessionPipes,
    /// The pid of the server's process, for display.
    pub(super) pid: u32,
    /// Whether the process was started without its launcher.
    pub(super) is_direct: bool,
    /// Whether it was started for this session.
    pub(super) is_new: bool,
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Declined(Declined::new(error.to_string())),
            _ => Self::Closed,
        }
    }
}

impl HostDialer {
    pub(super) fn new(process_env: &Env) -> Self {
        let runtime_base = process_env.var("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
        Self {
            runtime_base: runtime_base.map(PathBuf::from),
            may_start: process_env.var(OWNER_VAR).is_none(),
        }
    }

    /// Attaches to a server in the host, which is started if none runs. The caller limits the wait.
    ///
    /// # Errors
    ///
    /// Fails if there is no host that can be trusted, or it does not share the server.
    pub(super) async fn attach(
        &self,
        request: &AttachRequest,
        own: &Confinement,
    ) -> Result<Attached, Declined> {
        let unusable = |error: io::Error| Declined::new(format!("the runtime directory: {error}"));
        let dir = RuntimeDir::open(self.runtime_base.as_deref()).map_err(unusable)?;
        let path = dir.socket().map_err(unusable)?;
        let lock = dir.lock_file().map_err(unusable)?;
        let (mut is_locked, mut tries_left) = (false, 5);
        loop {
            match attach_to(&path, request, own).await {
                Ok(attached) => return Ok(attached),
                Err(AttachError::Declined(declined)) => return Err(declined),
                Err(AttachError::NoHost) if !self.may_start => {
                    return Err(Declined::new("no host runs, and a process below a server starts none"));
                }
                Err(AttachError::NoHost) if is_locked => {
                    start(&dir, &path, request.nofile).await?;
                }
                // A host that ends by itself holds the lock, so this one was killed, or lives and does not want us.
                Err(AttachError::Closed) if is_locked => {
                    if tries_left == 0 {
                        return Err(Declined::new("the host closed the connection"));
                    }
                    tries_left -= 1;
                    sleep(LOCK_RETRY_INTERVAL).await;
                }
                Err(AttachError::NoHost | AttachError::Closed) => is_locked = try_lock(&lock).await?,
            }
        }
    }
}

/// Takes the lock. Returns false after `LOCK_RETRY_INTERVAL` if another process has it, which may have started a host
/// meanwhile.
///
/// # Errors
///
/// Fails if the lock file cannot be used.
async fn try_lock(lock: &File) -> Result<bool, Declined> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => {
            sleep(LOCK_RETRY_INTERVAL).await;
            Ok(false)
        }
        Err(TryLockError::Error(error)) => Err(Declined::new(format!("the lock file: {error}"))),
    }
}

/// Connects, verifies the host, and sends it the request. The caller limits the wait.
///
/// # Errors
///
/// `NoHost` if nobody listens at `path`; `Closed` if the host closes the connection; `Declined` if it cannot be trusted
/// or does not share the server.
async fn attach_to(path: &Path, request: &AttachRequest, own: &Confinement) -> Result<Attached, AttachError> {
    // A look that costs less than the helper.
    if !path.exists() {
        return Err(AttachError::NoHost);
    }
    let mut connection = attach_helper::connect(path).await?;
    let host = PeerProcess::of(&connection.socket)?;
    // Before the request is sent, because it has the environment of the server, which may hold secrets.
    if let Err(declined) = own.check_host(host.pid, host.uid) {
        // Little can be read of a host that is dying, whose sockets close a moment later.
        return match timeout(DYING_TIMEOUT, connection.socket.read_u8()).await {
            Ok(Err(_)) => Err(AttachError::Closed),
            _ => Err(AttachError::Declined(declined)),
        };
    }
    // The host answers once it has verified the helper.
    challenge::challenge(&connection.socket, &host, &Question::sent_directly()).await?;
    let socket = connection.release().await?;
    let line = serde_json::to_string(request).map_err(io::Error::from)? + "\n";
    let unusable = |error: io::Error| AttachError::Declined(Declined::new(format!("the pipes: {error}")));
    let (pipes, host_ends) = SessionPipes::new().map_err(unusable)?;
    descriptors::send(&socket, line.as_bytes(), &host_ends).await?;
    drop(host_ends);
    match read_reply(socket).await? {
        AttachReply::Attached { pid, is_direct, is_new } => Ok(Attached { pipes, pid, is_direct, is_new }),
        AttachReply::Refused(reason) => Err(AttachError::Declined(Declined(reason))),
    }
}

/// Starts a host and waits until it listens on `path`. The caller holds the lock.
///
/// # Errors
///
/// Fails if it cannot be started, or ends before it listens.
async fn start(dir: &RuntimeDir, path: &Path, nofile: u64) -> Result<(), Declined> {
    let failed = |error: io::Error| Declined::new(format!("the host cannot be started: {error}"));
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        // No host listens there, and none is being started.
        _ => {}
    }
    let mut command = Command::new(own_program());
    // Another name, so that `pkill -f dynamic-mcp` does not kill the host of other windows.
    command.arg0("dmcp-host").arg(MODE_ARG).arg(dir.path()).arg(path).arg(nofile.to_string());
    command.env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut launcher = command.spawn().map_err(failed)?;
    let mut ready = [0; 1];
    let is_ready = match &mut launcher.stdout {
        // The end of the stream: the host ended before it listened.
        Some(stdout) => stdout.read(&mut ready).await.is_ok_and(|count| count == 1),
        None => false,
    };
    // It exits at once and leaves the host behind.
    launcher.wait().await.map_err(failed)?;
    if is_ready { Ok(()) } else { Err(Declined::new("the host ended at its start")) }
}

/// Reads the reply of the host, which has at most 4096 bytes.
///
/// # Errors
///
/// Fails if the connection ends before, or the reply is not valid.
async fn read_reply(socket: UnixStream) -> io::Result<AttachReply> {
    const MAX_REPLY_BYTES: u64 = 4096;
    let mut line = Vec::new();
    BufReader::new(socket.take(MAX_REPLY_BYTES)).read_until(b'\n', &mut line).await?;
    Ok(serde_json::from_slice(&line)?)
}
