//! Spawns an upstream from the warden process.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::SigSet;
use nix::unistd::setsid;

use super::owner_mark::{OWNER_VAR, OwnerId};
use super::protocol::SpawnStep;
use super::rlimit_mark;
use crate::transport::launch::Launch;

/// What the upstreams of one owner have in common.
pub(super) struct SpawnContext {
    /// The owner, which their marks name.
    pub(super) owner: OwnerId,
    /// Their soft RLIMIT_NOFILE.
    pub(super) nofile: u64,
}

impl SpawnContext {
    /// Spawns the upstream `id` in a session of its own, with no descriptors but `stdio`. Returns its pid, or the
    /// failed step and its errno.
    pub(super) fn spawn(
        &self,
        id: u64,
        launch: &Launch,
        stdio: [OwnedFd; 3],
    ) -> Result<u32, (SpawnStep, i32)> {
        // The warden process changes its own directory, which is safe because it has one thread. `Command` would not
        // tell the failure of chdir from that of exec.
        std::env::set_current_dir(&launch.cwd).map_err(|error| (SpawnStep::Chdir, errno_of(&error)))?;
        let spawned = self.fork_and_exec(id, launch, stdio);
        std::env::set_current_dir("/").map_err(|error| (SpawnStep::Chdir, errno_of(&error)))?;
        spawned.map_err(|error| (SpawnStep::Exec, errno_of(&error)))
    }

    fn fork_and_exec(&self, id: u64, launch: &Launch, stdio: [OwnedFd; 3]) -> std::io::Result<u32> {
        let [stdin, stdout, stderr] = stdio.map(Stdio::from);
        let mut command = Command::new(&launch.program);
        command.args(&launch.args).stdin(stdin).stdout(stdout).stderr(stderr);
        command.env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
        command.env(OWNER_VAR, self.owner.var_value(id));
        set_up_child(&mut command, rlimit_mark::encode(self.owner.pid, id), self.nofile);
        // Dropping the handle of std neither waits nor kills: the supervisor reaps all children in one place.
        command.spawn().map(|child| child.id())
    }
}

/// Sets what the child does between fork and exec.
///
/// It need not reset signal dispositions: the warden process has handlers for the signals that it must survive, and
/// exec resets handlers to the default. The signal mask is inherited, so the child empties it.
#[expect(unsafe_code, reason = "pre_exec: only async-signal-safe functions may be called after fork")]
fn set_up_child(command: &mut Command, rlimit_mark: u64, nofile: u64) {
    let warden_pid = std::process::id();
    let set_up = move || {
        setsid()?;
        SigSet::empty().thread_set_mask()?;
        set_parent_death_signal(warden_pid)?;
        restore_nofile(nofile);
        rlimit_mark::set(rlimit_mark);
        Ok(())
    };
    // SAFETY: the closure makes system calls only and does not allocate; its errors are plain numbers.
    unsafe { command.pre_exec(set_up) };
}

/// Makes the kernel kill the upstream when the warden process dies. The signal is bound to the thread that forked, and
/// the warden process has one thread.
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
fn errno_of(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::EINVAL as i32)
}
