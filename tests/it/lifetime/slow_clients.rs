//! Clients that do not read stdout, or that have closed it: memory stays bounded, and the program can still be ended.

use std::fs;

use serde_json::json;

use super::{ShutdownCause, assert_clean_exit};
use crate::support::{
    Processes, Proxy, TEST_TIMEOUT, Turn, pure_config, scripted_config, scripted_upstream, text_of,
    wait_until,
};
use nix::sys::signal::Signal;

/// The resident memory of a process in bytes.
fn resident_memory(pid: u32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_closed_stdout_ends_the_program() {
    let mut proxy = Proxy::new(&scripted_config(&["--ignore-eof", "--ignore-term"]));
    proxy.upstream_pid("g");
    let processes = Processes::descendants_of(proxy.pid());
    proxy.close_stdout();
    proxy.send_request("ping", json!({}));
    let (status, took) = proxy.wait_for_exit();
    println!("stdout closed: {took:?}");
    assert_eq!(status.code(), Some(0));
    wait_until("no process is left", || processes.running().is_empty());
}

#[test]
fn a_client_that_reads_late_gets_all_responses_in_order() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    proxy.connect(["g", "h"]);
    let before = resident_memory(proxy.pid());
    let ids: Vec<_> = (0..40).map(|_| proxy.send_call("g", "big", json!({"bytes": 1 << 20}))).collect();
    // The test reads only after the upstream is done or held back.
    wait_until("a response waits for the client", || resident_memory(proxy.pid()) > before + (1 << 20));
    for id in &ids {
        let message = proxy.next_message().unwrap();
        assert_eq!(message.id().unwrap(), id.to_string(), "in the order of the calls");
        assert_eq!(text_of(&message.json()["result"]).len(), 1 << 20);
    }
    let after = resident_memory(proxy.pid());
    println!("memory: {before} before, {after} after 40 MiB of responses");
    assert!(after < before + (24 << 20), "{before} {after}");
    assert_eq!(proxy.call_text("h", "echo", json!({"text": "fine"})), "fine");
}

#[test]
fn a_client_that_does_not_read_can_end_the_program() {
    for cause in [ShutdownCause::Eof, ShutdownCause::Signal(Signal::SIGTERM)] {
        let mut proxy = Proxy::new(&scripted_config(&[]));
        proxy.upstream_pid("g");
        let before = resident_memory(proxy.pid());
        for _ in 0..10 {
            proxy.send_call("g", "big", json!({"bytes": 1 << 20}));
        }
        wait_until("responses wait for the client", || resident_memory(proxy.pid()) > before + (1 << 20));
        let mut unchanged = (0, 0);
        wait_until("the program reads no more", || {
            let now = resident_memory(proxy.pid());
            unchanged = (now, if unchanged.0 == now { unchanged.1 + 1 } else { 0 });
            unchanged.1 == 20
        });
        let processes = Processes::descendants_of(proxy.pid());
        cause.apply_to(&mut proxy);
        wait_until(&format!("the program exits: {cause:?}"), || proxy.has_exited());
        wait_until("no process is left", || processes.running().is_empty());
    }
}

#[test]
fn a_flood_of_notifications_uses_bounded_memory_and_does_not_affect_other_groups() {
    let _turn = Turn::take();
    let mut proxy = Proxy::new(&pure_config([
        ("floods", scripted_upstream(&["--flood"])),
        ("g", scripted_upstream(&[])),
    ]));
    proxy.call_text("floods", "echo", json!({"text": "x"}));
    proxy.upstream_pid("g");
    let before = resident_memory(proxy.pid());
    let start = tokio::time::Instant::now();
    // The client gets the notifications, too, so a response arrives after those sent before it: a pipe full of them.
    for n in 0..8 {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": n.to_string()})), n.to_string());
    }
    assert!(start.elapsed() < TEST_TIMEOUT, "{:?}", start.elapsed());
    let after = resident_memory(proxy.pid());
    assert!(after < before + (16 << 20), "{before} {after}");
    assert_eq!(proxy.call_text("floods", "echo", json!({"text": "x"})), "x");
    assert_clean_exit(proxy, ShutdownCause::Eof, "flooded");
}
