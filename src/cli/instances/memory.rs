//! The memory of processes with everything below them, from /proc. Nothing is known on other systems.

use std::collections::HashMap;
use std::fs;

/// The processes of the machine: the children of each.
pub struct ProcessTree(HashMap<u32, Vec<u32>>);

impl ProcessTree {
    /// Reads which processes there are.
    pub fn read() -> Self {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if let Some(parent) = parent(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Self(children)
    }

    /// How many processes a process is with its descendants.
    pub fn count(&self, pid: u32) -> usize {
        let children = self.0.get(&pid).into_iter().flatten();
        1 + children.map(|child| self.count(*child)).sum::<usize>()
    }

    /// The proportional set size of a process and of its descendants, in bytes: a page that several processes use counts
    /// in parts. `None` if it cannot be read.
    pub fn memory(&self, pid: u32) -> Option<u64> {
        let mut total = proportional_set_size(pid)?;
        let mut open = vec![pid];
        while let Some(parent) = open.pop() {
            for child in self.0.get(&parent).into_iter().flatten() {
                total += proportional_set_size(*child).unwrap_or_default();
                open.push(*child);
            }
        }
        Some(total)
    }
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The name of a process.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

fn proportional_set_size(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
