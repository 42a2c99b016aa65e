//! Ends the orphaned processes of earlier wardens before this one spawns anything.
//!
//! A process is orphaned if it survived a SIGKILL of a dynamic-mcp and its warden at the same moment, or a SIGKILL of
//! the previous warden of our own dynamic-mcp. On Linux it is found by its owner mark. A warden that was stopped when
//! its dynamic-mcp was killed is found by its own. The processes of a dead dynamic-mcp whose warden lives are no orphans:
//! that warden is ending them.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::descendants::{self, EMPTY_SCANS};
use super::owner_mark::OwnerId;
#[cfg(target_os = "linux")]
use super::owner_mark::OwnerMark;
use super::protocol::LostUpstreams;
use crate::held_process::HeldProcess;
#[cfg(target_os = "linux")]
use base::procfs;
use base::procfs::ProcStat;

/// The time from SIGTERM to SIGKILL. It is short, because the stdin of these processes was closed long ago.
const SIGKILL_AFTER: Duration = Duration::from_millis(250);
/// A warden of a dead owner that is stopped again after this time is killed. One that works ends its upstreams and itself.
const STOPPED_WARDEN_TIMEOUT: Duration = Duration::from_millis(500);
/// The time between two scans of all processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);
/// Well below the 5 s that the first spawn waits for its result.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Which processes are ended.
#[derive(Clone, Copy)]
pub(super) enum OrphanScope<'a> {
    /// Those of dead owners, and those of the owner whose upstream was lost.
    Lost(&'a LostUpstreams),
    /// All of the owner that have no warden, and no others.
    Owned,
}

/// Ends the orphaned processes that `scope` has. Blocks until none is left, for [`CLEANUP_TIMEOUT`] at most.
pub(super) fn end_orphans(owner: &OwnerId, scope: OrphanScope<'_>) {
    let start = Instant::now();
    let sigkill_after = if matches!(scope, OrphanScope::Owned) { Duration::ZERO } else { SIGKILL_AFTER };
    let (mut sigterm_sent, mut empty_scans) = (false, 0);
    while start.elapsed() < CLEANUP_TIMEOUT {
        let Orphans { processes: orphans, stopped_wardens } = find(owner, scope);
        // They know best what to end.
        let is_late = start.elapsed() >= STOPPED_WARDEN_TIMEOUT;
        let signal = if is_late { Signal::SIGKILL } else { Signal::SIGCONT };
        stopped_wardens.iter().for_each(|warden| drop(warden.signal(signal)));
        let is_empty = orphans.is_empty() && stopped_wardens.is_empty();
        empty_scans = if is_empty { empty_scans + 1 } else { 0 };
        // Usually there are no orphans. Then a single scan is enough, because nothing was signalled that could fork.
        if empty_scans == EMPTY_SCANS || empty_scans > 0 && !sigterm_sent {
            return;
        }
        if start.elapsed() >= sigkill_after {
            descendants::signal_groups(&orphans, Signal::SIGKILL);
        } else if !sigterm_sent {
            descendants::signal_groups(&orphans, Signal::SIGTERM);
        }
        sigterm_sent = true;
        std::thread::sleep(if is_empty { Duration::from_millis(1) } else { SCAN_INTERVAL });
    }
}

/// What one scan has found.
#[derive(Default)]
struct Orphans {
    processes: Vec<ProcStat>,
    /// The wardens of dead owners that are stopped.
    stopped_wardens: Vec<HeldProcess>,
}

/// Untested.
#[cfg(not(target_os = "linux"))]
fn find(owner: &OwnerId, scope: OrphanScope<'_>) -> Orphans {
    let OrphanScope::Lost(lost) = scope else { return Orphans::default() };
    let upstreams = lost.pids.iter().map(|pid| (pid.cast_signed(), 0)).collect();
    let found = descendants::scan(&upstreams, &HashSet::new(), owner).into_iter();
    Orphans { processes: found.map(|found| found.process).collect(), ..Orphans::default() }
}

#[cfg(target_os = "linux")]
fn find(owner: &OwnerId, scope: OrphanScope<'_>) -> Orphans {
    let protected = Protected::new(owner);
    let processes = procfs::processes().filter(|process| !process.is_zombie && !protected.includes(process));
    let mut processes: Vec<ProcStat> = processes.collect();
    let stopped_wardens = match scope {
        OrphanScope::Lost(_) => processes
            .iter()
            .filter(|process| process.is_stopped)
            .filter_map(|process| hold_abandoned_warden(process, owner, &protected))
            .collect(),
        OrphanScope::Owned => Vec::new(),
    };
    processes.retain(|process| is_orphan(process, owner, scope, &protected));
    Orphans { processes, stopped_wardens }
}

/// Holds a process that is the warden of a dead owner.
#[cfg(target_os = "linux")]
fn hold_abandoned_warden(process: &ProcStat, owner: &OwnerId, protected: &Protected) -> Option<HeldProcess> {
    let held = HeldProcess::open(process.pid).ok()?;
    let marked = OwnerId::of_warden(process.pid)?;
    let is_abandoned = !protected.owners.contains(&marked.pid) && marked.is_dead(owner);
    // What was read is about the held process if that one has the pid still.
    let is_held = || ProcStat::is_running(process.pid, process.starttime) && held.is_running();
    (is_abandoned && is_held()).then_some(held)
}

#[cfg(target_os = "linux")]
fn is_orphan(process: &ProcStat, owner: &OwnerId, scope: OrphanScope<'_>, protected: &Protected) -> bool {
    let is_lost = |id: u64| match scope {
        OrphanScope::Lost(lost) => lost.contains(id),
        OrphanScope::Owned => !has_warden(process, owner.pid),
    };
    let ends_dead_owners = matches!(scope, OrphanScope::Lost(_));
    match OwnerMark::read(process.pid) {
        None => false,
        Some(OwnerMark::Env(marked, id)) if marked == *owner => is_lost(id),
        Some(OwnerMark::Env(marked, _)) => {
            ends_dead_owners
                && !protected.owners.contains(&marked.pid)
                && marked.is_dead(owner)
                && !has_warden(process, marked.pid)
        }
        // This mark does not name the owner's pid namespace, so only processes of our own namespace are judged.
        Some(OwnerMark::Rlimit(pid, id)) => {
            !protected.owners.contains(&pid)
                && owner.shares_namespace_with(process.pid)
                && (pid == owner.pid && is_lost(id)
                    || ends_dead_owners && started_after(pid, process) && !has_warden(process, pid))
        }
    }
}

/// Returns whether `process` descends from a living warden of the owner that had the pid `owner`. A warden is a subreaper,
/// so what its upstreams have started stays below it.
#[cfg(target_os = "linux")]
fn has_warden(process: &ProcStat, owner: i32) -> bool {
    let parent = |process: &ProcStat| procfs::stat(process.ppid).filter(|parent| parent.pid > 1);
    let mut ancestors = std::iter::successors(parent(process), parent);
    ancestors.any(|ancestor| OwnerId::of_warden(ancestor.pid).is_some_and(|marked| marked.pid == owner))
}

/// Returns whether the process that has this pid now started after `process`, and thus cannot be its owner. Also true
/// if none runs.
#[cfg(target_os = "linux")]
fn started_after(pid: i32, process: &ProcStat) -> bool {
    procfs::stat(pid).is_none_or(|current| current.is_zombie || current.starttime > process.starttime)
}

/// Processes that must not be ended although their owner is dead: those that we were started from.
///
/// An upstream of a dead owner may have left a shell behind, in which the user has started us.
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
        while let Some(process) = procfs::stat(pid).filter(|_| pid > 0) {
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
