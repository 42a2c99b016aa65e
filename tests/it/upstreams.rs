//! Upstreams of every kind: how they are introduced, what they get, how they fail and come back.

use serde_json::{Value, json};

use crate::protocol::Record;
use crate::support::{Proxy, Setup, one, servers, text_of, until, upstream, with};

mod configs;
mod connecting;
mod crossing;
mod stateless;

#[test]
fn every_revision_is_spoken_with_upstreams() {
    for (flags, revision) in [
        (vec![], "2025-11-25"),
        (vec!["--version", "2024-11-05"], "2024-11-05"),
        (vec!["--version", "2025-03-26"], "2025-03-26"),
        (vec!["--version", "2025-06-18"], "2025-06-18"),
        (vec!["--version", "2023-01-01"], "2023-01-01"),
        (vec!["--reject-versions-but", "2024-11-05"], "2024-11-05"),
        (vec!["--reject-versions-but", "2025-06-18"], "2025-06-18"),
    ] {
        let mut proxy = Proxy::new(&one(&flags));
        assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        assert_eq!(proxy.group("g")["protocolVersion"], revision, "{flags:?}");
    }
}

#[test]
fn an_upstream_that_speaks_no_revision_of_ours_says_so() {
    let mut proxy = Proxy::new(&one(&["--reject-versions-but", "1999-01-01"]));
    let text = proxy.failure("g", "echo", json!({}));
    assert!(text.contains("Unsupported protocol version") && text.contains("-32602"), "{text}");
}

#[test]
fn sloppy_upstreams_are_taken_as_they_are() {
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
        let mut proxy = Proxy::new(&one(&flags));
        assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x", "{flags:?}");
        assert_eq!(proxy.text("g", "progress", json!({"n": 3})), "done", "{flags:?}");
        assert!(
            proxy.tools(json!({"group": "g", "lazy": true})).starts_with("Group g: 21 tools"),
            "{flags:?}"
        );
        assert!(proxy.log().matches("skipped a line").count() <= 1, "said once: {}", proxy.log());
    }
}

#[test]
fn what_is_odd_about_an_introduction_is_logged() {
    for (flags, part) in [
        (["--no-version", "--no-capabilities"], "no protocolVersion"),
        (["--no-version", "--no-capabilities"], "no capabilities"),
        (["--tools-in-initialize", "--early"], "has tools, which are ignored"),
        (["--version", "1999-12-31"], "does not know"),
    ] {
        let mut proxy = Proxy::new(&one(&flags));
        // Twenty-one tools are those of `tools/list`, whatever the introduction said.
        assert!(
            proxy.tools(json!({"group": "g", "lazy": true})).starts_with("Group g: 21 tools"),
            "{flags:?}"
        );
        proxy.until_logged(part);
    }
}

