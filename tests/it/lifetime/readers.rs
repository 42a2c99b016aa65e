//! Clients that do not read, and clients that are gone.

use std::fs;

use serde_json::json;

use super::{End, ends_well};
use crate::support::{Processes, Proxy, SOON, one, servers, text_of, until, upstream};
use nix::sys::signal::Signal;

/// Resident memory in bytes.
fn memory(pid: u32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_client_that_closed_our_stdout_is_gone() {
    let mut proxy = Proxy::new(&one(&["--ignore-eof", "--ignore-term"]));
    proxy.upstream_pid("g");
    let all = Processes::below(proxy.pid());
    proxy.close_stdout();
    proxy.send("ping", json!({}));
    let (status, took) = proxy.ends();
    println!("stdout closed: {took:?}");
    assert_eq!(status.code(), Some(0));
    until("nothing left", || all.running().is_empty());
}

#[test]
fn what_a_client_does_not_read_for_a_while_is_all_there_in_order() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let before = memory(proxy.pid());
    let ids: Vec<_> = (0..40).map(|_| proxy.send_call("g", "big", json!({"bytes": 1 << 20}))).collect();
    // Nothing is read before the upstream has nothing more to say or is stopped.
    until("the first answer waits for us", || memory(proxy.pid()) > before + (1 << 20));
    for id in &ids {
        let message = proxy.next().unwrap();
        assert_eq!(message.id().unwrap(), id.to_string(), "in the order of the calls");
        assert_eq!(text_of(&message.json()["result"]).len(), 1 << 20);
    }
    let after = memory(proxy.pid());
    println!("memory: {before} before, {after} after 40 MiB that waited for the reader");
    assert!(after < before + (24 << 20), "{before} {after}");
    assert_eq!(proxy.text("h", "echo", json!({"text": "fine"})), "fine");
}

#[test]
fn a_client_that_does_not_read_can_still_end_us() {
    for end in [End::Eof, End::Signal(Signal::SIGTERM)] {
        let mut proxy = Proxy::new(&one(&[]));
        proxy.upstream_pid("g");
        let before = memory(proxy.pid());
        for _ in 0..10 {
            proxy.send_call("g", "big", json!({"bytes": 1 << 20}));
        }
        until("answers wait for us", || memory(proxy.pid()) > before + (1 << 20));
        let mut quiet = (0, 0);
        until("no more is taken in", || {
            let now = memory(proxy.pid());
            quiet = (now, if quiet.0 == now { quiet.1 + 1 } else { 0 });
            quiet.1 == 20
        });
        let all = Processes::below(proxy.pid());
        end.of(&mut proxy);
        until(&format!("it ends: {end:?}"), || proxy.has_exited());
        until("nothing left", || all.running().is_empty());
    }
}

#[test]
fn an_upstream_that_floods_us_stays_bounded_and_harms_no_other() {
    let mut proxy = Proxy::new(&servers([("floods", upstream(&["--flood"])), ("g", upstream(&[]))]));
    proxy.text("floods", "echo", json!({"text": "x"}));
    proxy.upstream_pid("g");
    let before = memory(proxy.pid());
    let begin = tokio::time::Instant::now();
    // The client gets the notifications too, so an answer comes behind those that were under way.
    for n in 0..20 {
        assert_eq!(proxy.text("g", "echo", json!({"text": n.to_string()})), n.to_string());
    }
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    let after = memory(proxy.pid());
    assert!(after < before + (16 << 20), "{before} {after}");
    assert_eq!(proxy.text("floods", "echo", json!({"text": "x"})), "x");
    ends_well(proxy, End::Eof, "flooded");
}
