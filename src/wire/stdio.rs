//! Our own stdin and stdout, by the kind of descriptor.
//!
//! tokio's stdin reads in a blocking thread and costs some 80 µs a call. A shell gives its child pipes, a Node host
//! gives it sockets: both can be read without blocking. What else it may be (a file, a terminal) is read the slow way.

use super::lines::LineReader;
use super::output::{Output, Writer};
use tokio::io::AsyncRead;

/// A reader of whichever kind.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;

/// The process's stdin as lines of at most `limit` bytes, and its stdout.
pub fn open(limit: usize) -> (LineReader<Input>, Output, Writer) {
    let (output, writer) = platform::stdout().unwrap_or_else(|| Output::any(tokio::io::stdout()));
    let input = platform::stdin().unwrap_or_else(|| Box::new(tokio::io::stdin()));
    (LineReader::new(input, limit), output, writer)
}

#[cfg(unix)]
mod platform {
    use super::super::output::{Output, PollableFd, Writer};
    use super::Input;
    use std::fs::File;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    use std::sync::Arc;
    use tokio::net::{UnixStream, unix::pipe};

    pub(super) fn stdin() -> Option<Input> {
        match Kind::of(std::io::stdin())? {
            Kind::Pipe(fd) => {
                let pipe = pipe::Receiver::from_owned_fd(reopen(fd, "/dev/fd/0", false)?).ok()?;
                Some(Box::new(pipe))
            }
            Kind::Socket(socket) => Some(Box::new(socket)),
        }
    }

    pub(super) fn stdout() -> Option<(Output, Writer)> {
        let direct = match Kind::of(std::io::stdout())? {
            Kind::Pipe(fd) => {
                let fd = reopen(fd, "/dev/fd/1", true)?;
                crate::wire::pipe_size::grow(&fd);
                PollableFd::Pipe(pipe::Sender::from_owned_fd(fd).ok()?)
            }
            Kind::Socket(socket) => PollableFd::Socket(Arc::new(socket)),
        };
        Some(Output::direct(direct))
    }

    enum Kind {
        Pipe(OwnedFd),
        Socket(UnixStream),
    }

    impl Kind {
        fn of(fd: impl AsFd) -> Option<Self> {
            let fd = fd.as_fd().try_clone_to_owned().ok()?;
            let kind = File::from(fd.try_clone().ok()?).metadata().ok()?.file_type();
            if kind.is_fifo() {
                return Some(Self::Pipe(fd));
            }
            let socket = std::os::unix::net::UnixStream::from(fd);
            // Only a Unix socket has such an address; the other end does not see the flag.
            let unix = kind.is_socket() && socket.local_addr().is_ok();
            (unix && socket.set_nonblocking(true).is_ok()).then_some(())?;
            UnixStream::from_std(socket).ok().map(Self::Socket)
        }
    }

    /// The same pipe through a description of its own (Linux), so that being non-blocking is not shared with others
    /// who hold it; elsewhere, or where that is forbidden, tokio takes `fd` itself, which is non-blocking then.
    fn reopen(fd: OwnedFd, path: &str, write: bool) -> Option<OwnedFd> {
        let mut options = File::options();
        options.read(!write).write(write).custom_flags(libc::O_NONBLOCK);
        let reopened = if cfg!(target_os = "linux") { options.open(path).ok() } else { None };
        Some(reopened.map_or(fd, OwnedFd::from))
    }
}

#[cfg(not(unix))]
mod platform {
    use super::super::output::{Output, Writer};
    use super::Input;

    pub(super) fn stdin() -> Option<Input> {
        None
    }

    pub(super) fn stdout() -> Option<(Output, Writer)> {
        None
    }
}
