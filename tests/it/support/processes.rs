//! The descendants of the program, read from /proc (Linux only).

use std::fs;

/// Processes by pid and start time, because the system may assign a pid again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processes(pub(crate) Vec<(u32, String)>);

impl Processes {
    /// All descendants of `pid`.
    pub(crate) fn descendants_of(pid: u32) -> Self {
        let mut processes: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let stat = stat(pid)?;
                Some((pid, stat[1].parse::<u32>().unwrap(), stat[19].clone()))
            })
            .collect();
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
        let is_running =
            |pid: u32, start: &str| stat(pid).is_some_and(|stat| stat[19] == start && stat[0] != "Z");
        self.0.iter().filter(|(pid, start)| is_running(*pid, start)).map(|(pid, _)| *pid).collect()
    }

    /// The pids of the running processes that have an argument with this prefix.
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
    pub(crate) fn warden_pid(&self) -> u32 {
        self.find_warden_pid().unwrap()
    }

    /// The pid of the warden process; `None` if none runs.
    pub(crate) fn find_warden_pid(&self) -> Option<u32> {
        let is_warden = |pid: u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "dmcp-warden\n")
        };
        self.0.iter().map(|(pid, _)| *pid).find(|pid| is_warden(*pid))
    }
}

/// The fields of /proc/PID/stat from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Whether a process runs. A zombie does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat[0] != "Z")
}
