//! What the warden process waits for: signals, descriptors, deadlines and the exits of children.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use tokio::time::Instant;

/// Returns the time `delay` from now. Caps the delay at a year, because clocks and system calls have limits.
pub(super) fn from_now(delay: Duration) -> Instant {
    Instant::now() + delay.min(Duration::from_secs(31_536_000))
}

fn time_until(deadline: Instant) -> TimeSpec {
    TimeSpec::from_duration(deadline.saturating_duration_since(Instant::now()))
}

/// Waits for a signal, for input from `socket` or `pipes`, for room in `socket` if there is output for it, or until
/// `deadline`. The result does not matter: the caller tries everything after each wait.
#[cfg(target_os = "linux")]
pub(super) fn wait_for<'a>(
    socket: Option<BorrowedFd<'a>>,
    has_output: bool,
    pipes: impl Iterator<Item = BorrowedFd<'a>>,
    deadline: Option<Instant>,
) {
    use nix::poll::{PollFd, PollFlags, ppoll};

    let writable = if has_output { PollFlags::POLLOUT } else { PollFlags::empty() };
    let socket = socket.map(|socket| PollFd::new(socket, PollFlags::POLLIN | writable));
    let pipes = pipes.map(|pipe| PollFd::new(pipe, PollFlags::POLLIN));
    let mut descriptors: Vec<PollFd<'_>> = socket.into_iter().chain(pipes).collect();
    ppoll(&mut descriptors, deadline.map(time_until), Some(SigSet::empty())).ok();
}

/// Waits as on Linux. Other systems have no ppoll(2), and select(2) supports 1024 descriptors, so pipes are polled.
#[cfg(not(target_os = "linux"))]
pub(super) fn wait_for<'a>(
    socket: Option<BorrowedFd<'a>>,
    has_output: bool,
    mut pipes: impl Iterator<Item = BorrowedFd<'a>>,
    deadline: Option<Instant>,
) {
    use nix::sys::select::{FdSet, pselect};

    let (mut readable, mut writable) = (FdSet::new(), FdSet::new());
    if let Some(socket) = socket {
        readable.insert(socket);
        if has_output {
            writable.insert(socket);
        }
    }
    let next_poll = pipes.next().map(|_| from_now(Duration::from_millis(1)));
    let timeout = deadline.into_iter().chain(next_poll).min().map(time_until);
    pselect(None, &mut readable, &mut writable, None, timeout.as_ref(), &SigSet::empty()).ok();
}

/// The result of waitpid(2) for any child.
pub(super) enum WaitResult {
    /// A child exited. The status stays a number, because nix cannot represent every signal.
    Exited {
        /// The child.
        pid: i32,
        /// As waitpid(2) returned it.
        status: i32,
    },
    /// No child has exited.
    StillRunning,
    /// There is no child.
    NoChildren,
}

/// Reaps a child that has exited, if there is one.
#[expect(unsafe_code, reason = "the safe wrapper loses children that a real-time signal killed")]
pub(super) fn wait_any() -> WaitResult {
    #[cfg(target_os = "linux")]
    let flags = libc::WNOHANG | libc::__WALL;
    #[cfg(not(target_os = "linux"))]
    let flags = libc::WNOHANG;
    let mut status = 0;
    // SAFETY: `status` is a live int, and no other code of this process waits for children.
    match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
        0 => WaitResult::StillRunning,
        pid if pid > 0 => WaitResult::Exited { pid, status },
        _ => WaitResult::NoChildren,
    }
}
