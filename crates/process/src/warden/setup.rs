//! Prepares the warden process before it serves: its session, signals and descriptors.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use crate::descriptors::close_range;

/// Signals that end our process, or that a client sends to our group, and that the warden process survives.
const SURVIVED_SIGNALS: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE];

/// Turns this process into the warden process. Returns its socket, which was its stdin. The socket is non-blocking.
///
/// # Errors
///
/// Fails if stdin is not a socket, or as a system call.
pub(super) fn set_up() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    let socket = stdin.as_fd().try_clone_to_owned()?;
    let file_type = File::from(socket.try_clone()?).metadata()?.file_type();
    if !file_type.is_socket() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Fails only for the leader of a process group.
    setsid().ok();
    set_signal_dispositions()?;
    let socket = UnixStream::from(close_other_descriptors(socket)?);
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    {
        // Orphaned descendants become children of the warden process.
        nix::sys::prctl::set_child_subreaper(true)?;
        // `pkill dynamic-mcp` kills our process, and the warden process then cleans up.
        nix::sys::prctl::set_name(c"dmcp-warden")?;
    }
    Ok(socket)
}

/// Resets every signal to its default, because a client may have left some ignored. Blocks SIGCHLD, so that only
/// pselect(2) delivers it.
///
/// The survived signals get a handler that does nothing. They are not ignored, because upstreams would inherit that
/// over exec, which resets handlers.
///
/// # Errors
///
/// Fails as sigaction(2) or sigprocmask(2).
#[expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]
fn set_signal_dispositions() -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let no_op = SigAction::new(SigHandler::Handler(no_op_handler), SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)) {
        let is_handled = signal == Signal::SIGCHLD || SURVIVED_SIGNALS.contains(&signal);
        // SAFETY: the handler does nothing, so it can run anywhere.
        unsafe { sigaction(signal, if is_handled { &no_op } else { &default })? };
    }
    #[cfg(target_os = "linux")]
    for number in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)
}

extern "C" fn no_op_handler(_signal: libc::c_int) {}

/// Redirects stdin, stdout and stderr to /dev/null and closes every descriptor but the socket, because a client may
/// have leaked some to us. Returns the socket.
///
/// # Errors
///
/// Fails if /dev/null cannot be opened, or a descriptor cannot be made.
fn close_other_descriptors(socket: OwnedFd) -> io::Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    drop(null);
    let kept = socket.as_raw_fd();
    close_range(3, kept - 1);
    close_range(kept + 1, RawFd::MAX);
    // Moved to a low number, because select(2) supports 1024 descriptors only.
    if kept == 3 { Ok(socket) } else { Ok(socket.as_fd().try_clone_to_owned()?) }
}
