//! The pipes of a session. The instance makes them and passes the host's ends with its first line.
//!
//! Pipes, because they are faster than sockets and may have larger buffers.

use process::descriptors::{self, MAX_DESCRIPTORS};
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{self, Receiver, Sender};
use wire::output::pipe_size::grow;

/// One side's ends of the pipes of a session.
pub(crate) struct SessionPipes {
    /// What the other side writes.
    pub input: Receiver,
    /// What the other side reads.
    pub output: Sender,
}

impl SessionPipes {
    /// Makes the pipes of a session: our ends, and those of the host.
    ///
    /// # Errors
    ///
    /// Fails if there are too many open files.
    pub(crate) fn new() -> io::Result<(Self, [OwnedFd; 2])> {
        let (output, host_input) = pipe::pipe()?;
        let (host_output, input) = pipe::pipe()?;
        // Only this one, because the total size of a user's pipes is limited, and results are larger than requests.
        grow(&host_output);
        let host_ends = [host_input.into_nonblocking_fd()?, host_output.into_nonblocking_fd()?];
        Ok((Self { input, output }, host_ends))
    }

    /// Takes over the ends that an instance has passed.
    ///
    /// # Errors
    ///
    /// Fails if they are not two ends of pipes, the first one to read and the other one to write.
    pub(crate) fn from_ends(ends: Vec<OwnedFd>) -> io::Result<Self> {
        let Ok([input, output]) = <[OwnedFd; 2]>::try_from(ends) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self { input: Receiver::from_owned_fd(input)?, output: Sender::from_owned_fd(output)? })
    }
}

/// Receives a line of at most `limit` bytes, without its end, and the descriptors that come with it. The caller limits
/// the wait.
///
/// # Errors
///
/// Fails if the connection ends before the line, the line is longer, or more than `MAX_DESCRIPTORS` come with it.
pub async fn receive(socket: &UnixStream, limit: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let (mut line, mut descriptors) = (Vec::new(), Vec::new());
    while line.len() <= limit {
        let (bytes, received) = receive_once(socket).await?;
        descriptors.extend(received);
        // Each byte may come with some. Nobody else could open a file any more.
        if descriptors.len() > MAX_DESCRIPTORS {
            break;
        }
        line.extend_from_slice(&bytes);
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            return Ok((line, descriptors));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Receives what the other side has sent with one call, or a part of it, and the descriptors that come with it. No bytes:
/// the other side closed the connection.
///
/// # Errors
///
/// Fails as recvmsg(2).
pub(crate) async fn receive_once(socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let receive = || {
        let mut chunk = vec![0; 64 << 10];
        let (count, descriptors) = descriptors::receive(socket, &mut chunk)?;
        chunk.truncate(count);
        Ok((chunk, descriptors))
    };
    socket.async_io(Interest::READABLE, receive).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn descriptors_are_counted_over_all_parts_of_a_line() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let pipe = || pipe::pipe().unwrap().0.into_blocking_fd().unwrap();
        let ends: [OwnedFd; MAX_DESCRIPTORS] = std::array::from_fn(|_| pipe());
        descriptors::send(&theirs, b"a line\n", &ends).await.unwrap();
        assert_eq!(receive(&ours, 100).await.unwrap().1.len(), MAX_DESCRIPTORS);
        for part in [&b"a part"[..], b" and another\n"] {
            descriptors::send(&theirs, part, &ends).await.unwrap();
        }
        assert_eq!(receive(&ours, 100).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
