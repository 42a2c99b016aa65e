//! The warden process's end of the socket: requests with their descriptors come in, events go out.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use bytes::{Bytes, BytesMut};

use super::protocol::{FrameError, WardenEvent, encode, next_frame};
use crate::descriptors;

const READ_SIZE: usize = 64 * 1024;
/// Reads per turn of the loop, so that a flood of requests does not keep the warden from reaping.
const MAX_READS: usize = 16;

/// A non-blocking socket with its buffers.
pub(super) struct WardenSocket {
    socket: UnixStream,
    /// Bytes that were received and not decoded yet.
    input: BytesMut,
    /// Encoded events that the socket did not accept yet. Unbounded, so that the warden never waits for us.
    output: Vec<u8>,
    /// The received descriptors, in the order of their frames. They arrive no later than their frames.
    descriptors: VecDeque<OwnedFd>,
    is_closed: bool,
}

impl WardenSocket {
    /// Takes over a connected socket.
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            input: BytesMut::new(),
            output: Vec::new(),
            descriptors: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Returns the descriptor, to wait for with poll(2). `None`: nothing more will come.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.socket.as_fd())
    }

    /// Returns whether the other end was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Receives what is available, at most [`MAX_READS`] times [`READ_SIZE`] bytes, without waiting.
    ///
    /// # Errors
    ///
    /// Fails as recvmsg(2). The end of the connection is no error, see `is_closed`.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; READ_SIZE];
        for _ in 0..MAX_READS {
            match self.read(&mut chunk) {
                Ok(0) => self.is_closed = true,
                Ok(count) => {
                    self.input.extend_from_slice(&chunk[..count]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            break;
        }
        Ok(())
    }

    /// Removes the next frame that was received whole and returns it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if its length exceeds the limit of a frame.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        next_frame(&mut self.input)
    }

    /// Returns the `N` descriptors that came with the last frame; `None` if there were fewer.
    pub(super) fn take_descriptors<const N: usize>(&mut self) -> Option<[OwnedFd; N]> {
        let count = self.descriptors.len().min(N);
        self.descriptors.drain(..count).collect::<Vec<_>>().try_into().ok()
    }

    /// Receives what is available and drops it. Notices the end of the connection.
    pub(super) fn skip_input(&mut self) {
        if !self.is_closed && self.receive().is_err() {
            self.is_closed = true;
        }
        self.input.clear();
        self.descriptors.clear();
    }

    /// Gives up the connection.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Queues an event, which `flush` writes.
    pub(super) fn send(&mut self, event: &WardenEvent) {
        self.output.extend(encode(event));
    }

    /// Returns whether events are queued.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Writes as many of the queued events as the socket accepts, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if the other end was closed.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        let (count, received) = descriptors::receive(&self.socket, chunk)?;
        self.descriptors.extend(received);
        Ok(count)
    }
}
