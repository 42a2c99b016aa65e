//! Spawns an upstream from the warden process, without waiting for it.
//!
//! The child changes its directory and executes the program by itself, and either may hang on a network mount that is
//! gone. So the warden process forks and goes on. A pipe that exec closes tells how it went: it ends without a byte, or
//! with the step that failed and its errno.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, fork, setsid};

use super::owner_mark::{OWNER_VAR, OwnerId};
use super::protocol::SpawnStep;
use super::rlimit_mark;
use crate::descriptors::close_range;
use crate::launch::Launch;

/// What the upstreams of one owner have in common.
pub(super) struct SpawnContext {
    /// The owner, which their marks name.
    pub(super) owner: OwnerId,
    /// Their soft RLIMIT_NOFILE.
    pub(super) nofile: u64,
}

/// The failed step of a spawn, and its errno.
pub(super) type SpawnFailure = (SpawnStep, i32);

/// Tells how the spawn of a forked child went.
pub(super) struct SpawnReport(File);

impl SpawnReport {
    /// Returns the outcome, without waiting; `None` if the child has neither executed its program nor failed.
    ///
    /// # Errors
    ///
    /// The step that failed, and its errno.
    pub(super) fn poll(&mut self) -> Option<Result<(), SpawnFailure>> {
        let mut bytes = [0; 5];
        let exec = SpawnStep::Exec;
        match self.0.read(&mut bytes) {
            Ok(0) => Some(Ok(())),
            // A pipe writes so few bytes at once.
            Ok(_) => {
                let [step, errno @ ..] = bytes;
                let step = if step == 0 { SpawnStep::Chdir } else { exec };
                Some(Err((step, i32::from_le_bytes(errno))))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(error) => Some(Err((exec, errno_of(&error)))),
        }
    }

    /// Returns the descriptor, to wait for with poll(2).
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Everything that the child needs, in the form of the system calls.
struct PreparedChild {
    program: CString,
    args: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    rlimit_mark: u64,
    nofile: u64,
    warden_pid: u32,
}

impl SpawnContext {
    /// Forks the upstream `id`, which gets a session of its own and no descriptors but `stdio`. Returns its pid, and
    /// what tells whether it has executed its program. Does not wait for that.
    ///
    /// # Errors
    ///
    /// The errno of what failed before or at the fork. The step is `Exec`.
    #[expect(unsafe_code, reason = "fork(2): the child may run little but system calls")]
    pub(super) fn spawn(
        &self,
        id: u64,
        launch: &Launch,
        stdio: &[OwnedFd; 3],
    ) -> Result<(u32, SpawnReport), SpawnFailure> {
        let failed = |error: io::Error| (SpawnStep::Exec, errno_of(&error));
        let child = self.prepare(id, launch).map_err(failed)?;
        let (reader, writer) = io::pipe().map_err(failed)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| failed(errno.into()))?;
        let report = SpawnReport(File::from(OwnedFd::from(reader)));
        // SAFETY: this process has one thread, so the child finds no lock that another thread holds.
        match unsafe { fork() } {
            Ok(ForkResult::Parent { child }) => Ok((child.as_raw().unsigned_abs(), report)),
            Ok(ForkResult::Child) => child.run(stdio, writer),
            Err(errno) => Err((SpawnStep::Exec, errno as i32)),
        }
    }

    /// Makes what the child needs, with its owner marks.
    ///
    /// # Errors
    ///
    /// Fails if a string has a NUL byte.
    fn prepare(&self, id: u64, launch: &Launch) -> io::Result<PreparedChild> {
        let string = |text: &OsStr| CString::new(text.as_bytes());
        let assignment =
            |name: &OsStr, value: &OsStr| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
        let args = std::iter::once(launch.program.as_os_str()).chain(launch.args.iter().map(AsRef::as_ref));
        let mark = self.owner.var_value(id);
        let is_mark = |name: &OsStr| name == OWNER_VAR;
        let env = launch.env.iter().filter(|(name, _)| !is_mark(name));
        let env = env.map(|(name, value)| assignment(name, value));
        let env = env.chain(std::iter::once(assignment(OWNER_VAR.as_ref(), &mark)));
        Ok(PreparedChild {
            program: string(launch.program.as_os_str())?,
            args: args.map(string).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            cwd: string(launch.cwd.as_os_str())?,
            rlimit_mark: rlimit_mark::encode(self.owner.pid, id),
            nofile: self.nofile,
            warden_pid: std::process::id(),
        })
    }
}

impl PreparedChild {
    /// Returns what the child does after the fork: it becomes the upstream, or reports why it cannot and exits.
    #[expect(unsafe_code, reason = "_exit(2): what the warden process registered for its exit is not ours")]
    fn run(&self, stdio: &[OwnedFd; 3], mut report: PipeWriter) -> ! {
        let Err((step, errno)) = self.execute(stdio, report.as_raw_fd());
        let [a, b, c, d] = (errno as i32).to_le_bytes();
        report.write_all(&[u8::from(step == SpawnStep::Exec), a, b, c, d]).ok();
        // SAFETY: ends the process.
        unsafe { libc::_exit(127) }
    }

