//! The descendants of the program, read from /proc (Linux), or from a snapshot of the system (Windows).

#[cfg(unix)]
use std::fs;

#[cfg_attr(unix, path = "processes/linux.rs")]
#[cfg_attr(windows, path = "processes/windows.rs")]
mod system;

pub(crate) use system::{is_alive, kill};

/// Processes by pid and start time, because the system may assign a pid again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processes(pub(crate) Vec<(u32, String)>);

impl Processes {
    /// All descendants of `pid`.
    pub(crate) fn descendants_of(pid: u32) -> Self {
        let mut processes = system::all();
        let (mut parents, mut found) = (vec![pid], Vec::new());
        while let Some(parent) = parents.pop() {
            for (pid, _, start) in processes.extract_if(.., |(_, ppid, _)| *ppid == parent) {
                parents.push(pid);
                found.push((pid, start));
            }
        }
        Self(found)
    }

    /// The pids of those that still run. Zombies do not run.
    pub(crate) fn running(&self) -> Vec<u32> {
        let is_running = |pid: u32, start: &str| system::start_of(pid).is_some_and(|own| own == start);
        self.0.iter().filter(|(pid, start)| is_running(*pid, start)).map(|(pid, _)| *pid).collect()
    }

    /// The pids of the running processes that have an argument with this prefix.
    #[cfg(unix)]
    pub(crate) fn with_argument_prefix(prefix: &str) -> Vec<u32> {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has_argument = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').any(|argument| argument.starts_with(prefix))
        };
        pids.filter(has_argument).collect()
    }

    /// The pid of the warden process.
    #[cfg(unix)]
    pub(crate) fn warden_pid(&self) -> u32 {
        self.find_warden_pid().unwrap()
    }

    /// The pid of the warden process; `None` if none runs.
    #[cfg(unix)]
    pub(crate) fn find_warden_pid(&self) -> Option<u32> {
        let is_warden = |pid: u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "dmcp-warden\n")
        };
        self.0.iter().map(|(pid, _)| *pid).find(|pid| is_warden(*pid))
    }
}
