//! The trees of processes that run, and how much memory they use. `base::procfs` reads them, on Linux only.
//!
//! # Theory of operation
//!
//! [`ProcessTree::read`] reads once which processes there are and who their parents are. What is asked of single
//! processes is read later, so it may concern another moment; a process that has ended meanwhile counts as nothing.
//!
//! Everything here blocks. Servers can be read whole; of our own processes only what is not protected (`main.rs`).

use base::procfs;
use std::collections::HashMap;
use std::time::Duration;

/// The unit of times in /proc. It is the same for all programs of Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The processes of the machine.
pub struct ProcessTree {
    /// The children of each process.
    children: HashMap<u32, Vec<u32>>,
}

impl ProcessTree {
    /// Reads which processes there are.
    pub fn read() -> Self {
        let mut tree = Self { children: HashMap::new() };
        for process in procfs::processes() {
            let (pid, parent) = (process.pid.cast_unsigned(), process.ppid.cast_unsigned());
            tree.children.entry(parent).or_default().push(pid);
        }
        tree
    }

    /// Returns the number of a process and its descendants. It is 1 for a process that is not there.
    pub fn count(&self, pid: u32) -> usize {
        1 + self.descendants(pid).len()
    }

    /// Returns the proportional set size of a process and of its descendants, in bytes: a page that several processes
    /// use counts in parts. Of processes that cannot be read so exactly, only the pages of their own count. `None` if
    /// there is no such process.
    pub fn memory(&self, pid: u32) -> Option<u64> {
        let own = process_memory(pid)?;
        Some(own + self.descendants(pid).into_iter().filter_map(process_memory).sum::<u64>())
    }

    fn descendants(&self, pid: u32) -> Vec<u32> {
        let (mut found, mut next) = (Vec::new(), Some(pid));
        for at in 0.. {
            let Some(parent) = next else { break };
            found.extend(self.children.get(&parent).into_iter().flatten());
            next = found.get(at).copied();
        }
        found
    }
}

/// Returns the parent of a process; `None` if there is no such process.
pub fn parent(pid: u32) -> Option<u32> {
    Some(procfs::stat(pid.cast_signed())?.ppid.cast_unsigned())
}

/// Returns how long after one process another one was started. `None` if one of them has ended, or if it was not.
pub fn start_delay(first: u32, second: u32) -> Option<Duration> {
    let start = |pid: u32| Some(procfs::stat(pid.cast_signed())?.starttime);
    let ticks = start(second)?.checked_sub(start(first)?)?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn process_memory(pid: u32) -> Option<u64> {
    let exact = procfs::smaps_rollup(pid).ok().map(|sums| sums.bytes("Pss"));
    let own = || procfs::status(pid).ok().map(|status| status.bytes("RssAnon") + status.bytes("RssShmem"));
    exact.or_else(own)
}
