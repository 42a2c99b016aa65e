//! When a pipe can be read or written, by poll(2).

use std::io::{self, ErrorKind};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::time::Instant;

use crate::support::TEST_TIMEOUT;

pub(crate) use std::os::fd::AsFd as Pipe;

/// Waits until the pipe can be read, or is at its end.
///
/// # Errors
///
/// It is not within `TEST_TIMEOUT`.
pub(crate) fn wait_readable(pipe: &impl Pipe) -> io::Result<()> {
    wait_for_events(pipe, PollFlags::POLLIN)
}

/// Waits until the pipe can be written, or is closed.
///
/// # Errors
///
/// It is not within `TEST_TIMEOUT`.
pub(super) fn wait_writable(pipe: &impl Pipe) -> io::Result<()> {
    wait_for_events(pipe, PollFlags::POLLOUT)
}

/// Waits until no process has the other end of this pipe open. A process that another test starts has a copy of every
/// descriptor until it runs its program.
///
/// # Errors
///
/// One still has it after `TEST_TIMEOUT`.
pub(crate) fn wait_until_closed(pipe: &impl Pipe) -> io::Result<()> {
    // POLLERR and POLLHUP are reported without being asked for.
    wait_for_events(pipe, PollFlags::empty())
}

fn wait_for_events(fd: &impl Pipe, events: PollFlags) -> io::Result<()> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let timeout = PollTimeout::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
        match poll(&mut [PollFd::new(fd.as_fd(), events)], timeout) {
            Ok(0) => {
                let message = format!("not within {TEST_TIMEOUT:?}: {events:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, message));
            }
            Ok(_) => return Ok(()),
            // A signal, such as SIGCHLD.
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