#[test]
fn what_an_upstream_says_out_of_turn_is_answered_once_and_passed_once() {
    for when in ["earlier", "early", "chatty"] {
        let record = Record::new();
        let mut proxy = Proxy::new(&servers([("g", record.of(upstream(&[&format!("--{when}")])))]));
        proxy.upstream_pid("g");
        // `initialize` comes first whatever was asked before it.
        let lines = record.all();
        assert!(lines[0].contains(r#""method":"initialize""#), "{lines:?}");
        until("the ping is answered", || record.all().iter().any(|line| line.contains("-1\"")));
        let answers = record.all().into_iter().filter(|line| line.contains(&format!("\"{when}-1\"")));
        assert_eq!(
            answers.collect::<Vec<_>>(),
            [format!(r#"{{"jsonrpc":"2.0","id":"{when}-1","result":{{}}}}"#)]
        );
        // Its answers to nobody are no answers to what is asked now.
        assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
        let ping = proxy.send("ping", json!({})).to_string();
        let told = std::iter::from_fn(|| proxy.next()).take_while(|message| message.id() != Some(&*ping));
        let said = told.filter(|message| message.raw("params").is_some_and(|params| params.contains(when)));
        assert_eq!(said.count(), 1, "{when}");
    }
}

/// The environment of the upstream, where ours has variables of every kind.
fn environment(entry: &Value) -> Value {
    let setup = Setup::new().env("CANARY", "sings").env("LANG", "de_DE.UTF-8").env("GITHUB_TOKEN", "s3cret");
    let env = entry.clone();
    let mut proxy = setup.config(&servers([("g", with(upstream(&[]), env))])).ready();
    serde_json::from_str(&proxy.text("g", "env", json!({}))).unwrap()
}

#[test]
fn an_upstream_gets_the_safe_variables_and_its_own() {
    for (entry, canary, token) in [
        (json!({}), None, None),
        (json!({"env": {"GITHUB_TOKEN": "own"}}), None, Some("own")),
        (json!({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}), None, Some("s3cret")),
        (json!({"inherit_env": ["CANARY"]}), Some("sings"), None),
        (json!({"inherit_env": true, "env": {"LANG": "C"}}), Some("sings"), Some("s3cret")),
    ] {
        let env = environment(&entry);
        assert_eq!((env["CANARY"].as_str(), env["GITHUB_TOKEN"].as_str()), (canary, token), "{entry}");
        let lang = if canary == Some("sings") && token.is_some() { "C" } else { "de_DE.UTF-8" };
        assert_eq!(env["LANG"], lang, "{entry}");
        assert!(env["HOME"].is_string() && env["PATH"].is_string(), "{env}");
    }
}

#[test]
fn an_upstream_runs_where_its_entry_says() {
    let setup = Setup::new();
    let home = setup.dir().canonicalize().unwrap();
    std::fs::create_dir(home.join("sub")).unwrap();
    let config = servers([
        ("ours", upstream(&[])),
        ("relative", with(upstream(&[]), json!({"cwd": "sub"}))),
        ("absolute", with(upstream(&[]), json!({"cwd": "/usr"}))),
        ("missing", with(upstream(&[]), json!({"cwd": "/nowhere"}))),
    ]);
    let mut proxy = setup.config(&config).ready();
    assert_eq!(proxy.text("ours", "cwd", json!({})), home.to_str().unwrap());
    assert_eq!(proxy.text("relative", "cwd", json!({})), home.join("sub").to_str().unwrap());
    assert_eq!(proxy.text("absolute", "cwd", json!({})), "/usr");
    let text = proxy.failure("missing", "cwd", json!({}));
    assert!(text.contains("/nowhere") && text.contains("\"cwd\""), "{text}");
}

#[test]
fn a_call_that_the_upstream_dies_of_says_how_and_what_it_wrote_last() {
    let mut proxy = Proxy::new(&one(&[]));
    for (tool, args, how) in [
        ("crash", json!({"code": 7}), "exited with code 7"),
        ("crash", json!({"code": 0}), "exited with code 0"),
        ("abort", json!({}), "was killed by SIGABRT"),
        ("half", json!({}), "exited with code 1"),
    ] {
        proxy.text("g", "log_stderr", json!({"text": "the disk is on fire"}));
        let text = proxy.failure("g", tool, args);
        assert!(text.contains(how) && text.contains("the disk is on fire"), "{tool}: {text}");
        assert!(text.contains("Call again"), "{text}");
        assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back", "{tool}");
    }
}

#[test]
fn a_crashed_upstream_is_back_on_the_next_call_every_time() {
    let mut proxy = Proxy::new(&one(&[]));
    for n in 0..100 {
        let text = proxy.failure("g", "crash", json!({"code": 9}));
        assert!(text.contains("exited with code 9"), "{n}: {text}");
        assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back");
    }
}

#[test]
fn a_crash_fails_every_call_in_flight_but_repeats_those_that_only_read() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&[])), ("h", upstream(&[]))]));
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    let lost: Vec<_> = (0..10).map(|_| proxy.send_call("g", "late", json!({}))).collect();
    let other = proxy.send_call("h", "sleep", json!({"ms": 300}));
    let crash = proxy.send_call("g", "crash", json!({"code": 4}));
    // Written behind the crash: it cannot be answered by the first process.
    let reads = proxy.send_call("g", "read_only_echo", json!({"text": "repeated"}));
    for id in lost.into_iter().chain([crash]) {
        let answer = proxy.answer(id).json();
        assert!(text_of(&answer["result"]).contains("exited with code 4"), "{answer}");
    }
    assert_eq!(text_of(&proxy.answer(reads).json()["result"]), "repeated");
    assert_eq!(text_of(&proxy.answer(other).json()["result"]), "slept", "the other group");
}

#[test]
fn an_upstream_that_ends_between_calls_is_started_again() {
    let mut proxy = Proxy::new(&one(&["--exit-after", "1"]));
    for n in 0..10 {
        // The process may still be ending when the next call is there.
        let result = proxy.call("g", "read_only_echo", json!({"text": n.to_string()}));
        assert_eq!(text_of(&result), n.to_string());
    }
}

#[test]
fn the_status_of_one_failed_group_is_not_that_of_all() {
    let config = servers([("bad", json!({"command": "/no/such/program"})), ("good", upstream(&[]))]);
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&config).ready();
    proxy.failure("bad", "x", json!({}));
    let status = proxy.front("get_status", json!({"group": "bad"}));
    let status = &status["structuredContent"];
    assert_eq!(status["groups"][0]["state"], "failed");
    assert_eq!((&status["status"], &status["error"]), (&json!("ready"), &json!(null)));
}
