//! Tells all processes of the user which servers are being ended, so that the next process of a server starts when the
//! last one has given up its ports and files.
//!
//! A warden process locks one byte of a file for each server that it ends. The place of the byte is the [`ServerId`].
//! The kernel drops the lock when the warden process unlocks it or dies, so no lock is ever left behind. The locks are
//! those of fcntl(2): they belong to a process, and closing any descriptor of the file gives up all of them. So the
//! warden process has one descriptor, and keeps it. Locks are shared, because several instances may end their processes
//! of one server at the same time.

use super::runtime_dir::RuntimeDir;
use super::server_id::ServerId;
use nix::fcntl::{FcntlArg, fcntl};
use std::fs::File;
use std::io;

/// The file with the locks.
#[derive(Debug)]
pub struct EndingServers(pub(crate) File);

impl EndingServers {
    /// Uses the file in the runtime directory, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or created.
    pub fn open(dir: &RuntimeDir) -> io::Result<Self> {
        dir.ending_file().map(Self)
    }

    /// Marks a server as one that this process ends. Only the warden process does this. Ignores errors: without the
    /// mark, the next process of the server does not wait.
    pub(crate) fn mark(&self, server: ServerId) {
        fcntl(&self.0, FcntlArg::F_SETLK(&lock(server, libc::F_RDLCK))).ok();
    }

    /// Removes the mark of this process.
    pub(crate) fn unmark(&self, server: ServerId) {
        fcntl(&self.0, FcntlArg::F_SETLK(&lock(server, libc::F_UNLCK))).ok();
    }

    /// Returns whether another process ends a process of this server.
    pub(crate) fn is_ending(&self, server: ServerId) -> bool {
        // Nothing is locked: the system says which lock would be in the way, or that none is.
        let mut found = lock(server, libc::F_WRLCK);
        let is_known = fcntl(&self.0, FcntlArg::F_GETLK(&mut found)).is_ok();
        is_known && found.l_type != lock(server, libc::F_UNLCK).l_type
    }
}

/// Returns a lock of the server's byte. The type of `kind` depends on the system.
fn lock(server: ServerId, kind: impl TryInto<libc::c_short>) -> libc::flock {
    libc::flock {
        l_type: kind.try_into().unwrap_or_default(),
        l_whence: libc::SEEK_SET.try_into().unwrap_or_default(),
        l_start: server.0,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Launch;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork, pause, write};
    use std::io::Read;

    /// The kernel tells a process nothing of its own locks.
    #[test]
    #[expect(unsafe_code, reason = "fork(2): the child makes system calls only")]
    fn a_mark_is_seen_by_other_processes_until_its_process_ends() {
        let launch = |program: &str| Launch {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
        };
        let [marked, unmarked, other] = ["/a", "/b", "/c"].map(|program| launch(program).server_id());
        let ending = EndingServers(tempfile::tempfile().unwrap());
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: the child makes system calls only.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => loop {
                ending.mark(marked);
                ending.mark(unmarked);
                ending.unmark(unmarked);
                write(&writer, b"x").ok();
                pause();
            },
        };
        reader.read_exact(&mut [0]).unwrap();
        assert_eq!([marked, unmarked, other].map(|server| ending.is_ending(server)), [true, false, false]);
        kill(child, Signal::SIGKILL).unwrap();
        waitpid(child, None).unwrap();
        assert!(!ending.is_ending(marked));
    }
}
