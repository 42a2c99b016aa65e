//! Attempts to connect: how many there are, how long anyone waits, and what is said when they fail.

use serde_json::json;

use crate::support::{Processes, Proxy, SOON, alive, one, servers, text_of, until, upstream, with};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn a_crash_at_the_start_is_told_with_stderr_and_exit_code_and_cools_down() {
    let mut proxy = Proxy::new(&one(&["--crash-at-start", "no database here"]));
    let first = proxy.failure("g", "echo", json!({}));
    let failed = Instant::now();
    for part in ["Group g is not available", "exited with code 3", "no database here", "in 5 seconds"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert_eq!(text_of(&proxy.front("get_dynamic_tools", json!({"group": "g"}))), first, "on every route");
    let status = proxy.front("get_status", json!({}));
    let (text, group) = (text_of(&status).to_owned(), &status["structuredContent"]["groups"][0]);
    assert_eq!((&group["state"], &group["attempts"]), (&json!("failed"), &json!(4)), "three retries");
    assert!(group["error"].as_str().unwrap().contains("no database here"), "{group}");
    assert!(text.contains("g: failed") && text.contains("no database here"), "{text}");
    assert_eq!(status["structuredContent"]["status"], "error", "every group failed");
    // Whoever asks soon gets the same failure; later, there is another attempt.
    until("another attempt", || {
        proxy.send_call("g", "echo", json!({}));
        proxy.group("g")["attempts"].as_u64() > Some(4)
    });
    assert!(failed.elapsed() >= Duration::from_secs(4), "{:?}", failed.elapsed());
}

#[test]
fn who_waits_too_long_is_told_to_retry_and_the_attempt_goes_on() {
    let entry = with(upstream(&["--slow-start", "2500"]), json!({"timeout": {"wait": 1}}));
    let mut proxy = Proxy::new(&servers([("g", entry)]));
    let text = proxy.failure("g", "pid", json!({}));
    assert!(text.contains("Group g is initializing (1 s so far), please retry"), "{text}");
    let group = proxy.group("g");
    assert_eq!((&group["connecting"], &group["state"]), (&json!(true), &json!("pending")));
    let pids = Processes::below(proxy.pid());
    let mut pid = None;
    until("the attempt succeeds", || {
        let result = proxy.call("g", "pid", json!({}));
        pid = text_of(&result).parse::<u32>().ok();
        pid.is_some()
    });
    assert!(pids.0.iter().any(|(known, _)| Some(*known) == pid), "the first process: {pids:?} {pid:?}");
}

#[test]
fn a_step_that_is_not_answered_in_time_is_named() {
    for (hang, step, limit) in [
        ("initialize", "initialize", "initialize"),
        ("start", "initialize", "initialize"),
        ("list", "tools/list", "list"),
    ] {
        let entry = with(upstream(&["--hang", hang]), json!({"timeout": {(limit): 0.3}}));
        let mut proxy = Proxy::new(&servers([("g", entry)]));
        let text = proxy.failure("g", "echo", json!({}));
        assert!(text.contains(&format!("{step} was not answered within 0.3 s")), "{hang}: {text}");
    }
}

#[test]
fn many_first_calls_start_one_process() {
    let mut proxy = Proxy::new(&one(&["--slow-start", "200"]));
    let ids: Vec<_> = (0..50).map(|_| proxy.send_call("g", "pid", json!({}))).collect();
    let answers: Vec<_> = ids.into_iter().map(|id| proxy.answer(id).json()).collect();
    let pids: BTreeSet<_> = answers.iter().map(|answer| text_of(&answer["result"])).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    proxy.until_logged("Discovered g");
    assert_eq!(proxy.log().matches("Connecting to g").count(), 1);
    assert_eq!(Processes::below(proxy.pid()).running().len(), 2, "the warden and the upstream");
}

#[test]
fn many_first_calls_share_one_failure() {
    let mut proxy = Proxy::new(&one(&["--crash-at-start", "no"]));
    let ids: Vec<_> = (0..50).map(|_| proxy.send_call("g", "echo", json!({}))).collect();
    for id in ids {
        assert!(text_of(&proxy.answer(id).json()["result"]).contains("exited with code 3"));
    }
    assert_eq!(proxy.group("g")["attempts"], 4, "with its retries");
}

#[test]
fn an_unused_upstream_is_closed_and_comes_back_on_use() {
    let entry = with(upstream(&[]), json!({"idle_timeout": "300ms"}));
    let mut proxy = Proxy::new(&servers([("g", entry), ("h", upstream(&[]))]));
    let (first, kept) = (proxy.upstream_pid("g"), proxy.upstream_pid("h"));
    // A call in flight is activity, however long it takes.
    assert_eq!(proxy.text("g", "sleep", json!({"ms": 900})), "slept");
    assert_eq!(proxy.upstream_pid("g"), first);
    until("it is closed", || proxy.group("g")["state"] == "discovered");
    until("its process is gone", || !alive(first));
    proxy.until_logged("Disconnected g (lazy mode, will reconnect on use)");
    assert_ne!(proxy.upstream_pid("g"), first);
    assert_eq!(proxy.upstream_pid("h"), kept, "the other group");
}

#[test]
fn a_stubborn_upstream_that_is_closed_for_being_idle_goes_too() {
    let entry =
        with(upstream(&["--ignore-eof", "--ignore-term", "--grandchild"]), json!({"idle_timeout": "100ms"}));
    let mut proxy = Proxy::new(&servers([("g", entry)]));
    proxy.upstream_pid("g");
    let all = Processes::below(proxy.pid());
    assert_eq!(all.running().len(), 3, "warden, upstream, grandchild");
    until("only the warden is left", || all.running().len() == 1);
    assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back");
}

#[test]
fn upstreams_that_fail_harm_no_other() {
    let slow = with(upstream(&["--hang", "initialize"]), json!({"timeout": {"wait": 1}}));
    let mut proxy = Proxy::new(&servers([
        ("crashes", upstream(&["--crash-at-start", "no"])),
        ("hangs", slow),
        ("missing", json!({"command": "no-such-command-anywhere"})),
        ("works", upstream(&[])),
        ("garbage", upstream(&["--garbage"])),
    ]));
    let begin = Instant::now();
    let failing = ["hangs", "crashes", "missing"].map(|group| proxy.send_call(group, "echo", json!({})));
    for group in ["works", "garbage"] {
        assert_eq!(proxy.text(group, "echo", json!({"text": "x"})), "x");
    }
    assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    for id in failing {
        assert_eq!(proxy.answer(id).json()["result"]["isError"], true);
    }
    let status = proxy.status();
    assert_eq!(
        (&status["status"], &status["ready"], &status["total"]),
        (&json!("ready"), &json!(2), &json!(5))
    );
}
