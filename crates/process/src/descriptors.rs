//! Descriptors: closing those that a client may have leaked to us, and passing some between processes.

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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

/// Receives into `chunk`. Returns the number of bytes, and the descriptors that came with them. No bytes: the other side
/// closed the connection.
///
/// # Errors
///
/// Fails as recvmsg(2), or if more than three descriptors come with the bytes.
#[expect(unsafe_code, reason = "descriptors arrive as plain numbers")]
pub fn receive(socket: &impl AsRawFd, chunk: &mut [u8]) -> nix::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; 3]);
    let mut parts = [IoSliceMut::new(chunk)];
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), RECEIVE_FLAGS)?;
    let mut owned = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel opened them in this call, so no other code owns them.
            owned.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
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
const RECEIVE_FLAGS: MsgFlags = MsgFlags::MSG_CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: MsgFlags = MsgFlags::empty();
