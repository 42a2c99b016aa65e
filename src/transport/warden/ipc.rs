//! The warden's end of the socket: frames, and the descriptors that come with them.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, UnixAddr, recvmsg};

use super::protocol::{Malformed, next_frame};

const CHUNK: usize = 64 * 1024;
/// What one look at the socket takes at most, so that a flood of requests does not keep the warden from
/// reaping.
const CHUNKS: usize = 16;

pub(super) struct Inbox {
    socket: UnixStream,
    input: BytesMut,
    /// In the order of the frames they belong to, and there before them.
    descriptors: VecDeque<OwnedFd>,
    closed: bool,
}

impl Inbox {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, input: BytesMut::new(), descriptors: VecDeque::new(), closed: false }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, Malformed> {
        next_frame(&mut self.input)
    }

    pub(super) fn take_stdio(&mut self) -> Option<[OwnedFd; 3]> {
        let mut next = || self.descriptors.pop_front();
        Some([next()?, next()?, next()?])
    }

    /// Takes what the socket has.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        for _ in 0..CHUNKS {
            match self.read(&mut chunk) {
                Ok(0) => self.closed = true,
                Ok(count) => {
                    self.input.extend_from_slice(&chunk[..count]);
                    continue;
                }
                Err(Errno::EAGAIN) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            break;
        }
        Ok(())
    }

    fn read(&mut self, chunk: &mut [u8]) -> nix::Result<usize> {
        let mut room = nix::cmsg_space!([RawFd; 3]);
        #[cfg(target_os = "linux")]
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = MsgFlags::empty();
        let mut parts = [IoSliceMut::new(chunk)];
        let message = recvmsg::<UnixAddr>(self.socket.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
        self.descriptors.extend(received(&message)?);
        Ok(message.bytes)
    }
}

#[expect(unsafe_code, reason = "descriptors arrive as bare numbers")]
fn received(message: &RecvMsg<UnixAddr>) -> nix::Result<Vec<OwnedFd>> {
    let mut owned = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel opened them for us in this very call; nobody else knows them.
            owned.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    #[cfg(not(target_os = "linux"))]
    for descriptor in &owned {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok(owned)
}
