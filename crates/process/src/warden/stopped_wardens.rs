//! Ends warden processes that do not end by themselves although their socket is closed: something has stopped them.
//!
//! Nothing else waits for such a process, so it would stay for ever, with the upstreams that ignore the end of their
//! stdin. Three processes end it:
//!
//! - our process, when it ends in order ([`kill`]);
//! - a warden process, when its own process has died and the retired one of the same process is left ([`end`]);
//! - the warden process of the user's next dynamic-mcp (`orphans`).
//!
//! Each continues it first, because it knows best what to end. One that is stopped again is killed, and what it leaves
//! behind is found by its marks.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::orphans::{OrphanScope, end_orphans};
use super::owner_mark::OwnerId;
use super::supervised::KILL_TIMEOUT;
use crate::held_process::HeldProcess;
use base::procfs;

/// The time between two looks at the warden processes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a process may take from closing its descriptors to its end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns whether our process has died. Waits for the end of one whose descriptors are closed already, for
/// [`EXIT_TIMEOUT`] at most. Blocks.
///
/// A socket that is closed does not mean that: our process also closes that of a retired warden process without
/// upstreams.
pub(super) fn is_owner_dead(owner: &OwnerId) -> bool {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    while owner.is_running() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Continues the retired warden process of `owner` and waits for it until `sigkill_at`, kills it if it is left, and
/// then ends every process of the owner that is left. Blocks. If it works, it ends its upstreams by itself at the same
/// time.
pub(super) fn end(retired: HeldProcess, owner: &OwnerId, sigkill_at: Instant) {
    let wardens = [retired];
    resume(&wardens);
    wait(&wardens, sigkill_at);
    kill(&wardens, owner, sigkill_at + KILL_TIMEOUT);
}

/// Continues warden processes that are stopped.
pub(super) fn resume<'a>(wardens: impl IntoIterator<Item = &'a HeldProcess>) {
    for warden in wardens {
        // Fails if it has ended.
        warden.signal(Signal::SIGCONT).ok();
    }
}

/// Kills warden processes of `owner`, waits for their end until `deadline`, and ends every process of the owner that is
/// left, as [`end_orphans`] does. Blocks.
pub(super) fn kill(wardens: &[HeldProcess], owner: &OwnerId, deadline: Instant) {
    for warden in wardens {
        // Kills its upstreams too, except those that left its care.
        warden.signal(Signal::SIGKILL).ok();
    }
    wait(wardens, deadline);
    end_orphans(owner, OrphanScope::Owned);
}

fn wait(wardens: &[HeldProcess], deadline: Instant) {
    while Instant::now() < deadline && wardens.iter().any(HeldProcess::is_running) {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether the held process, which has this pid, is stopped.
pub(super) fn is_stopped(pid: u32, warden: &HeldProcess) -> bool {
    procfs::stat(pid.cast_signed()).is_some_and(|process| process.is_stopped) && warden.is_running()
}
