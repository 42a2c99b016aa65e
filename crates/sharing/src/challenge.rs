//! Proves to one end of a socket that the process whose rights it has read is the one at the other end.
//!
//! The kernel tells the pid of the process that connected, or that called listen(2). That process may have ended, and
//! another one may have its pid by the time /proc/PID is read; or it may have handed the socket to a process in a sandbox
//! (as systemd does with the sockets of its units). So the reader *holds* that process (`HeldProcess`) before it reads,
//! and sends a challenge afterwards that cannot be guessed. The kernel tells the pid of the process that sends it back
//! (SCM_CREDENTIALS, unix(7)). If that is the same pid and the held process still runs, one process was held, read and
//! has answered.
//!
//! A process with CAP_SYS_ADMIN may be in a Landlock sandbox that neither `no_new_privs` nor anything else in /proc
//! shows. Such a sandbox keeps it from looking at the processes outside. So the host sends a process with that
//! capability no challenge but tells where to find one: it is the name of a file that the host has open, and
//! /proc/HOST/fd shows it to every process that may read /proc/HOST/ns/mnt (PTRACE_MODE_READ_FSCREDS, ptrace(2)).

use base::random::hex_id;
use nix::sys::socket::{setsockopt, sockopt::PassCred};
use process::descriptors;
use process::held_process::HeldProcess;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The number of bytes of a question, and of the challenge.
pub const CHALLENGE_BYTES: usize = 32;

/// How a question begins that names a descriptor. No challenge begins with it.
const DESCRIPTOR: &str = "descriptor ";

/// The process at the other end of a socket.
pub struct PeerProcess {
    /// Its pid; `None` if it is in another pid namespace.
    pub pid: Option<i32>,
    /// Its user.
    pub uid: u32,
    /// Held from before it is looked at until it has answered.
    held: HeldProcess,
}

impl PeerProcess {
    /// Holds the process at the other end of `socket`.
    ///
    /// # Errors
    ///
    /// Fails if it has ended, or its credentials cannot be read.
    pub fn of(socket: &UnixStream) -> io::Result<Self> {
        let credentials = socket.peer_cred()?;
        let pid = credentials.pid().and_then(visible_pid);
        let held = HeldProcess::of_peer(socket.as_fd(), pid.unwrap_or_default())?;
        Ok(Self { pid, uid: credentials.uid(), held })
    }
}

/// Returns the pid that the kernel tells of a process; `None` if the process is in another pid namespace.
fn visible_pid(told: i32) -> Option<i32> {
    (told > 0).then_some(told)
}

/// A challenge that the other end has to find out and send back.
pub struct Question {
    /// The answer.
    challenge: String,
    /// The file whose name is the challenge, unless the challenge itself is sent.
    named: Option<File>,
}

impl Question {
    /// Creates a challenge that is sent: every process that receives it can answer.
    pub(crate) fn sent_directly() -> Self {
        Self { challenge: hex_id(), named: None }
    }

    /// Creates a challenge that is the name of an open file of ours: only a process that may read our /proc can answer.
    ///
    /// # Errors
    ///
    /// Fails if there are too many open files.
    pub(crate) fn in_a_file_name() -> io::Result<Self> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let challenge = hex_id();
        let file = memfd_create(challenge.as_str(), MFdFlags::MFD_CLOEXEC)?;
        Ok(Self { challenge, named: Some(file.into()) })
    }

    /// Returns what is sent.
    fn message(&self) -> String {
        let Some(file) = &self.named else { return self.challenge.clone() };
        format!("{DESCRIPTOR}{:021}", file.as_raw_fd())
    }
}

/// Answers the question of the host. Blocks, within the timeouts of the socket.
///
/// # Errors
///
/// Fails with `PermissionDenied` if this process must not look at the host, and otherwise if the host closes the
/// connection or sends nothing.
pub fn answer(mut socket: &StdUnixStream) -> io::Result<()> {
    let mut question = [0; CHALLENGE_BYTES];
    socket.read_exact(&mut question)?;
    let number = str::from_utf8(&question).ok().and_then(|text| text.strip_prefix(DESCRIPTOR)?.parse().ok());
    match number {
        None => socket.write_all(&question),
        Some(number) => socket.write_all(name_at_peer(socket, number)?.as_bytes()),
    }
}

/// Returns the challenge: the name of the file that the process at the other end has open as descriptor `number`.
///
/// # Errors
///
/// Fails with `PermissionDenied` if this process cannot see it.
fn name_at_peer(socket: &StdUnixStream, number: u32) -> io::Result<String> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    let host = getsockopt(socket, PeerCredentials)?.pid();
    let hidden = "this process has CAP_SYS_ADMIN and must not look at the host, so it may be in a sandbox";
    let hidden = || io::Error::new(io::ErrorKind::PermissionDenied, hidden);
    let name = base::procfs::link(host, format_args!("fd/{number}")).map_err(|_| hidden())?;
    let name = name.to_str().and_then(|name| name.strip_prefix("/memfd:")?.strip_suffix(" (deleted)"));
    name.filter(|name| name.len() == CHALLENGE_BYTES).map(str::to_owned).ok_or_else(hidden)
}

/// Answers the question of an instance, which is the challenge itself. The caller limits the wait.
///
/// # Errors
///
/// Fails if the instance closes the connection.
pub(crate) async fn send_back(socket: &mut UnixStream) -> io::Result<()> {
    let mut challenge = [0; CHALLENGE_BYTES];
    socket.read_exact(&mut challenge).await?;
    socket.write_all(&challenge).await
}

