//! Ends the older warden processes of our process, and their upstreams, when our process ends.
//!
//! A socket that is closed does not mean that: our process also closes that of a retired warden process without
//! upstreams. An older warden process that works ends its upstreams by itself at the same time, because its socket was closed too.
//! One that is stopped does not.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

use super::orphans;
use super::owner_mark::OwnerId;
use super::procfs::ProcStat;
use super::supervised::KILL_TIMEOUT;

/// The time between two looks at the older warden processes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a process may take from closing its descriptors to its end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether our process has died. Waits a moment for the end of one whose descriptors are closed already.
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

/// Waits for the older warden processes until `sigkill_at`, kills those that are left, and then ends every process of
/// the owner that is left.
pub(super) fn end(wardens: &[ProcStat], owner: &OwnerId, sigkill_at: Instant) {
    while Instant::now() < sigkill_at && wardens.iter().any(is_alive) {
        std::thread::sleep(POLL_INTERVAL);
    }
    for warden in wardens.iter().filter(|warden| is_alive(warden)) {
        // Kills its upstreams too, except those that left its care.
        kill(Pid::from_raw(warden.pid), Signal::SIGKILL).ok();
    }
    while Instant::now() < sigkill_at + KILL_TIMEOUT && wardens.iter().any(is_alive) {
        std::thread::sleep(POLL_INTERVAL);
    }
    orphans::end_owned(owner);
}

/// Whether it is the same process as before.
fn is_alive(warden: &ProcStat) -> bool {
    ProcStat::is_running(warden.pid, warden.starttime)
}
