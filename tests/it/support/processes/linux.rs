//! Processes as /proc shows them. A zombie does not run.

use std::fs;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// The pid, the pid of the parent and the start time of every process.
pub(super) fn all() -> Vec<(u32, u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let process = |pid: u32| stat(pid).map(|stat| (pid, stat[1].parse().unwrap(), stat[19].clone()));
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// When a process that runs was started.
pub(super) fn start_of(pid: u32) -> Option<String> {
    stat(pid).filter(|stat| stat[0] != "Z").map(|stat| stat[19].clone())
}

/// Whether a process runs.
pub(crate) fn is_alive(pid: u32) -> bool {
    start_of(pid).is_some()
}

/// Ends a process at once.
pub(crate) fn kill(pid: u32) {
    nix::sys::signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
}

/// The fields of /proc/PID/stat from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}
