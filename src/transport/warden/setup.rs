//! What the warden process sets up of itself before it serves: session, signals, descriptors.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

/// Ours to survive: what ends us must not end the warden with us, nor do a client's signals to its group.
const SURVIVED: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE];

/// Makes this process the warden and returns its socket, which came as stdin.
pub(super) fn take() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    let socket = stdin.as_fd().try_clone_to_owned()?;
    let kind = File::from(socket.try_clone()?).metadata()?.file_type();
    if !kind.is_socket() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Fails for a process group's leader only, and then a session of its own is there already.
    setsid().ok();
    signals()?;
    let socket = UnixStream::from(descriptors(socket)?);
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    {
        // What an upstream leaves behind becomes a child of the warden.
        nix::sys::prctl::set_child_subreaper(true)?;
        // `pkill dynamic-mcp` finds us, and the warden then does its work.
        nix::sys::prctl::set_name(c"dmcp-warden")?;
    }
    Ok(socket)
}

/// Defaults for all that a client may have left ignored, a handler that does nothing for what must not end
/// the warden (exec turns a handler into the default, but would pass on "ignored"), and SIGCHLD delivered nowhere
/// but in `pselect`.
#[expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]
fn signals() -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let nothing = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP)) {
        let handled = signal == Signal::SIGCHLD || SURVIVED.contains(&signal);
        // SAFETY: the handler does nothing at all, so it may run anywhere.
        unsafe { sigaction(signal, if handled { &nothing } else { &default })? };
    }
    #[cfg(target_os = "linux")]
    for number in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the default runs no code of ours.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// /dev/null for the standard three, the socket, and nothing else: a client may have leaked some to us.
fn descriptors(socket: OwnedFd) -> io::Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    drop(null);
    let kept = socket.as_raw_fd();
    close_range(3, kept - 1);
    close_range(kept + 1, RawFd::MAX);
    // Low, whatever was open before: select(2) knows 1024 descriptors.
    if kept == 3 { Ok(socket) } else { Ok(socket.as_fd().try_clone_to_owned()?) }
}

#[expect(unsafe_code, reason = "closing descriptors that nobody here owns")]
fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        // SAFETY: nothing here owns a descriptor in the range: the process holds the socket and 0 to 2 only.
        let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if done == 0 {
            return;
        }
    }
    // A kernel before 5.9, or another Unix: one by one, as far as is reasonable.
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft.min(65_536));
    for fd in first..=last.min(RawFd::try_from(limit).unwrap_or(1024)) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}
