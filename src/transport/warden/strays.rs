//! What earlier wardens left behind, ended before ours starts anything.
//!
//! Left behind is what outlived a SIGKILL of a dynamic-mcp and its warden at the same instant, and what
//! outlived a SIGKILL of the warden before ours. Both are known by their marks alone.

#[cfg(not(target_os = "linux"))]
use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::mark::Owner;
use super::scan::{self, EMPTY_SCANS, Process};

/// They outlived the end of their stdin already: a moment to tidy up is enough.
const TERM_GRACE: Duration = Duration::from_millis(250);
/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(10);
/// Well below the 5 s in which the first spawn wants its answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Ends everything that belongs to a dead owner, or to `owner` with an id before `first`.
/// `left` are upstreams of our own killed warden, for systems where nothing else is known of them.
pub(super) fn end(owner: &Owner, first: u64, left: &[u32]) {
    let begin = Instant::now();
    let (mut asked, mut empty_scans) = (false, 0);
    while begin.elapsed() < LIMIT {
        let strays = find(owner, first, left);
        empty_scans = if strays.is_empty() { empty_scans + 1 } else { 0 };
        // Usually there never was one, and one look is enough to know.
        if empty_scans == EMPTY_SCANS || empty_scans > 0 && !asked {
            return;
        }
        if begin.elapsed() >= TERM_GRACE {
            scan::signal(&strays, Signal::SIGKILL);
        } else if !asked {
            scan::signal(&strays, Signal::SIGTERM);
        }
        asked = true;
        std::thread::sleep(if strays.is_empty() { Duration::from_millis(1) } else { PAUSE });
    }
}

#[cfg(target_os = "linux")]
fn find(owner: &Owner, first: u64, _left: &[u32]) -> Vec<Process> {
    linux::find(owner, first)
}

/// Untested.
#[cfg(not(target_os = "linux"))]
fn find(owner: &Owner, _first: u64, left: &[u32]) -> Vec<Process> {
    let roots = left.iter().map(|pid| (pid.cast_signed(), 0)).collect();
    scan::members(&roots, &HashSet::new(), owner).into_iter().map(|member| member.process).collect()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::{Owner, Process, scan};
    use crate::transport::warden::mark::Mark;

    pub(super) fn find(owner: &Owner, first: u64) -> Vec<Process> {
        let spared = Spared::new(owner);
        let mut all = scan::all();
        all.retain(|process| spared.allows(process) && is_stray(process, owner, first, &spared));
        all
    }

    fn is_stray(process: &Process, owner: &Owner, first: u64, spared: &Spared) -> bool {
        match Mark::read(process.pid) {
            None => false,
            Some(Mark::Variable(whose, id)) if whose == *owner => id < first,
            Some(Mark::Variable(whose, _)) => !spared.owners.contains(&whose.pid) && whose.is_dead(owner),
            // This one does not say in which namespace its owner was: it must have been ours.
            Some(Mark::Limit(pid, id)) => {
                !spared.owners.contains(&pid)
                    && owner.shares_namespace(process.pid)
                    && (pid == owner.pid && id < first || is_younger(pid, process))
            }
        }
    }

    /// Whether who has this pid now came after `process`, and so cannot be the owner it was started for.
    fn is_younger(pid: i32, process: &Process) -> bool {
        scan::stat(pid).is_none_or(|now| now.start > process.start)
    }

    /// Whom we run under. A shell that an upstream of a dead owner left behind may be in use: somebody
    /// started us from it.
    struct Spared {
        /// Pids of owners whose marks our own ancestors bear.
        owners: HashSet<i32>,
        /// Their sessions and ours.
        sessions: HashSet<i32>,
        user: Option<u32>,
    }

    impl Spared {
        fn new(owner: &Owner) -> Self {
            let mut spared = Self { owners: HashSet::new(), sessions: HashSet::new(), user: user_of(0) };
            let mut pid = owner.pid;
            while let Some(process) = scan::stat(pid).filter(|_| pid > 0) {
                spared.sessions.insert(process.session);
                match Mark::read(pid) {
                    Some(Mark::Variable(whose, _)) => spared.owners.insert(whose.pid),
                    Some(Mark::Limit(whose, _)) => spared.owners.insert(whose),
                    None => false,
                };
                pid = process.parent;
            }
            spared
        }

        /// Another user's processes are left alone even by root.
        fn allows(&self, process: &Process) -> bool {
            !self.sessions.contains(&process.session)
                && self.user.is_some()
                && user_of(process.pid) == self.user
        }
    }

    /// The user of a process, of this one for 0.
    fn user_of(pid: i32) -> Option<u32> {
        let path = if pid == 0 { "/proc/self".into() } else { format!("/proc/{pid}") };
        fs::metadata(path).ok().map(|data| data.uid())
    }
}
