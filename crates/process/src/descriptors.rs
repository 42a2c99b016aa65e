//! Descriptors: closing those that a client may have leaked to us, and passing some between processes.

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Closes every descriptor but stdin, stdout and stderr: a client may have leaked some to us. To be called first of all,
/// while the process has opened nothing else.
pub fn close_other_descriptors() {
    close_range(3, RawFd::MAX);
}

/// Closes the descriptors from `first` to `last`, both included. Without close_range(2), those above the soft limit of
/// open files, or above 65,536, stay open.
#[expect(unsafe_code, reason = "closes descriptors that no code of this process owns")]
pub(crate) fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        // SAFETY: no code uses a descriptor in the range after this.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if result == 0 {
            return;
        }
    }
    // Linux before 5.9 and other systems: one by one, up to a limit that takes little time.
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft.min(65_536));
    for fd in first..=last.min(RawFd::try_from(limit).unwrap_or(1024)) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

/// Sends bytes, and descriptors with the first of them. Waits while the other side does not read. Without bytes,
/// nothing is sent.
///
/// # Errors
///
/// Fails if the other side closed the connection, or as sendmsg(2).
pub async fn send(socket: &UnixStream, mut bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut rights = (!numbers.is_empty()).then_some(ControlMessage::ScmRights(&numbers));
    while !bytes.is_empty() {
        let control = rights.as_slice();
        let write = || {
            let parts = [IoSlice::new(bytes)];
            Ok(sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, SEND_FLAGS, None)?)
        };
        let count = socket.async_io(Interest::WRITABLE, write).await?;
        bytes = &bytes[count..];
        rights = None;
    }
    Ok(())
}

/// The most descriptors that come together: stdin, stdout and stderr of an upstream, and our ends of the last two.
pub const MAX_DESCRIPTORS: usize = 5;

/// Receives into `chunk`. Returns the number of bytes, and the descriptors that came with them. No bytes: the other side
/// closed the connection.
///
/// # Errors
///
/// Fails as recvmsg(2), or if more than `MAX_DESCRIPTORS` come with the bytes. Those are closed.
pub fn receive(socket: &impl AsFd, chunk: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    // It owns what it holds, also where the system had no room for the rest.
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(chunk)], &mut control, RECEIVE_FLAGS)?;
    let mut owned = Vec::new();
    for control in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = control {
            owned.extend(descriptors);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) || owned.len() > MAX_DESCRIPTORS {
        return Err(io::Error::other("more descriptors than expected"));
    }
    #[cfg(not(target_os = "linux"))]
    for descriptor in &owned {
        use nix::fcntl::{FcntlArg, FdFlag, fcntl};
        fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok((message.bytes, owned))
}

#[cfg(target_os = "linux")]
const SEND_FLAGS: MsgFlags = MsgFlags::MSG_NOSIGNAL;
/// macOS has no `MSG_NOSIGNAL`. It is not needed either, because Rust programs ignore SIGPIPE.
#[cfg(not(target_os = "linux"))]
const SEND_FLAGS: MsgFlags = MsgFlags::empty();

#[cfg(target_os = "linux")]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;

    #[tokio::test]
    async fn too_many_descriptors_are_refused_and_none_stays_open() {
        for count in [MAX_DESCRIPTORS + 1, 20] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (writer, mut reader) = pipe::pipe().unwrap();
            let writer = writer.into_blocking_fd().unwrap();
            let sent: Vec<_> = (0..count).map(|_| writer.try_clone().unwrap()).collect();
            send(&theirs, b"x", &sent).await.unwrap();
            drop((writer, sent));
            assert!(receive(&ours, &mut [0]).is_err(), "{count}");
            // The pipe ends when nobody can write to it any more.
            let mut rest = Vec::new();
            let end = tokio::time::timeout(Duration::from_secs(10), reader.read_to_end(&mut rest));
            assert_eq!(end.await.expect("a descriptor is still open").unwrap(), 0);
        }
    }
}
