//! Connection attempts: how many there are, how long calls wait for them, what is reported when they fail, and when an
//! idle group is closed.

use serde_json::json;

use crate::support::{
    Processes, Proxy, TEST_TIMEOUT, is_alive, merged, pure_config, scripted_config, scripted_upstream,
    text_of, wait_until,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn a_crash_at_startup_is_reported_with_stderr_and_exit_code_and_is_not_retried_at_once() {
    let mut proxy = Proxy::new(&scripted_config(&["--crash-at-start", "no database here"]));
    let first = proxy.call_failure("g", "echo", json!({}));
    let failed = Instant::now();
    for part in ["Group g is not available", "exited with code 3", "no database here", "in 5 seconds"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    assert_eq!(
        text_of(&proxy.call_meta_tool("get_dynamic_tools", json!({"group": "g"}))),
        first,
        "the same text by every tool"
    );
    let status = proxy.call_meta_tool("get_status", json!({}));
    let (text, group) = (text_of(&status).to_owned(), &status["structuredContent"]["groups"][0]);
    assert_eq!((&group["state"], &group["attempts"]), (&json!("failed"), &json!(2)), "one retry");
    assert!(group["error"].as_str().unwrap().contains("no database here"), "{group}");
    assert!(text.contains("g: failed") && text.contains("no database here"), "{text}");
    assert_eq!(status["structuredContent"]["status"], "error", "every group failed");
    // Early calls get the same failure. A later one starts another attempt.
    wait_until("another attempt", || {
        proxy.send_call("g", "echo", json!({}));
        proxy.group_status("g")["attempts"].as_u64() > Some(2)
    });
    assert!(failed.elapsed() >= Duration::from_secs(4), "{:?}", failed.elapsed());
}

#[test]
fn a_call_that_waits_too_long_is_told_to_retry_and_the_attempt_continues() {
    let entry = merged(scripted_upstream(&["--slow-start", "2500"]), json!({"timeout": {"wait": 1}}));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    let text = proxy.call_failure("g", "pid", json!({}));
    assert!(text.contains("Group g is initializing (1 s so far), please retry"), "{text}");
    let group = proxy.group_status("g");
    assert_eq!((&group["connecting"], &group["state"]), (&json!(true), &json!("pending")));
    let pids = Processes::descendants_of(proxy.pid());
    let mut pid = None;
    wait_until("the attempt succeeds", || {
        let result = proxy.call_tool("g", "pid", json!({}));
        pid = text_of(&result).parse::<u32>().ok();
        pid.is_some()
    });
    assert!(pids.0.iter().any(|(known, _)| Some(*known) == pid), "the first process: {pids:?} {pid:?}");
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_call_that_waits_for_a_group_that_keeps_failing_learns_why() {
    // A server that writes the same again, numbers apart, is not waited for: the second attempt may be over in time.
    let script = "echo no database here: $$(echo $$$$ | tr 0-9 a-j) >&2; exit 3";
    let entry = json!({"command": "sh", "args": ["-c", script], "timeout": {"wait": 0.9}});
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    let text = proxy.call_failure("g", "echo", json!({}));
    let beginning =
        "Group g is initializing (0 s so far), please retry in 10 seconds\nA call waits 0.9 s for it";
    assert!(text.starts_with(beginning) && text.contains("\nIts last failure: "), "{text}");
    assert!(text.contains("exited with code 3") && text.contains("no database here"), "{text}");
    let group = proxy.group_status("g");
    assert!(group["error"].as_str().unwrap().contains("no database here"), "{group}");
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn those_who_wait_for_a_slow_start_see_what_it_writes_and_how_long_it_takes() {
    let script = "echo 'Downloading 3 of 9' >&2; exec sleep 60";
    let entry = json!({"command": "sh", "args": ["-c", script], "timeout": {"wait": 1.2}});
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    for so_far in [1, 2] {
        let text = proxy.call_failure("g", "echo", json!({}));
        let beginning = format!(
            "Group g is initializing ({so_far} s so far), please retry in 10 seconds\nThe last line of its stderr: \"Downloading 3 \
             of 9\"\nA call waits 1.2 s for it (timeout.wait), and an attempt ends after 60 s"
        );
        assert!(text.starts_with(&beginning), "{text}");
    }
    let status = proxy.call_meta_tool("get_status", json!({}));
    let group = &status["structuredContent"]["groups"][0];
    // The attempt begins a moment after the first call.
    assert!(group["connectingMs"].as_u64() >= Some(2000), "{group}");
    assert!(text_of(&status).contains("the last line of its stderr: \"Downloading 3 of 9\""), "{status}");
}

#[test]
fn the_step_of_the_handshake_that_timed_out_is_named() {
    let cases = [("initialize", "initialize"), ("start", "initialize"), ("list", "list")];
    let entries = cases.map(|(hang, limit)| {
        (hang, merged(scripted_upstream(&["--hang", hang]), json!({"timeout": {(limit): 0.3}})))
    });
    let mut proxy = Proxy::new(&pure_config(entries));
    let calls = cases.map(|(group, _)| proxy.send_call(group, "echo", json!({"text": "x"})));
    let expected = |step: &str, setting: &str| {
        format!(
            "{step} was not answered within 0.3 s (timeout.{setting}); if it needs longer, write \"timeout\": \
             {{\"{setting}\": \"1s\"}} in its config entry"
        )
    };
    let texts = calls.map(|id| text_of(&proxy.response(id).json()["result"]).to_owned());
    for text in &texts[..2] {
        assert!(text.contains(&expected("initialize", "initialize")), "{text}");
    }
    // A list that is not answered fails no call.
    assert_eq!(texts[2], "x");
    let finding = proxy.group_status("list")["findings"][0].to_string().replace('\\', "");
    assert!(finding.contains(&expected("tools/list", "list")), "{finding}");
}

#[test]
fn concurrent_first_calls_start_one_process() {
    let mut proxy = Proxy::new(&scripted_config(&["--slow-start", "200"]));
    let ids: Vec<_> = (0..50).map(|_| proxy.send_call("g", "pid", json!({}))).collect();
    let responses: Vec<_> = ids.into_iter().map(|id| proxy.response(id).json()).collect();
    let pids: BTreeSet<_> = responses.iter().map(|response| text_of(&response["result"])).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    proxy.wait_for_log("Discovered g");
    assert_eq!(proxy.log().matches("Connecting to g").count(), 1);
    assert_eq!(Processes::descendants_of(proxy.pid()).running().len(), 2, "the warden and the upstream");
}

#[test]
fn concurrent_first_calls_share_one_failure() {
    let mut proxy = Proxy::new(&scripted_config(&["--crash-at-start", "no"]));
    let ids: Vec<_> = (0..50).map(|_| proxy.send_call("g", "echo", json!({}))).collect();
    for id in ids {
        assert!(text_of(&proxy.response(id).json()["result"]).contains("exited with code 3"));
    }
    assert_eq!(proxy.group_status("g")["attempts"], 2, "one attempt with its retry");
}

#[test]
fn an_idle_upstream_is_closed_and_restarts_on_use() {
    let entry = merged(scripted_upstream(&[]), json!({"idle_timeout": "1s"}));
    let mut proxy = Proxy::new(&pure_config([("g", entry), ("h", scripted_upstream(&[]))]));
    let (kept, first) = (proxy.upstream_pid("h"), proxy.upstream_pid("g"));
    // A group with an open call is not idle.
    assert_eq!(proxy.call_text("g", "sleep", json!({"ms": 1500})), "slept");
    assert_eq!(proxy.upstream_pid("g"), first);
    wait_until("the group is closed", || proxy.group_status("g")["state"] == "discovered");
    wait_until("its process is gone", || !is_alive(first));
    proxy.wait_for_log("Disconnected g (lazy mode, will reconnect on use)");
    assert_ne!(proxy.upstream_pid("g"), first);
    assert_eq!(proxy.upstream_pid("h"), kept, "the other group");
}

#[test]
#[cfg_attr(windows, ignore = "there is no warden")]
fn an_idle_upstream_that_ignores_signals_is_killed_with_its_children() {
    let entry = merged(
        scripted_upstream(&["--ignore-eof", "--ignore-term", "--grandchild"]),
        json!({"idle_timeout": "100ms"}),
    );
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    proxy.upstream_pid("g");
    let processes = Processes::descendants_of(proxy.pid());
    assert_eq!(processes.running().len(), 3, "warden, upstream, grandchild");
    wait_until("only the warden is left", || processes.running().len() == 1);
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back");
}

#[test]
fn failing_upstreams_do_not_affect_others() {
    let slow = merged(scripted_upstream(&["--hang", "initialize"]), json!({"timeout": {"wait": 1}}));
    let mut proxy = Proxy::new(&pure_config([
        ("crashes", scripted_upstream(&["--crash-at-start", "no"])),
        ("hangs", slow),
        ("missing", json!({"command": "no-such-command-anywhere"})),
        ("works", scripted_upstream(&[])),
        ("garbage", scripted_upstream(&["--garbage"])),
    ]));
    let start = Instant::now();
    let failing = ["hangs", "crashes", "missing"].map(|group| proxy.send_call(group, "echo", json!({})));
    for group in ["works", "garbage"] {
        assert_eq!(proxy.call_text(group, "echo", json!({"text": "x"})), "x");
    }
    assert!(start.elapsed() < TEST_TIMEOUT / 2, "{:?}", start.elapsed());
    for id in failing {
        assert_eq!(proxy.response(id).json()["result"]["isError"], true);
    }
    let status = proxy.status();
    assert_eq!(
        (&status["status"], &status["ready"], &status["total"]),
        (&json!("ready"), &json!(2), &json!(5))
    );
}

#[test]
#[cfg_attr(windows, ignore = "needs cat")]
fn commands_that_are_no_servers_are_recognized() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut proxy = Proxy::new(&pure_config([
        ("echoes", json!({"command": "cat"})),
        ("directory", json!({"command": directory.path()})),
    ]));
    let (start, echoes) = (Instant::now(), proxy.call_failure("echoes", "echo", json!({})));
    assert!(echoes.contains("the program writes what it reads, so it is no MCP server"), "{echoes}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let failure = proxy.call_failure("directory", "echo", json!({}));
    assert!(failure.contains("is a directory; write the path of the program in it"), "{failure}");
}
