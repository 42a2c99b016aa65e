//! The process's own stdin and stdout.
//!
//! tokio's stdin reads in a blocking thread, which costs some 80 µs per message. A shell gives its children pipes, and
//! Node gives them sockets; both can be read without blocking. Anything else (a file, a terminal) is read by tokio.
//!
//! On Windows nothing that is inherited can be used without blocking. There, stdin and stdout have a thread each
//! (`threads`).
#![expect(clippy::disallowed_methods, reason = "stdout is the protocol's, whose reader is a program")]

use super::lines::Input;
use super::lines::LineReader;
use super::output::{Output, Writer};

pub use close::close_stdout;

mod close;
#[cfg(any(windows, test))]
mod threads;

/// Opens stdin as lines of at most `limit` bytes, and stdout. To be called in a Tokio runtime. The writer has to be
/// run.
pub fn open(limit: usize) -> (LineReader, Output, Writer) {
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

    /// Opens stdin without blocking; `None` if it is neither a pipe nor a socket.
    pub(super) fn stdin() -> Option<Input> {
        match StdioKind::of(std::io::stdin())? {
            StdioKind::Pipe(fd) => {
                let fd = reopen(fd, "/dev/fd/0", false)?;
                crate::output::pipe_size::grow(&fd);
                Some(Box::new(pipe::Receiver::from_owned_fd(fd).ok()?))
            }
            StdioKind::Socket(socket) => Some(Box::new(socket)),
        }
    }

    /// Opens stdout without blocking; `None` if it is neither a pipe nor a socket.
    pub(super) fn stdout() -> Option<(Output, Writer)> {
        let direct = match StdioKind::of(std::io::stdout())? {
            StdioKind::Pipe(fd) => {
                let fd = reopen(fd, "/dev/fd/1", true)?;
                crate::output::pipe_size::grow(&fd);
                PollableFd::Pipe(pipe::Sender::from_owned_fd(fd).ok()?)
            }
            StdioKind::Socket(socket) => PollableFd::Socket(Arc::new(socket)),
        };
        Some(Output::direct(direct))
    }

    enum StdioKind {
        Pipe(OwnedFd),
        Socket(UnixStream),
    }

    impl StdioKind {
        fn of(fd: impl AsFd) -> Option<Self> {
            let fd = fd.as_fd().try_clone_to_owned().ok()?;
            let kind = File::from(fd.try_clone().ok()?).metadata().ok()?.file_type();
            if kind.is_fifo() {
                return Some(Self::Pipe(fd));
            }
            let socket = std::os::unix::net::UnixStream::from(fd);
            // Only a Unix socket has a local address of this type. The flag is not shared with the other end.
            let unix = kind.is_socket() && socket.local_addr().is_ok();
            (unix && socket.set_nonblocking(true).is_ok()).then_some(())?;
            UnixStream::from_std(socket).ok().map(Self::Socket)
        }
    }

    /// Opens the same pipe again (Linux), so that other holders of the descriptor do not become non-blocking, too.
    /// Where that is impossible, tokio gets `fd` itself.
    fn reopen(fd: OwnedFd, path: &str, write: bool) -> Option<OwnedFd> {
        let mut options = File::options();
        options.read(!write).write(write).custom_flags(libc::O_NONBLOCK);
        let reopened = if cfg!(target_os = "linux") { options.open(path).ok() } else { None };
        Some(reopened.map_or(fd, OwnedFd::from))
    }
}

#[cfg(windows)]
mod platform {
    use super::super::output::{Output, Writer};
    use super::{Input, threads};

    /// Reads stdin in a thread; `None` if the system refuses one.
    pub(super) fn stdin() -> Option<Input> {
        Some(Box::new(threads::reader(std::io::stdin()).ok()?))
    }

    /// Writes stdout in a thread; `None` if the system refuses one.
    pub(super) fn stdout() -> Option<(Output, Writer)> {
        Some(Output::any(threads::writer(std::io::stdout()).ok()?))
    }
}
