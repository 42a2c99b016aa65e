//! What is left of stored results when a session ends, and what the process of a program can reach.

use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

use super::{config, id_in, note, read_failure, read_text, storing};
use crate::support::{Proxy, wait_until};

/// More than is kept in memory, in bytes.
const LARGE: usize = 3_000_000;

fn store_large(proxy: &mut Proxy) -> String {
    let result = proxy.call_tool("g", "big", json!({"bytes": LARGE}));
    id_in(note(&result))
}

/// The files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

fn result_files(home: &Path) -> Vec<PathBuf> {
    files(&home.join(".local/state/dynamic-mcp/results"))
}

/// The open files of the program in the directory of results.
fn open_files(proxy: &Proxy) -> Vec<PathBuf> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", proxy.pid())).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("/dynamic-mcp/results/")).collect()
}

#[test]
fn a_large_result_is_in_a_file_without_a_name_and_nothing_is_left_however_the_session_ends() {
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
        let mut proxy = storing("10kB");
        let id = store_large(&mut proxy);
        let dir = proxy.home().join(".local/state/dynamic-mcp/results");
        assert!(dir.is_dir(), "the file was made here");
        assert_eq!(result_files(proxy.home()), Vec::<PathBuf>::new());
        assert_eq!(read_text(&mut proxy, &id, json!({"bytes": "2999990-"})).len(), 10);
        if nix::unistd::geteuid().is_root() {
            assert_eq!(open_files(&proxy).len(), 1);
        } else {
            eprintln!("SKIPPED: only root sees the open files of the program");
        }
        match signal {
            None => proxy.close_stdin(),
            Some(signal) => proxy.send_signal(signal),
        }
        proxy.wait_for_exit();
        assert_eq!(result_files(proxy.home()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_result_belongs_to_its_session_alone() {
    let (mut first, mut second) = (storing("10kB"), storing("10kB"));
    let id = store_large(&mut first);
    assert!(read_failure(&mut second, &id, json!({"lines": 1})).starts_with("There is no stored result"));
    let uri = format!("dynamic-mcp://result/{id}");
    assert_eq!(second.request("resources/read", json!({"uri": uri}))["error"]["code"], -32002);
    assert_eq!(id.len(), 32);
}

#[test]
fn results_in_files_give_way_to_newer_ones_and_their_space_is_free_again() {
    let mut proxy = storing("1kB");
    let id = store_large(&mut proxy);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(open_files(&proxy).len(), 1);
    }
    for _ in 0..64 {
        proxy.call_tool("g", "big", json!({"bytes": 1100}));
    }
    assert!(read_failure(&mut proxy, &id, json!({"lines": 1})).starts_with("There is no stored result"));
    assert_eq!(open_files(&proxy), Vec::<PathBuf>::new());
}

#[test]
fn the_process_of_a_program_has_no_environment_no_descriptors_and_ends_with_the_call() {
    let mut proxy = Proxy::new(&config(json!({})));
    let result = json!({"content": [], "structuredContent": {}});
    proxy.connect(["g"]);
    let arguments = json!({"group": "g", "name": "verbatim", "args": result, "select": "def f: f; f"});
    let id = proxy.send_request("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}));
    let mut child = None;
    wait_until("the process runs", || {
        child = child_of(proxy.pid(), "dmcp-jq");
        child.is_some()
    });
    let child = child.unwrap();
    // It may not have come so far yet.
    wait_until("its limits are set", || {
        let limits = fs::read_to_string(format!("/proc/{child}/limits")).unwrap_or_default();
        let has = |name: &str, value: &str| {
            limits.lines().any(|line| {
                line.starts_with(name) && line[name.len()..].split_whitespace().next() == Some(value)
            })
        };
        has("Max data size", "268435456")
            && has("Max open files", "0")
            && has("Max file size", "0")
            && has("Max cpu time", "2")
            && has("Max core file size", "0")
            && has("Max processes", "0")
    });
    if nix::unistd::geteuid().is_root() {
        assert_eq!(fs::read(format!("/proc/{child}/environ")).unwrap(), Vec::<u8>::new());
        let descriptors = fs::read_dir(format!("/proc/{child}/fd")).unwrap().count();
        assert_eq!(descriptors, 3);
    }
    // A call that is cancelled ends it.
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    wait_until("the process ends", || !crate::support::is_alive(child));
}

/// The child of a process whose first argument is `name`.
fn child_of(parent: u32, name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let is_child = status.lines().any(|line| line == format!("PPid:\t{parent}"));
        is_child
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(name.as_bytes()))
    })
}
