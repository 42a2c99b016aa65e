//! Reads what Linux tells about processes in /proc, see proc(5).

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The fields of /proc/PID/stat that we need, with the names of proc_pid_stat(5).
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcStat {
    /// The process id.
    pub(super) pid: i32,
    /// The pid of the parent.
    pub(super) ppid: i32,
    /// The process group.
    pub(super) pgrp: i32,
    /// The session.
    pub(super) session: i32,
    /// The start time in clock ticks since boot. Distinguishes processes that had the same pid.
    pub(super) starttime: u64,
    /// Whether a signal or a debugger has stopped it.
    pub(super) is_stopped: bool,
    /// Whether it has exited and was not reaped.
    pub(super) is_zombie: bool,
}

impl ProcStat {
    /// A process that is only known to lead a session of its own.
    pub(super) fn session_leader(pid: i32) -> Self {
        Self { pid, ppid: 0, pgrp: pid, session: pid, starttime: 0, is_stopped: false, is_zombie: false }
    }

    /// Returns whether the process of this pid and start time runs. One that has exited and was not reaped does not.
    pub(super) fn is_running(pid: i32, starttime: u64) -> bool {
        Self::read(pid).is_some_and(|process| process.starttime == starttime && !process.is_zombie)
    }

    /// Reads the fields of a process; `None` once it was reaped.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold any byte, including parentheses and spaces.
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let fields = str::from_utf8(text.get(name_end + 2..)?).ok()?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            pid,
            is_stopped: matches!(fields.first(), Some(&"T" | &"t")),
            is_zombie: matches!(fields.first(), Some(&"Z" | &"X")),
            ppid: number(1)?,
            pgrp: number(2)?,
            session: number(3)?,
            starttime: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns every process that is not a zombie.
pub(super) fn live_processes() -> Vec<ProcStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(ProcStat::read).filter(|process| !process.is_zombie).collect()
}

/// Returns the value of a variable in the environment that a process was executed with, if we may read it.
pub(super) fn env_var(pid: i32, name: &str) -> Option<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environ.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    str::from_utf8(value).ok().map(str::to_owned)
}

/// Returns the arguments of a process. Every user can read them.
pub(super) fn args(pid: i32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let args = line.split(|byte| *byte == 0).filter(|arg| !arg.is_empty());
    args.map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// Returns the number of a process's pid namespace, see pid_namespaces(7).
pub(super) fn pid_namespace(pid: i32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    let text = String::from_utf8_lossy(link.as_os_str().as_bytes()).into_owned();
    Some(text.trim_start_matches("pid:[").trim_end_matches(']').to_owned())
}

/// Returns a random id of the current boot of the machine; empty if it cannot be read.
pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the user id of a process. `process` is a pid or `self`.
pub(super) fn uid(process: impl Display) -> Option<u32> {
    fs::metadata(format!("/proc/{process}")).ok().map(|metadata| metadata.uid())
}

/// Finds the children of processes.
pub(super) enum ChildLookup {
    /// The kernel lists children (CONFIG_PROC_CHILDREN, which is usually on). The cost depends on the size of the
    /// subtree only.
    Kernel,
    /// The children of every process, from one pass over all processes.
    Table(HashMap<i32, Vec<i32>>),
}

impl ChildLookup {
    /// Chooses the kernel's lists of children if it has them, else reads all processes once.
    pub(super) fn new() -> Self {
        if fs::exists(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or(false) {
            return Self::Kernel;
        }
        let mut table: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in live_processes() {
            table.entry(process.ppid).or_default().push(process.pid);
        }
        Self::Table(table)
    }

    /// Returns the pids of a process's children, including zombies if the kernel lists them.
    pub(super) fn children(&self, pid: i32) -> Vec<i32> {
        match self {
            Self::Kernel => children_of_threads(pid),
            Self::Table(table) => table.get(&pid).cloned().unwrap_or_default(),
        }
    }
}

/// Each thread has the children that it forked.
fn children_of_threads(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().map(str::parse).collect::<Vec<_>>())
        .flatten()
        .collect()
}
