//! What `/proc` says about a process.

use std::fs;

/// The CPU time that the process has used so far, in microseconds.
pub(crate) fn cpu_micros(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1000.0
}

/// The resident memory of the process in MB: all of it, and the part that no other process shares.
pub(crate) fn resident_megabytes(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let text = text.expect("run as root: dynamic-mcp hides its memory from other processes of the user");
    let kilobytes = |key: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<f64>().ok());
        lines.sum::<f64>()
    };
    let private = kilobytes("Private_Clean:") + kilobytes("Private_Dirty:");
    (kilobytes("Rss:") / 1024.0, private / 1024.0)
}

/// The first child of the process. The only child of dynamic-mcp is its warden.
pub(crate) fn first_child(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