/// Sends a question and waits until the process `peer` has answered it. What was read of that process after it was held
/// and before this call is then true of the process at the other end. The caller limits the wait.
///
/// # Errors
///
/// Fails with `PermissionDenied` if another process or other bytes answer, or the process has ended; otherwise if the
/// connection ends.
pub async fn challenge(socket: &UnixStream, peer: &PeerProcess, question: &Question) -> io::Result<()> {
    let other = || {
        let text = "the process that answers is not the one that the socket belongs to";
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    };
    let pid = peer.pid.ok_or_else(other)?;
    setsockopt(socket, PassCred, &true)?;
    descriptors::send(socket, question.message().as_bytes(), &[]).await?;
    let mut expected = question.challenge.as_bytes();
    while !expected.is_empty() {
        let receive = || receive_from(socket, pid, expected.len());
        let received = socket.async_io(tokio::io::Interest::READABLE, receive).await?;
        let bytes = received.ok_or_else(other)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        expected = expected.strip_prefix(&bytes[..]).ok_or_else(other)?;
    }
    // What follows may carry descriptors, and comes without credentials.
    setsockopt(socket, PassCred, &false)?;
    // Otherwise its pid may have come to mean the process that has answered.
    if peer.held.is_running() { Ok(()) } else { Err(other()) }
}

/// Receives at most `limit` bytes. `None` if they come from another process than `pid`. No bytes: the other end closed
/// the connection.
///
/// # Errors
///
/// Fails as recvmsg(2), with `WouldBlock` if there is nothing yet.
fn receive_from(socket: &UnixStream, pid: i32, limit: usize) -> io::Result<Option<Vec<u8>>> {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
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
    Ok((count == 0 || is_theirs).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// The longest wait for the other end.
    const LIMIT: Duration = Duration::from_secs(20);

    fn pair() -> (UnixStream, StdUnixStream) {
        let (host, helper) = StdUnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        helper.set_read_timeout(Some(LIMIT)).unwrap();
        (UnixStream::from_std(host).unwrap(), helper)
    }

    /// Challenges the other end, with a limit for its answer.
    async fn challenge(socket: &UnixStream, peer: &PeerProcess, question: &Question) -> io::Result<()> {
        tokio::time::timeout(LIMIT, super::challenge(socket, peer, question)).await.unwrap()
    }

    #[test]
    fn a_process_of_another_pid_namespace_has_no_pid() {
        assert_eq!(visible_pid(0), None);
        assert_eq!(visible_pid(-1), None);
        assert_eq!(visible_pid(1), Some(1));
    }

    #[tokio::test]
    async fn the_host_sends_back_what_an_instance_asks() {
        let (mut host, mut instance) = pair();
        let question = Question::sent_directly().message();
        instance.write_all(question.as_bytes()).unwrap();
        tokio::time::timeout(LIMIT, send_back(&mut host)).await.unwrap().unwrap();
        let mut answer = [0; CHALLENGE_BYTES];
        instance.read_exact(&mut answer).unwrap();
        assert_eq!(answer, question.as_bytes());
    }

    #[tokio::test]
    async fn the_process_that_connected_must_answer_itself() {
        for question in [Question::sent_directly(), Question::in_a_file_name().unwrap()] {
            let (host, helper) = pair();
            let answering = std::thread::spawn(move || answer(&helper).map(|()| helper));
            challenge(&host, &PeerProcess::of(&host).unwrap(), &question).await.unwrap();
            let helper = answering.join().unwrap().unwrap();
            // Later messages carry nothing but their bytes.
            (&helper).write_all(b"request").unwrap();
            let (bytes, descriptors) = crate::pipes::receive_once(&host).await.unwrap();
            assert_eq!((&bytes[..], descriptors.len()), (&b"request"[..], 0));
        }
    }

    #[tokio::test]
    async fn another_process_cannot_answer_for_it() {
        let (host, helper) = pair();
        let socket = || Stdio::from(std::os::fd::OwnedFd::from(helper.try_clone().unwrap()));
        let mut child =
            Command::new("head").args(["-c", "32"]).stdin(socket()).stdout(socket()).spawn().unwrap();
        let peer = PeerProcess::of(&host).unwrap();
        let refused = challenge(&host, &peer, &Question::sent_directly()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        child.wait().unwrap();
    }

    /// The pid in the credentials is right, and the process that had it has ended.
    #[tokio::test]
    async fn a_process_that_has_ended_has_not_answered() {
        let (host, helper) = pair();
        let mut ended = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let held = HeldProcess::open(ended.id().cast_signed()).unwrap();
        ended.wait().unwrap();
        let peer = PeerProcess { held, ..PeerProcess::of(&host).unwrap() };
        let answering = std::thread::spawn(move || answer(&helper));
        let refused = challenge(&host, &peer, &Question::sent_directly()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        answering.join().unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_was_sent_before_or_sent_back_is_no_answer() {
        let (host, helper) = pair();
        (&helper).write_all(&[b'0'; CHALLENGE_BYTES]).unwrap();
        assert!(
            challenge(&host, &PeerProcess::of(&host).unwrap(), &Question::sent_directly()).await.is_err()
        );
        // Who cannot look at the file can only repeat the question.
        let (host, helper) = pair();
        let question = Question::in_a_file_name().unwrap();
        (&helper).write_all(question.message().as_bytes()).unwrap();
        assert!(challenge(&host, &PeerProcess::of(&host).unwrap(), &question).await.is_err());
        let (host, helper) = pair();
        drop(helper);
        assert!(
            challenge(&host, &PeerProcess::of(&host).unwrap(), &Question::sent_directly()).await.is_err()
        );
    }
}
