//! How the warden starts an upstream.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::SigSet;
use nix::unistd::setsid;

use super::mark::{self, Owner, limit};
use super::{Launch, Step};

/// Starts it in a session of its own, with `stdio` and nothing else open, and returns its pid.
pub(super) fn start(
    launch: &Launch,
    stdio: [OwnedFd; 3],
    owner: &Owner,
    id: u64,
    nofile: u64,
) -> Result<u32, (Step, i32)> {
    // The warden itself goes there and back, it has one thread: so the two failures can be told apart.
    std::env::set_current_dir(&launch.cwd).map_err(|error| (Step::Cwd, errno(&error)))?;
    let started = exec(launch, stdio, owner, id, nofile);
    std::env::set_current_dir("/").map_err(|error| (Step::Cwd, errno(&error)))?;
    started.map_err(|error| (Step::Exec, errno(&error)))
}

fn exec(launch: &Launch, stdio: [OwnedFd; 3], owner: &Owner, id: u64, nofile: u64) -> std::io::Result<u32> {
    let [stdin, stdout, stderr] = stdio.map(Stdio::from);
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).stdin(stdin).stdout(stdout).stderr(stderr);
    command.env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.env(mark::VARIABLE, owner.variable(id));
    dress(&mut command, limit::value(owner.pid, id), nofile);
    // Dropping std's handle neither waits nor kills: the warden reaps all its children in one place.
    command.spawn().map(|child| child.id())
}

/// What happens between fork and exec. Dispositions need no reset: the warden has handlers for what it must
/// not die of, and exec turns those into defaults; its mask is inherited.
#[expect(unsafe_code, reason = "pre_exec: only async-signal-safe calls may be made after fork")]
fn dress(command: &mut Command, limit_mark: u64, nofile: u64) {
    let warden = std::process::id();
    let dressed = move || {
        setsid()?;
        SigSet::empty().thread_set_mask()?;
        die_with(warden)?;
        restore_nofile(nofile);
        limit::wear(limit_mark);
        Ok(())
    };
    // SAFETY: the closure makes plain system calls and allocates nothing; errors are bare numbers.
    unsafe { command.pre_exec(dressed) };
}

/// When the warden is killed, so are the upstreams. Sound because the warden has one thread: the signal
/// follows the thread that forked.
#[cfg(target_os = "linux")]
fn die_with(warden: u32) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    // It may have died before the line above.
    if std::os::unix::process::parent_id() == warden { Ok(()) } else { Err(Errno::ESRCH) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_warden: u32) -> nix::Result<()> {
    Ok(())
}

/// Upstreams get the limit that we were started with: some loop over every possible descriptor, and select(2)
/// breaks above 1024. Failure is ignored: more descriptors than expected stop nobody.
fn restore_nofile(soft: u64) {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, soft as rlim_t, hard).ok();
    }
}

/// An argument with a NUL byte has no errno of its own.
fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::EINVAL as i32)
}