    /// Sets up the child and executes its program. Returns only if that fails.
    ///
    /// Signal dispositions need no reset: the warden process has handlers for the signals that it must survive, and
    /// exec resets handlers to the default. The signal mask is inherited, so the child empties it.
    ///
    /// # Errors
    ///
    /// The step that failed, and its errno.
    fn execute(&self, stdio: &[OwnedFd; 3], report: RawFd) -> Result<Infallible, (SpawnStep, Errno)> {
        let [stdin, stdout, stderr] = stdio;
        let set_up = || {
            setsid()?;
            set_parent_death_signal(self.warden_pid)?;
            dup2_stdin(stdin)?;
            dup2_stdout(stdout)?;
            dup2_stderr(stderr)?;
            // Above all the socket: while the child has not executed its program, it would keep it open.
            close_range(3, report - 1);
            close_range(report + 1, RawFd::MAX);
            SigSet::empty().thread_set_mask()?;
            restore_nofile(self.nofile);
            rlimit_mark::set(self.rlimit_mark);
            Ok(())
        };
        set_up().map_err(|errno| (SpawnStep::Exec, errno))?;
        chdir(self.cwd.as_c_str()).map_err(|errno| (SpawnStep::Chdir, errno))?;
        let executed = match execve(&self.program, &self.args, &self.env) {
            // A script without an interpreter line runs in the shell, as with execvp(3).
            Err(Errno::ENOEXEC) => {
                let [shell, program] = [c"/bin/sh", self.program.as_c_str()];
                let args: Vec<&CStr> =
                    [shell, program].into_iter().chain(self.args.iter().skip(1).map(AsRef::as_ref)).collect();
                execve(shell, &args, &self.env)
            }
            executed => executed,
        };
        executed.map_err(|errno| (SpawnStep::Exec, errno))
    }
}

/// Makes the kernel kill the upstream when the warden process dies. The signal is bound to the thread that forked, and
/// the warden process has one thread.
///
/// # Errors
///
/// `ESRCH` if the warden process has died already.
#[cfg(target_os = "linux")]
fn set_parent_death_signal(warden_pid: u32) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    // The warden process may have died before the line above.
    if std::os::unix::process::parent_id() == warden_pid { Ok(()) } else { Err(Errno::ESRCH) }
}

#[cfg(not(target_os = "linux"))]
fn set_parent_death_signal(_warden_pid: u32) -> nix::Result<()> {
    Ok(())
}

/// Gives the upstream the soft limit that we were started with: some programs close every possible descriptor in a
/// loop, and select(2) supports 1024 only. Ignores errors, because a higher limit does not keep an upstream from
/// running.
fn restore_nofile(soft: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, soft as rlim_t, hard).ok();
    }
}

/// Returns the errno of an error. That of an argument with a NUL byte has none.
fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::EINVAL as i32)
}
