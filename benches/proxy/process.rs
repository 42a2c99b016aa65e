//! What `/proc` says about a process.

use std::fs;

/// Returns a command that runs on the core that `DYNAMIC_MCP_BENCH_CORE` names, with everything that it starts. Without the
/// variable, on any core.
pub(crate) fn on_bench_core(command: &[String]) -> Vec<String> {
    let mut command = command.to_vec();
    if let Ok(core) = std::env::var("DYNAMIC_MCP_BENCH_CORE") {
        command.splice(..0, ["taskset".to_owned(), "-c".to_owned(), core]);
    }
    command
}

/// The CPU time that the process has used so far, in microseconds.
pub(crate) fn cpu_micros(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1000.0
}

/// The anonymous memory of the process in MB: what it has beyond the file of its program, which all instances share.
pub(crate) fn anonymous_megabytes(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let text = text.expect("run as root: dynamic-mcp hides its memory from other processes of the user");
    let mut lines =
        text.lines().filter_map(|line| line.strip_prefix("Anonymous:")?.split_whitespace().next());
    lines.next().and_then(|kilobytes| kilobytes.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

/// The first child of the process. The only child of dynamic-mcp is its warden.
pub(crate) fn first_child(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
