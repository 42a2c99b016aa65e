//! The pipes of an upstream.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::net::unix::pipe::{self, Receiver, Sender};

use super::protocol::SPAWN_DESCRIPTORS;
use wire::output::pipe_size::grow;

/// Creates the pipes of an upstream: our ends, and its blocking ends in the order of their descriptors, with our ends of
/// stdout and stderr once more for the warden process. Fails as pipe(2): we have too many open files, for example.
pub(super) fn open_pipes() -> io::Result<((Sender, Receiver, Receiver), [OwnedFd; SPAWN_DESCRIPTORS])> {
    let (stdin, child_stdin) = large_pipe()?;
    let (child_stdout, stdout) = large_pipe()?;
    // Not grown, because the total size of a user's pipes is limited.
    let (child_stderr, stderr) = pipe::pipe()?;
    let descriptors = [
        child_stdin.into_blocking_fd()?,
        child_stdout.into_blocking_fd()?,
        child_stderr.into_blocking_fd()?,
        stdout.as_fd().try_clone_to_owned()?,
        stderr.as_fd().try_clone_to_owned()?,
    ];
    Ok(((stdin, stdout, stderr), descriptors))
}

/// Creates a pipe with a larger buffer, where the system allows it. Fails as pipe(2). A pipe that does not get larger
/// is no error.
fn large_pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    grow(&sender);
    Ok((sender, receiver))
}
