//! Ends the orphaned processes of earlier wardens before this one spawns anything.
//!
//! A process is orphaned if it survived a SIGKILL of a dynamic-mcp and its warden at the same moment, or a SIGKILL of
//! the previous warden of our own dynamic-mcp. On Linux it is found by its owner mark.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::descendants::{self, EMPTY_SCANS};
use super::owner_mark::OwnerId;
#[cfg(target_os = "linux")]
use super::owner_mark::OwnerMark;
#[cfg(target_os = "linux")]
use super::procfs;
use super::procfs::ProcStat;
use super::protocol::LostUpstreams;

/// The time from SIGTERM to SIGKILL. It is short, because the stdin of these processes was closed long ago.
const SIGKILL_AFTER: Duration = Duration::from_millis(250);
/// The time between two scans of all processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);
/// Well below the 5 s that the first spawn waits for its result.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Which processes are ended.
#[derive(Clone, Copy)]
enum OrphanScope<'a> {
    /// Those of dead owners, and those of `owner` whose upstream was lost.
    Lost(&'a LostUpstreams),
    /// All of `owner`, and no others.
    Owned,
}

/// Ends every process of a dead owner, and those of `owner` whose upstream was lost.
pub(super) fn end_orphans(owner: &OwnerId, lost: &LostUpstreams) {
    end(owner, OrphanScope::Lost(lost));
}

/// Ends every process of `owner` that is left, whichever warden started it.
pub(super) fn end_owned(owner: &OwnerId) {
    end(owner, OrphanScope::Owned);
}

fn end(owner: &OwnerId, scope: OrphanScope<'_>) {
    let start = Instant::now();
    let (mut sigterm_sent, mut empty_scans) = (false, 0);
    while start.elapsed() < CLEANUP_TIMEOUT {
        let orphans = find(owner, scope);
        empty_scans = if orphans.is_empty() { empty_scans + 1 } else { 0 };
        // Usually there are no orphans. Then a single scan is enough, because nothing was signalled that could fork.
        if empty_scans == EMPTY_SCANS || empty_scans > 0 && !sigterm_sent {
            return;
        }
        if start.elapsed() >= SIGKILL_AFTER {
            descendants::signal_groups(&orphans, Signal::SIGKILL);
        } else if !sigterm_sent {
            descendants::signal_groups(&orphans, Signal::SIGTERM);
        }
        sigterm_sent = true;
        std::thread::sleep(if orphans.is_empty() { Duration::from_millis(1) } else { SCAN_INTERVAL });
    }
}

/// Untested.
#[cfg(not(target_os = "linux"))]
fn find(owner: &OwnerId, scope: OrphanScope<'_>) -> Vec<ProcStat> {
    let OrphanScope::Lost(lost) = scope else { return Vec::new() };
    let upstreams = lost.pids.iter().map(|pid| (pid.cast_signed(), 0)).collect();
    descendants::scan(&upstreams, &HashSet::new(), owner).into_iter().map(|found| found.process).collect()
}

#[cfg(target_os = "linux")]
fn find(owner: &OwnerId, scope: OrphanScope<'_>) -> Vec<ProcStat> {
    let protected = Protected::new(owner);
    let mut processes = procfs::live_processes();
    processes.retain(|process| !protected.includes(process) && is_orphan(process, owner, scope, &protected));
    processes
}

#[cfg(target_os = "linux")]
fn is_orphan(process: &ProcStat, owner: &OwnerId, scope: OrphanScope<'_>, protected: &Protected) -> bool {
    let is_lost = |id: u64| match scope {
        OrphanScope::Lost(lost) => lost.contains(id),
        OrphanScope::Owned => true,
    };
    let ends_dead_owners = matches!(scope, OrphanScope::Lost(_));
    match OwnerMark::read(process.pid) {
        None => false,
        Some(OwnerMark::Env(marked, id)) if marked == *owner => is_lost(id),
        Some(OwnerMark::Env(marked, _)) => {
            ends_dead_owners && !protected.owners.contains(&marked.pid) && marked.is_dead(owner)
        }
        // This mark does not name the owner's pid namespace, so only processes of our own namespace are judged.
        Some(OwnerMark::Rlimit(pid, id)) => {
            !protected.owners.contains(&pid)
                && owner.shares_namespace_with(process.pid)
                && (pid == owner.pid && is_lost(id) || ends_dead_owners && started_after(pid, process))
        }
    }
}

/// Returns whether the process that has this pid now started after `process`, and thus cannot be its owner. Also true
/// if there is none.
#[cfg(target_os = "linux")]
fn started_after(pid: i32, process: &ProcStat) -> bool {
    ProcStat::read(pid).is_none_or(|current| current.starttime > process.starttime)
}

/// Processes that must not be ended although their owner is dead: those that we were started from.
///
/// An upstream of a dead owner may have left a shell behind that somebody uses, and started us from it.
#[cfg(target_os = "linux")]
struct Protected {
    /// The pids of the owners of our ancestors.
    owners: HashSet<i32>,
    /// The sessions of our ancestors and our own.
    sessions: HashSet<i32>,
    /// Our user. Processes of other users are protected, even if we are root.
    uid: Option<u32>,
}

#[cfg(target_os = "linux")]
impl Protected {
    fn new(owner: &OwnerId) -> Self {
        let mut protected =
            Self { owners: HashSet::new(), sessions: HashSet::new(), uid: procfs::uid("self") };
        let mut pid = owner.pid;
        while let Some(process) = ProcStat::read(pid).filter(|_| pid > 0) {
            protected.sessions.insert(process.session);
            if let Some(mark) = OwnerMark::read(pid) {
                protected.owners.insert(mark.owner_pid());
            }
            pid = process.ppid;
        }
        protected
    }

    fn includes(&self, process: &ProcStat) -> bool {
        self.sessions.contains(&process.session) || self.uid.is_none() || procfs::uid(process.pid) != self.uid
    }
}
