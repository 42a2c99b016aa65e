//! The descendants of the warden process: which upstream each belongs to, and how they are signalled.
//!
//! On Linux the warden process is a subreaper: a descendant whose parent exits becomes its child. Every process that an
//! upstream starts therefore stays in the subtree of the warden process, and no other process has to be searched.

use std::collections::{BTreeSet, HashMap, HashSet};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getsid};

use super::owner_mark::OwnerId;
#[cfg(target_os = "linux")]
use super::owner_mark::OwnerMark;
#[cfg(target_os = "linux")]
use base::procfs;
use base::procfs::ProcStat;

/// The number of scans in a row that have to find no process. A single one proves nothing, because a process that forks
/// and exits can escape between two reads of /proc.
pub(super) const EMPTY_SCANS: u8 = 8;

/// A living descendant of the warden process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descendant {
    /// The process.
    pub(super) process: ProcStat,
    /// The upstream it belongs to. `None` if it removed every mark; then it lives until everything is ended.
    pub(super) upstream: Option<u64>,
}

/// Signals every process group that has one of `processes`, and continues stopped processes.
///
/// The signal goes to groups because killpg(2) is atomic against fork(2). A group never contains another program's
/// process, because every upstream has a session of its own. Our own group and session are skipped.
pub(super) fn signal_groups<'a>(processes: impl IntoIterator<Item = &'a ProcStat>, signal: Signal) {
    let (own_group, own_session) = (getpgrp().as_raw(), getsid(None).map_or(0, Pid::as_raw));
    let is_foreign = |process: &&ProcStat| {
        process.pgrp > 1 && process.session > 1 && process.pgrp != own_group && process.session != own_session
    };
    let groups: BTreeSet<i32> =
        processes.into_iter().filter(is_foreign).map(|process| process.pgrp).collect();
    for group in groups {
        // Fails if the group is gone or runs as another user (setuid). The next scan shows which.
        killpg(Pid::from_raw(group), signal).ok();
        if signal != Signal::SIGKILL {
            killpg(Pid::from_raw(group), Signal::SIGCONT).ok();
        }
    }
}

/// Finds the children of processes.
#[cfg(target_os = "linux")]
enum ChildLookup {
    /// The kernel lists children. The cost depends on the size of the subtree only.
    Kernel,
    /// The children of every process, from one pass over all processes.
    Table(HashMap<i32, Vec<i32>>),
}

#[cfg(target_os = "linux")]
impl ChildLookup {
    /// Chooses the kernel's lists of children if it has them, else reads all processes once.
    fn new() -> Self {
        if procfs::kernel_lists_children() {
            return Self::Kernel;
        }
        let mut table: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in procfs::processes().filter(|process| !process.is_zombie) {
            table.entry(process.ppid).or_default().push(process.pid);
        }
        Self::Table(table)
    }

    /// Returns the pids of a process's children, including zombies if the kernel lists them.
    fn children(&self, pid: i32) -> Vec<i32> {
        match self {
            Self::Kernel => procfs::children(pid),
            Self::Table(table) => table.get(&pid).cloned().unwrap_or_default(),
        }
    }
}

/// Returns the living descendants of the warden process, without the subtrees of the processes in `skipped`.
///
/// `upstreams` are the ids of the upstreams by the pid of their first process, living or dead.
#[cfg(target_os = "linux")]
pub(super) fn scan(
    upstreams: &HashMap<i32, u64>,
    skipped: &HashSet<i32>,
    owner: &OwnerId,
) -> Vec<Descendant> {
    let lookup = ChildLookup::new();
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let children = lookup.children(std::process::id().cast_signed());
    let searched = children.into_iter().filter(|pid| !skipped.contains(pid));
    let mut queue: Vec<(i32, Option<u64>)> = searched.map(|pid| (pid, None)).collect();
    while let Some((pid, inherited)) = queue.pop() {
        let Some(process) = procfs::stat(pid).filter(|_| seen.insert(pid)) else { continue };
        let upstream = inherited.or_else(|| upstream_of(&process, upstreams, owner));
        queue.extend(lookup.children(pid).into_iter().map(|child| (child, upstream)));
        if !process.is_zombie {
            found.push(Descendant { process, upstream });
        }
    }
    found
}

/// Returns the upstream of a child of the warden process, which is its first process or was adopted.
///
/// A mark takes precedence over the session, whose number may be reused once its upstream is gone.
#[cfg(target_os = "linux")]
fn upstream_of(process: &ProcStat, upstreams: &HashMap<i32, u64>, owner: &OwnerId) -> Option<u64> {
    let as_first = upstreams.get(&process.pid).copied().filter(|_| process.session == process.pid);
    let by_mark = || OwnerMark::read(process.pid)?.upstream_of(owner);
    as_first.or_else(by_mark).or_else(|| upstreams.get(&process.session).copied())
}

/// Other systems, untested: only the groups that upstreams were started in are known. A process that left its group is
/// not found.
#[cfg(not(target_os = "linux"))]
pub(super) fn scan(
    upstreams: &HashMap<i32, u64>,
    skipped: &HashSet<i32>,
    _owner: &OwnerId,
) -> Vec<Descendant> {
    let searched = upstreams.iter().filter(|(pid, _)| !skipped.contains(pid));
    let alive = searched.filter(|(pid, _)| killpg(Pid::from_raw(**pid), None).is_ok());
    alive
        .map(|(&pid, &id)| Descendant { process: ProcStat::session_leader(pid), upstream: Some(id) })
        .collect()
}
