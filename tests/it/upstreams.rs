//! Stdio upstreams: the handshake with every revision and with sloppy servers, their environment and working directory,
//! and how they crash and restart. The submodules cover connection attempts, invalid configs, and stateless servers.

use serde_json::{Value, json};

use crate::support::{
    InputRecord, Message, Proxy, ProxyCommand, merged, pure_config, scripted_config, scripted_upstream,
    text_of, wait_until,
};

mod connection_attempts;
mod era_bridge;
mod failing_lists;
mod invalid_configs;
mod log_spans;
mod malformed;
mod many_questions;
mod stateless;

#[test]
fn upstreams_of_every_revision_work() {
    for (flags, revision) in [
        (vec![], "2025-11-25"),
        (vec!["--version", "2024-11-05"], "2024-11-05"),
        (vec!["--version", "2025-03-26"], "2025-03-26"),
        (vec!["--version", "2025-06-18"], "2025-06-18"),
        (vec!["--version", "2023-01-01"], "2023-01-01"),
        (vec!["--reject-versions-but", "2024-11-05"], "2024-11-05"),
        (vec!["--reject-versions-but", "2025-06-18"], "2025-06-18"),
    ] {
        let mut proxy = Proxy::new(&scripted_config(&flags));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        assert_eq!(proxy.group_status("g")["protocolVersion"], revision, "{flags:?}");
    }
}

#[test]
fn the_refusal_of_an_upstream_without_a_common_revision_is_reported() {
    let mut proxy = Proxy::new(&scripted_config(&["--reject-versions-but", "1999-01-01"]));
    let text = proxy.call_failure("g", "echo", json!({}));
    assert!(text.contains("Unsupported protocol version") && text.contains("-32602"), "{text}");
}

#[test]
fn sloppy_upstreams_work() {
    for flags in [
        vec!["--no-capabilities"],
        vec!["--tools-in-initialize"],
        vec!["--early"],
        vec!["--early", "--number-ids"],
        vec!["--earlier"],
        vec!["--chatty"],
        vec!["--no-version"],
        vec!["--no-version", "--tools-in-initialize", "--no-capabilities"],
        vec!["--version", "whatever"],
        vec!["--earlier", "--early", "--chatty", "--version", ""],
        vec!["--garbage"],
        vec!["--bom"],
        vec!["--no-newline-flush"],
        vec!["--garbage", "--bom", "--early", "--no-capabilities", "--no-newline-flush", "--page", "9"],
    ] {
        let mut proxy = Proxy::new(&scripted_config(&flags));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        assert_eq!(proxy.call_text("g", "progress", json!({"n": 3})), "done", "{flags:?}");
        assert!(
            proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).starts_with("Group g: 21 tools"),
            "{flags:?}"
        );
        assert!(
            proxy.log().matches("skipped a line").count() <= 1,
            "the warning is not repeated: {}",
            proxy.log()
        );
    }
}

#[test]
fn an_unusual_answer_to_initialize_is_logged() {
    for (flags, part) in [
        (["--no-version", "--no-capabilities"], "no protocolVersion"),
        (["--no-version", "--no-capabilities"], "no capabilities"),
        (["--tools-in-initialize", "--early"], "has tools, which are ignored"),
        (["--version", "1999-12-31"], "does not know"),
    ] {
        let mut proxy = Proxy::new(&scripted_config(&flags));
        // The 21 tools are those of `tools/list`, not those in the answer to `initialize`.
        assert!(
            proxy.get_dynamic_tools(json!({"group": "g", "lazy": true})).starts_with("Group g: 21 tools"),
            "{flags:?}"
        );
        proxy.wait_for_log(part);
    }
}

