//! The attach helper: a process of our own program that connects to the host for an instance, and passes the connection on.
//! It waits until the instance releases it, because the host accepts only a process that still runs when it has proved
//! itself.
//!
//! The host reads in /proc what confines the process that connects (`confinement`), namespaces included, which only a
//! *dumpable* process shows (PR_SET_DUMPABLE, ptrace(2)). An instance is not dumpable, because its memory has secrets.
//! The helper is: it begins with an exec and has neither environment nor secrets. What is verified of it holds for the
//! instance as well, because a child process has the user, groups, limits, seccomp filters and namespaces of its
//! parent, and none can leave a sandbox by itself.

use super::attach::Declined;
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

/// Why a connection did not attach.
pub(super) enum AttachError {
    /// Nobody listens on the socket.
    NoHost,
    /// The host closed the connection. It may have ended at this moment.
    Closed,
    /// The host, the helper or the socket cannot be used.
    Declined(Declined),
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
    /// Ends the helper, waits for its exit, and returns the socket. The host must have verified the helper before.
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

/// Connects to the host that listens at `path`, by way of a helper. Waits until the helper has answered the host's
/// question; the caller limits the wait. The helper is killed if this future or the returned connection is dropped.
///
/// # Errors
///
/// `NoHost` if nobody listens, `Closed` if the host closes the connection, else `Declined`.
pub(super) async fn connect(path: &Path) -> Result<HelperConnection, AttachError> {
    let declined = |reason: String| AttachError::Declined(Declined(reason));
    let failed = |error: io::Error| declined(format!("the helper that attaches: {error}"));
    let (ours, of_helper) = StdUnixStream::pair().map_err(failed)?;
    let ours = nonblocking(ours).map_err(failed)?;
    let mut helper = Command::new(own_program());
    helper.arg0("dmcp-attach").arg(MODE_ARG).arg(path).env_clear().kill_on_drop(true);
    helper.stdin(Stdio::from(OwnedFd::from(of_helper))).stdout(Stdio::null()).stderr(Stdio::null());
    let running = helper.spawn().map_err(failed)?;
    // It has a copy of the other end, whose last one must be the helper's.
    drop(helper);
    let (bytes, descriptors) = pipes::receive_once(&ours).await.map_err(failed)?;
    match (bytes.split_first(), descriptors.into_iter().next()) {
        (Some((&outcome::CONNECTED, _)), Some(socket)) => {
            let socket = nonblocking(socket.into()).map_err(failed)?;
            Ok(HelperConnection { socket, helper: running, helper_socket: ours })
        }
        (Some((&outcome::NO_HOST, _)), _) => Err(AttachError::NoHost),
        (Some((&outcome::CLOSED, _)), _) => Err(AttachError::Closed),
        (Some((_, text)), _) => Err(declined(String::from_utf8_lossy(text).into_owned())),
        (None, _) => Err(declined("the helper that attaches has ended".to_owned())),
    }
}

fn nonblocking(socket: StdUnixStream) -> io::Result<UnixStream> {
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Runs the helper, given the arguments after the mode: the path of the host's socket. Stdin is a socket to the instance.
pub fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(path), None) = (args.next(), args.next()) else { return ExitCode::from(2) };
    match attach(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Connects, answers the host's question within `HOST_TIMEOUT`, tells the instance what came of it, and waits until the
/// instance releases this process.
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
