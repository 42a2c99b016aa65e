//! What Linux knows about a process.

use std::fs;

/// The processor time that it has used, in µs.
pub(crate) fn cpu(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1000.0
}

/// Its resident memory, in MB: all, and what it shares with nobody.
pub(crate) fn memory(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let kilobytes = |key: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<f64>().ok());
        lines.sum::<f64>()
    };
    let private = kilobytes("Private_Clean:") + kilobytes("Private_Dirty:");
    (kilobytes("Rss:") / 1024.0, private / 1024.0)
}

/// Its only child: of dynamic-mcp, the warden.
pub(crate) fn child(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
