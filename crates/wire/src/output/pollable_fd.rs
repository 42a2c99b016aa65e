//! The descriptors that an output writes to without blocking.

#[cfg(unix)]
pub use unix::PollableFd;
#[cfg(windows)]
pub use windows::PollableFd;

#[cfg(not(target_os = "linux"))]
impl PollableFd {
    /// Returns how many written bytes the other side has not read yet. 0: the system does not tell.
    pub(crate) fn unread_bytes(&self) -> u64 {
        0
    }
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IoSlice};
    use std::sync::Arc;
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    /// A non-blocking descriptor.
    pub enum PollableFd {
        /// The writing end of a pipe.
        Pipe(pipe::Sender),
        /// A Unix socket.
        Socket(Arc<UnixStream>),
    }

    impl PollableFd {
        /// Writes as much as the descriptor takes at once.
        ///
        /// # Errors
        ///
        /// `WouldBlock` if it takes nothing now, else as writing fails.
        pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            match (self, slices) {
                // Most writes are one message. The system takes a little less time for it.
                (Self::Pipe(pipe), [only]) => pipe.try_write(only),
                (Self::Pipe(pipe), _) => pipe.try_write_vectored(slices),
                (Self::Socket(socket), _) => socket.try_write_vectored(slices),
            }
        }

        /// Returns how many written bytes the other side has not read yet. 0 if the system does not tell.
        #[cfg(target_os = "linux")]
        pub(crate) fn unread_bytes(&self) -> u64 {
            match self {
                Self::Pipe(pipe) => rustix::io::ioctl_fionread(pipe).unwrap_or_default(),
                Self::Socket(_) => 0,
            }
        }

        /// Waits until the descriptor may take more. Another `WouldBlock` may come all the same.
        ///
        /// # Errors
        ///
        /// Fails if the runtime is shutting down.
        pub(crate) async fn writable(&self) -> io::Result<()> {
            match self {
                Self::Pipe(pipe) => pipe.writable().await,
                Self::Socket(socket) => socket.writable().await,
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::io::{self, IoSlice};
    use tokio::net::windows::named_pipe::NamedPipeServer;

    /// The number of bytes that are joined to one write.
    const MAX_JOINED_BYTES: usize = 64 << 10;

    /// A handle that is used without blocking.
    pub enum PollableFd {
        /// The writing end of a pipe.
        Pipe(NamedPipeServer),
    }

    impl PollableFd {
        /// Writes as much as the handle takes at once. A pipe takes one part at a time and is busy until it is written, so
        /// small parts are joined.
        ///
        /// # Errors
        ///
        /// `WouldBlock` if it takes nothing now, else as writing fails.
        pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let Self::Pipe(pipe) = self;
            match slices {
                [only] => pipe.try_write(only),
                [first, ..] if first.len() >= MAX_JOINED_BYTES => pipe.try_write(first),
                _ => {
                    let mut joined = Vec::new();
                    for slice in slices {
                        let room = MAX_JOINED_BYTES - joined.len();
                        joined.extend_from_slice(&slice[..slice.len().min(room)]);
                    }
                    pipe.try_write(&joined)
                }
            }
        }

        /// Waits until the handle may take more. Another `WouldBlock` may come all the same.
        ///
        /// # Errors
        ///
        /// Fails if the runtime is shutting down.
        pub(crate) async fn writable(&self) -> io::Result<()> {
            let Self::Pipe(pipe) = self;
            pipe.writable().await
        }
    }
}
