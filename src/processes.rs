//! The processes of this user, as /proc shows them: which there are, how much memory they use, and which servers run more
//! than once. Nothing is known on other systems.
//!
//! # Theory of operation
//!
//! [`ProcessTree::read`] reads once which processes there are and who their parents are. What is asked of single
//! processes is read later, so it may concern another moment; a process that has ended meanwhile counts as nothing.
//! [`duplicates`] finds private servers that several instances run alike. Instances do not know of each other, and need
//! not: a server is a child of a process with the name of a warden.
//!
//! Everything here blocks. Servers can be read whole; of our own processes only what is not protected (`main.rs`).

use std::collections::{BTreeMap, HashMap};
#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

pub mod duplicates;

/// The name of the processes that start servers.
const WARDEN: &str = "dmcp-warden";
/// The name of the process that shared servers run in.
const HOST: &str = "dmcp-host";

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
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if let Some(parent) = parent(pid) {
                tree.children.entry(parent).or_default().push(pid);
            }
        }
        tree
    }

    /// How many processes a process is with its descendants.
    pub fn count(&self, pid: u32) -> usize {
        let children = self.children.get(&pid).into_iter().flatten();
        1 + children.map(|child| self.count(*child)).sum::<usize>()
    }

    /// The proportional set size of a process and of its descendants, in bytes: a page that several processes use counts
    /// in parts. Of processes that cannot be read so exactly, only the pages of their own count. `None` if there is no
    /// such process.
    pub fn memory(&self, pid: u32) -> Option<u64> {
        let mut total = process_memory(pid)?;
        let mut open = vec![pid];
        while let Some(parent) = open.pop() {
            for child in self.children.get(&parent).into_iter().flatten() {
                total += process_memory(*child).unwrap_or_default();
                open.push(*child);
            }
        }
        Some(total)
    }

    /// The private servers of all instances of dynamic-mcp.
    fn private_servers(&self) -> impl Iterator<Item = u32> {
        let is_private = |pid: &&u32| {
            name(**pid).as_deref() == Some(WARDEN) && parent(**pid).and_then(name).as_deref() != Some(HOST)
        };
        let wardens = self.children.keys().filter(is_private);
        wardens.flat_map(|warden| &self.children[warden]).copied()
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

/// How long after one process another one was started. `None` if one of them has ended, or if it was not.
pub fn start_delay(first: u32, second: u32) -> Option<Duration> {
    let ticks = start_ticks(second)?.checked_sub(start_ticks(first)?)?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// When a process was started, in clock ticks since boot, see proc_pid_stat(5).
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// The words of the command line of a process.
pub fn arguments(pid: u32) -> Vec<OsString> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(os_string).collect()
}

/// The environment that a process of this user was started with. `None` if it may not be read.
pub fn environment(pid: u32) -> Option<BTreeMap<OsString, OsString>> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok().filter(|bytes| !bytes.is_empty())?;
    let variable = |text: &[u8]| {
        let at = text.iter().position(|byte| *byte == b'=')?;
        Some((os_string(&text[..at]), os_string(&text[at + 1..])))
    };
    Some(bytes.split(|byte| *byte == 0).filter_map(variable).collect())
}

#[cfg(unix)]
fn os_string(bytes: &[u8]) -> OsString {
    let text: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
    text.to_owned()
}

/// Nothing calls this, because there is no /proc.
#[cfg(not(unix))]
fn os_string(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn process_memory(pid: u32) -> Option<u64> {
    kilobytes(&format!("/proc/{pid}/smaps_rollup"), &["Pss:"])
        .or_else(|| kilobytes(&format!("/proc/{pid}/status"), &["RssAnon:", "RssShmem:"]))
}

/// The sum of these lines of a file, in bytes.
fn kilobytes(file: &str, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let values = text.lines().filter_map(|line| names.iter().find_map(|name| line.strip_prefix(name)));
    let values = values.map(|value| value.trim().trim_end_matches(" kB").parse::<u64>());
    let sum = values.sum::<Result<u64, _>>().ok()?;
    Some(sum << 10)
}
