//! The attach helper: a process of our own program that connects to the host for an instance, and passes the connection on.
//! It waits until the instance releases it, because the host accepts only a process that still runs when it has proved
//! itself.
//!
//! The host reads in /proc what confines the process that connects (`confinement`), namespaces included, which only a
//! *dumpable* process shows (PR_SET_DUMPABLE, ptrace(2)). An instance is not dumpable, because its memory has secrets.
//! The helper is: it begins with an exec and has neither environment nor secrets. What is verified of it holds for the
//! instance as well, because a child process has the user, groups, limits, seccomp filters and namespaces of its
//! parent, and none can leave a sandbox by itself.

use super::challenge;
use crate::pipes;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use process::own_program::own_program;
use std::ffi::OsString;
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// The first argument that makes our program the attach helper. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__attach";

/// How long the helper waits for the host. The instance waits no longer.
const HOST_TIMEOUT: Duration = Duration::from_secs(2);

/// The first byte that the helper sends to its instance. A descriptor or the text of an error follows.
mod outcome {
    /// The connection comes with this byte.
    pub(super) const CONNECTED: u8 = b'c';
    /// Nobody listens.
    pub(super) const NO_HOST: u8 = b'n';
    /// The host closed the connection.
    pub(super) const CLOSED: u8 = b'x';
    /// Anything else.
    pub(super) const FAILED: u8 = b'f';
}

/// Why there is no connection.
pub(super) enum ConnectError {
    /// Nobody listens on the socket.
    NoHost,
    /// The host closed the connection.
    Closed,
    /// The helper or the socket cannot be used.
    Failed(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("the helper that attaches: {error}"))
    }
}

/// A connection to the host, and the helper that has made it.
pub(super) struct HelperConnection {
    /// The socket of the host.
    pub(super) socket: UnixStream,
    helper: Child,
    /// The helper exits when this is closed.
    helper_socket: UnixStream,
}

impl HelperConnection {
    /// Ends the helper. The host must have verified it.
    ///
    /// # Errors
    ///
    /// Fails if the helper cannot be waited for.
    pub(super) async fn release(mut self) -> io::Result<UnixStream> {
        drop(self.helper_socket);
        self.helper.wait().await?;
        Ok(self.socket)
    }
}

/// Connects to the host that listens at `path`, by way of a helper. Ends the helper if it is dropped.
pub(super) async fn connect(path: &Path) -> Result<HelperConnection, ConnectError> {
    let (ours, of_helper) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    let mut helper = Command::new(own_program());
    helper.arg0("dmcp-attach").arg(MODE_ARG).arg(path).env_clear().kill_on_drop(true);
    helper.stdin(Stdio::from(OwnedFd::from(of_helper))).stdout(Stdio::null()).stderr(Stdio::null());
    let running = helper.spawn()?;
    // It has a copy of the other end, whose last one must be the helper's.
    drop(helper);
    let (bytes, descriptors) = pipes::receive_once(&ours).await?;
    match (bytes.split_first(), descriptors.into_iter().next()) {
        (Some((&outcome::CONNECTED, _)), Some(socket)) => {
            let socket = StdUnixStream::from(socket);
            socket.set_nonblocking(true)?;
            Ok(HelperConnection {
                socket: UnixStream::from_std(socket)?,
                helper: running,
                helper_socket: ours,
            })
        }
        (Some((&outcome::NO_HOST, _)), _) => Err(ConnectError::NoHost),
        (Some((&outcome::CLOSED, _)), _) => Err(ConnectError::Closed),
        (Some((_, text)), _) => Err(ConnectError::Failed(String::from_utf8_lossy(text).into_owned())),
        (None, _) => Err(ConnectError::Failed("the helper that attaches has ended".to_owned())),
    }
}

/// Runs the helper, given the arguments after the mode: the path of the host's socket. Stdin is a socket to the instance.
pub fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(path), None) = (args.next(), args.next()) else { return ExitCode::from(2) };
    match attach(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Connects, tells the instance, and waits until it is released.
///
/// # Errors
///
/// Fails if the instance is gone.
fn attach(path: &Path) -> io::Result<()> {
    let mut instance = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let connected = StdUnixStream::connect(path);
    let (outcome, text, socket) = match connected {
        Ok(socket) => match answer_challenge(&socket) {
            Ok(()) => (outcome::CONNECTED, String::new(), Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (outcome::FAILED, error.to_string(), None)
            }
            Err(_) => (outcome::CLOSED, String::new(), None),
        },
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                (outcome::NO_HOST, String::new(), None)
            }
            _ => (outcome::FAILED, format!("the host's socket: {error}"), None),
        },
    };
    let message = [&[outcome], text.as_bytes()].concat();
    let numbers: Vec<i32> = socket.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = ControlMessage::ScmRights(&numbers);
    let control = if numbers.is_empty() { &[][..] } else { std::slice::from_ref(&rights) };
    let parts = [IoSlice::new(&message)];
    sendmsg::<UnixAddr>(instance.as_raw_fd(), &parts, control, MsgFlags::empty(), None)?;
    if socket.is_some() {
        // The instance closes its end and sends nothing.
        instance.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

fn answer_challenge(socket: &StdUnixStream) -> io::Result<()> {
    socket.set_read_timeout(Some(HOST_TIMEOUT))?;
    socket.set_write_timeout(Some(HOST_TIMEOUT))?;
    challenge::answer(socket)
}
