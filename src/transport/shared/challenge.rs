//! Proves to the host that the process whose rights it has read is the one that connected.
//!
//! The kernel tells the pid of the process that connected. That process may have ended, and another one may have its
//! pid by the time the host reads /proc/PID; a process in a sandbox could bring this about. So after reading, the host
//! sends a challenge that cannot be guessed, and the kernel tells the pid of the process that sends it back
//! (SCM_CREDENTIALS, unix(7)). If it is the same pid, the process lived from connecting until after it was read.

#[cfg(target_os = "linux")]
use super::pipes;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use tokio::net::UnixStream;

/// The number of bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 32;

/// Sends back the challenge of the host.
///
/// # Errors
///
/// Fails if the host closes the connection.
pub fn answer(mut socket: &StdUnixStream) -> io::Result<()> {
    let mut challenge = [0; CHALLENGE_BYTES];
    socket.read_exact(&mut challenge)?;
    socket.write_all(&challenge)
}

/// Sends a challenge and waits until the process `pid` has sent it back. The caller limits the wait.
///
/// # Errors
///
/// Fails if another process or other bytes answer, or the connection ends.
#[cfg(target_os = "linux")]
pub async fn challenge(socket: &UnixStream, pid: i32, challenge: &str) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::PassCred};
    debug_assert_eq!(challenge.len(), CHALLENGE_BYTES);
    setsockopt(socket, PassCred, &true)?;
    pipes::send(socket, challenge.as_bytes(), &[]).await?;
    let mut expected = challenge.as_bytes();
    while !expected.is_empty() {
        let receive = || receive_from(socket, pid, expected.len());
        let bytes = socket.async_io(tokio::io::Interest::READABLE, receive).await?;
        expected = match expected.strip_prefix(&bytes[..]) {
            Some(rest) if !bytes.is_empty() => rest,
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        };
    }
    // What follows may carry descriptors, and comes without credentials.
    setsockopt(socket, PassCred, &false)?;
    Ok(())
}

/// Receives bytes that the process `pid` has sent.
#[cfg(target_os = "linux")]
fn receive_from(socket: &UnixStream, pid: i32, limit: usize) -> io::Result<Vec<u8>> {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
    use std::os::fd::AsRawFd;
    let mut bytes = vec![0; limit];
    let mut control = nix::cmsg_space!(libc::ucred);
    let mut parts = [io::IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let is_from =
        |control| matches!(control, ControlMessageOwned::ScmCredentials(sender) if sender.pid() == pid);
    let is_theirs = message.cmsgs().map_err(io::Error::from)?.any(is_from);
    let count = message.bytes;
    bytes.truncate(count);
    if count > 0 && !is_theirs {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(bytes)
}

/// Other systems share nothing.
///
/// # Errors
///
/// Always fails.
#[cfg(not(target_os = "linux"))]
pub async fn challenge(_socket: &UnixStream, _pid: i32, _challenge: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const CHALLENGE: &str = "0123456789abcdef0123456789abcdef";

    fn pair() -> (UnixStream, StdUnixStream) {
        let (host, helper) = StdUnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        (UnixStream::from_std(host).unwrap(), helper)
    }

    #[tokio::test]
    async fn the_process_that_connected_must_answer_itself() {
        let own = std::process::id().cast_signed();
        let (host, helper) = pair();
        let answering = std::thread::spawn(move || answer(&helper).map(|()| helper));
        challenge(&host, own, CHALLENGE).await.unwrap();
        let helper = answering.join().unwrap().unwrap();
        // Later messages carry nothing but their bytes.
        (&helper).write_all(b"request").unwrap();
        let (bytes, descriptors) = pipes::receive_once(&host).await.unwrap();
        assert_eq!((&bytes[..], descriptors.len()), (&b"request"[..], 0));
    }

    #[tokio::test]
    async fn another_process_cannot_answer_for_it() {
        let (host, helper) = pair();
        let socket = || Stdio::from(std::os::fd::OwnedFd::from(helper.try_clone().unwrap()));
        let mut child =
            Command::new("head").args(["-c", "32"]).stdin(socket()).stdout(socket()).spawn().unwrap();
        let own = std::process::id().cast_signed();
        let refused = challenge(&host, own, CHALLENGE).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn what_was_sent_before_is_no_answer() {
        let (host, helper) = pair();
        (&helper).write_all(&[b'0'; CHALLENGE_BYTES]).unwrap();
        let own = std::process::id().cast_signed();
        assert!(challenge(&host, own, CHALLENGE).await.is_err());
        let (host, helper) = pair();
        drop(helper);
        assert!(challenge(&host, own, CHALLENGE).await.is_err());
    }
}
