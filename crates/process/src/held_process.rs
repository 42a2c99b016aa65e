//! A process that is held by a descriptor, a pidfd (pidfd_open(2)).
//!
//! A pid names another process as soon as its process has ended and was reaped. A pidfd never does. So a value read in
//! /proc/PID is about the held process if that process still runs after the read.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::signal::Signal;

/// A process that is held by a descriptor. Other systems than Linux have none.
#[derive(Debug)]
pub struct HeldProcess {
    #[cfg(target_os = "linux")]
    descriptor: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    never: std::convert::Infallible,
}

#[cfg(target_os = "linux")]
impl HeldProcess {
    /// Holds the process that has the pid `pid` now.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or the kernel is older than Linux 5.3.
    pub fn open(pid: i32) -> io::Result<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Holds the process at the other end of a Unix socket: the one that connected, or the one that called listen(2). Its
    /// pid in the credentials of the socket is `pid`.
    ///
    /// Linux before 6.5 cannot tell that process but by its pid. There it is the process that has this pid now. The
    /// caller must not trust it before it has proved that it is at the other end.
    ///
    /// # Errors
    ///
    /// Fails if that process has ended, or the kernel is older than Linux 5.3.
    pub fn of_peer(socket: BorrowedFd<'_>, pid: i32) -> io::Result<Self> {
        use nix::errno::Errno;
        use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
        match getsockopt(&socket, PeerPidfd) {
            Ok(descriptor) => Ok(Self { descriptor }),
            Err(Errno::ENOPROTOOPT) => Self::open(pid),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns whether the process runs. One that has exited and was not reaped does not.
    pub fn is_running(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut descriptors = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, PollTimeout::ZERO) == Ok(0)
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    ///
    /// Fails if it has ended or belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        use rustix::process::{Signal as RawSignal, pidfd_send_signal};
        let signal = RawSignal::from_named_raw(signal as i32).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_send_signal(&self.descriptor, signal)?)
    }
}

#[cfg(not(target_os = "linux"))]
impl HeldProcess {
    /// Does nothing but fail.
    ///
    /// # Errors
    ///
    /// Always fails: this system has no handle of a process.
    pub fn open(_pid: i32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Is never called, because nothing makes a handle here.
    pub fn is_running(&self) -> bool {
        match self.never {}
    }

    /// Is never called, because nothing makes a handle here.
    pub fn signal(&self, _signal: Signal) -> io::Result<()> {
        match self.never {}
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_is_the_same_process_until_its_end() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = HeldProcess::open(child.id().cast_signed()).unwrap();
        assert!(held.is_running());
        held.signal(Signal::SIGSTOP).unwrap();
        assert!(held.is_running(), "one that is stopped runs");
        held.signal(Signal::SIGKILL).unwrap();
        // Its pid is not free before it is reaped.
        while held.is_running() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!held.is_running());
        assert!(held.signal(Signal::SIGKILL).is_err());
        assert!(HeldProcess::open(0).is_err());
    }

    #[test]
    fn the_process_at_the_other_end_of_a_socket_is_held() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = std::process::id().cast_signed();
        assert!(HeldProcess::of_peer(socket.as_fd(), own).unwrap().is_running());
    }
}