#[test]
fn messages_before_and_during_the_handshake_are_answered_once_and_forwarded_once() {
    for when in ["earlier", "early", "chatty"] {
        let record = InputRecord::new();
        let mut proxy =
            Proxy::new(&pure_config([("g", record.attached_to(scripted_upstream(&[&format!("--{when}")])))]));
        proxy.upstream_pid("g");
        // `initialize` is sent before any response to the upstream's requests.
        let lines = record.lines();
        assert!(lines[0].contains(r#""method":"initialize""#), "{lines:?}");
        wait_until("the ping is answered", || record.lines().iter().any(|line| line.contains("-1\"")));
        let responses = record.lines().into_iter().filter(|line| line.contains(&format!("\"{when}-1\"")));
        assert_eq!(
            responses.collect::<Vec<_>>(),
            [format!(r#"{{"jsonrpc":"2.0","id":"{when}-1","result":{{}}}}"#)]
        );
        // Its stray responses are not taken for the responses to these requests.
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
        let ping = proxy.send_request("ping", json!({})).to_string();
        let messages =
            std::iter::from_fn(|| proxy.next_message()).take_while(|message| message.id() != Some(&*ping));
        let has_marker =
            |message: &Message| message.raw("params").is_some_and(|params| params.contains(when));
        assert_eq!(messages.filter(has_marker).count(), 1, "{when}");
    }
}

/// The environment of an upstream with this entry, if the program has variables of every kind.
fn upstream_env(entry: &Value) -> Value {
    let command =
        ProxyCommand::new().env("CANARY", "sings").env("LANG", "de_DE.UTF-8").env("GITHUB_TOKEN", "s3cret");
    let config = pure_config([("g", merged(scripted_upstream(&[]), entry.clone()))]);
    let mut proxy = command.config(&config).start_initialized();
    serde_json::from_str(&proxy.call_text("g", "env", json!({}))).unwrap()
}

#[test]
#[cfg_attr(windows, ignore = "other variables are safe")]
fn an_upstream_inherits_only_safe_variables_and_those_of_its_entry() {
    for (entry, canary, token) in [
        (json!({}), None, None),
        (json!({"env": {"GITHUB_TOKEN": "own"}}), None, Some("own")),
        (json!({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}), None, Some("s3cret")),
        (json!({"inherit_env": ["CANARY"]}), Some("sings"), None),
        (json!({"inherit_env": true, "env": {"LANG": "C"}}), Some("sings"), Some("s3cret")),
    ] {
        let env = upstream_env(&entry);
        assert_eq!((env["CANARY"].as_str(), env["GITHUB_TOKEN"].as_str()), (canary, token), "{entry}");
        let lang = if canary == Some("sings") && token.is_some() { "C" } else { "de_DE.UTF-8" };
        assert_eq!(env["LANG"], lang, "{entry}");
        assert!(env["HOME"].is_string() && env["PATH"].is_string(), "{env}");
    }
}

#[test]
#[cfg_attr(windows, ignore = "the canonical path is another one")]
fn an_upstream_runs_in_the_working_directory_of_its_entry() {
    let command = ProxyCommand::new();
    let home = command.home().canonicalize().unwrap();
    std::fs::create_dir(home.join("sub")).unwrap();
    let config = pure_config([
        ("ours", scripted_upstream(&[])),
        ("relative", merged(scripted_upstream(&[]), json!({"cwd": "sub"}))),
        ("absolute", merged(scripted_upstream(&[]), json!({"cwd": "/usr"}))),
        ("missing", merged(scripted_upstream(&[]), json!({"cwd": "/nowhere"}))),
    ]);
    let mut proxy = command.config(&config).start_initialized();
    assert_eq!(proxy.call_text("ours", "cwd", json!({})), home.to_str().unwrap());
    assert_eq!(proxy.call_text("relative", "cwd", json!({})), home.join("sub").to_str().unwrap());
    assert_eq!(proxy.call_text("absolute", "cwd", json!({})), "/usr");
    let text = proxy.call_failure("missing", "cwd", json!({}));
    assert!(text.contains("/nowhere") && text.contains("\"cwd\""), "{text}");
}

#[test]
#[cfg_attr(windows, ignore = "there are no signals")]
fn a_call_during_which_the_upstream_exits_reports_its_status_and_stderr() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for (tool, args, exit) in [
        ("crash", json!({"code": 7}), "exited with code 7"),
        ("crash", json!({"code": 0}), "exited with code 0"),
        ("abort", json!({}), "was killed by SIGABRT"),
        ("half", json!({}), "exited with code 1"),
    ] {
        proxy.call_text("g", "log_stderr", json!({"text": "the disk is on fire"}));
        let text = proxy.call_failure("g", tool, args);
        assert!(text.contains(exit) && text.contains("the disk is on fire"), "{tool}: {text}");
        assert!(text.contains("Call again"), "{text}");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back", "{tool}");
    }
}

#[test]
fn a_crashed_upstream_is_restarted_by_every_next_call() {
    let mut proxy = Proxy::new(&scripted_config(&[]));
    for n in 0..100 {
        let text = proxy.call_failure("g", "crash", json!({"code": 9}));
        assert!(text.contains("exited with code 9"), "{n}: {text}");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back");
    }
}

#[test]
fn a_crash_fails_open_calls_and_repeats_read_only_ones() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    proxy.connect(["g", "h"]);
    let open_calls: Vec<_> = (0..10).map(|_| proxy.send_call("g", "late", json!({}))).collect();
    let other = proxy.send_call("h", "sleep", json!({"ms": 300}));
    let crash = proxy.send_call("g", "crash", json!({"code": 4}));
    // This call is sent after the crash, so the first process cannot answer it.
    let read_only = proxy.send_call("g", "read_only_echo", json!({"text": "repeated"}));
    for id in open_calls.into_iter().chain([crash]) {
        let response = proxy.response(id).json();
        assert!(text_of(&response["result"]).contains("exited with code 4"), "{response}");
    }
    assert_eq!(text_of(&proxy.response(read_only).json()["result"]), "repeated");
    assert_eq!(text_of(&proxy.response(other).json()["result"]), "slept", "the other group");
}

#[test]
fn an_upstream_that_exits_between_calls_is_restarted() {
    let mut proxy = Proxy::new(&scripted_config(&["--exit-after", "1"]));
    for n in 0..10 {
        // The process may still be exiting when the next call arrives.
        let result = proxy.call_tool("g", "read_only_echo", json!({"text": n.to_string()}));
        assert_eq!(text_of(&result), n.to_string());
    }
}

#[test]
fn the_status_of_a_failed_group_does_not_change_the_overall_status() {
    let config =
        pure_config([("bad", json!({"command": "/no/such/program"})), ("good", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().args(&["--pure-lazy"]).config(&config).start_initialized();
    proxy.call_failure("bad", "x", json!({}));
    let status = proxy.call_meta_tool("get_status", json!({"group": "bad"}));
    let status = &status["structuredContent"];
    assert_eq!(status["groups"][0]["state"], "failed");
    assert_eq!((&status["status"], &status["error"]), (&json!("ready"), &json!(null)));
}
