//! Who descends from the warden, which upstream each of them belongs to, and how they are signalled.
//!
//! On Linux the warden is a subreaper: whatever an upstream started stays in the warden's subtree however it
//! tried to leave, so that the subtree is all there is to look at.

use std::collections::{BTreeSet, HashMap, HashSet};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getsid};

use super::mark::Owner;

/// One empty scan proves nothing: a process that forks and exits can slip between two reads of /proc.
pub(super) const EMPTY_SCANS: u8 = 8;

/// A living process as /proc shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Clock ticks since boot: tells apart two processes that had the same pid.
    pub(super) start: u64,
    zombie: bool,
}

impl Process {
    /// An upstream of which nothing is known but that it was started in a session of its own.
    pub(super) fn leader(pid: i32) -> Self {
        Self { pid, parent: 0, group: pid, session: pid, start: 0, zombie: false }
    }
}

/// A living descendant of the warden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) process: Process,
    /// The upstream it belongs to. `None`: it shed every mark; only the end of everything reaches it.
    pub(super) upstream: Option<u64>,
}

/// Signals every process group that has one of `processes`, and continues what was stopped.
/// By group because killpg is atomic against fork. Every upstream has sessions of its own, so that
/// a group never holds a stranger, and nobody who shares ours is among them.
pub(super) fn signal<'a>(processes: impl IntoIterator<Item = &'a Process>, signal: Signal) {
    let ours = (getpgrp().as_raw(), getsid(None).map_or(0, Pid::as_raw));
    let foreign = |process: &&Process| {
        process.group > 1 && process.session > 1 && process.group != ours.0 && process.session != ours.1
    };
    let groups: BTreeSet<i32> = processes.into_iter().filter(foreign).map(|process| process.group).collect();
    for group in groups {
        // A group that is gone, or that is not ours to kill (setuid), shows in the next scan.
        killpg(Pid::from_raw(group), signal).ok();
        if signal != Signal::SIGKILL {
            killpg(Pid::from_raw(group), Signal::SIGCONT).ok();
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::{HashMap, HashSet, Member, Owner, Process};
    use crate::transport::warden::mark::Mark;

    /// What /proc says about a process; `None` once it was reaped.
    pub(in super::super) fn stat(pid: i32) -> Option<Process> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold any byte, parentheses and spaces included.
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let fields = str::from_utf8(text.get(name_end + 2..)?).ok()?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Process {
            pid,
            zombie: matches!(fields.first(), Some(&"Z" | &"X")),
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Every process there is.
    pub(in super::super) fn all() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(stat).filter(|process| !process.zombie).collect()
    }

    /// The living descendants of this process, but for those below `aside`. `roots` are the upstreams by pid,
    /// living or dead.
    pub(in super::super) fn members(
        roots: &HashMap<i32, u64>,
        aside: &HashSet<i32>,
        owner: &Owner,
    ) -> Vec<Member> {
        let tree = Tree::new();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let children = tree.children(std::process::id().cast_signed());
        let looked_at = children.into_iter().filter(|pid| !aside.contains(pid));
        let mut queue: Vec<(i32, Option<u64>)> = looked_at.map(|pid| (pid, None)).collect();
        while let Some((pid, inherited)) = queue.pop() {
            let Some(process) = stat(pid).filter(|_| seen.insert(pid)) else { continue };
            let upstream = inherited.or_else(|| upstream_of(&process, roots, owner));
            queue.extend(tree.children(pid).into_iter().map(|child| (child, upstream)));
            if !process.zombie {
                found.push(Member { process, upstream });
            }
        }
        found
    }

    /// To whom a direct child of the warden belongs: an upstream itself, or one that was adopted.
    /// Marks come before the session, whose number may be used again once its upstream is gone.
    fn upstream_of(process: &Process, roots: &HashMap<i32, u64>, owner: &Owner) -> Option<u64> {
        let marked = || Mark::read(process.pid)?.id_of(owner);
        let leader = roots.get(&process.pid).copied().filter(|_| process.session == process.pid);
        leader.or_else(marked).or_else(|| roots.get(&process.session).copied())
    }

    /// Parents and children.
    enum Tree {
        /// The kernel lists children (CONFIG_PROC_CHILDREN: all usual ones): cost follows our subtree.
        Listed,
        /// It does not: one pass over all processes.
        Gathered(HashMap<i32, Vec<i32>>),
    }

    impl Tree {
        fn new() -> Self {
            let me = std::process::id();
            if fs::exists(format!("/proc/self/task/{me}/children")).unwrap_or(false) {
                return Self::Listed;
            }
            let mut gathered: HashMap<i32, Vec<i32>> = HashMap::new();
            for process in all() {
                gathered.entry(process.parent).or_default().push(process.pid);
            }
            Self::Gathered(gathered)
        }

        fn children(&self, pid: i32) -> Vec<i32> {
            match self {
                Self::Listed => listed(pid),
                Self::Gathered(gathered) => gathered.get(&pid).cloned().unwrap_or_default(),
            }
        }
    }

    fn listed(pid: i32) -> Vec<i32> {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
        let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_ascii_whitespace().map(str::parse).collect::<Vec<_>>())
            .flatten()
            .collect()
    }
}
#[cfg(target_os = "linux")]
pub(super) use linux::{all, members, stat};

/// Other Unix, untested: nothing is known of the descendants but the groups that upstreams were started in.
/// What left its group there is not found.
#[cfg(not(target_os = "linux"))]
mod other {
    use super::{HashMap, HashSet, Member, Owner, Pid, Process, killpg};

    pub(in super::super) fn stat(_pid: i32) -> Option<Process> {
        None
    }

    pub(in super::super) fn members(
        roots: &HashMap<i32, u64>,
        aside: &HashSet<i32>,
        _owner: &Owner,
    ) -> Vec<Member> {
        let wanted = roots.iter().filter(|(pid, _)| !aside.contains(pid));
        let alive = wanted.filter(|(pid, _)| killpg(Pid::from_raw(**pid), None).is_ok());
        alive.map(|(&pid, &id)| Member { process: Process::leader(pid), upstream: Some(id) }).collect()
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) use other::{members, stat};
