//! Servers made with the official SDKs, over HTTP in every way that they have: what comes through dynamic-mcp is what a
//! client of the same SDK is told on stdio. One process serves them all, each by a path of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::pairs::{Client, PY_V1, PY_V2, PY_V2_PROBING, TS_V1, TS_V2, TS_V2_PROBING, run_plan, tool_call};
use crate::remote::Listening;
use crate::scratch::{Scratch, text};
use crate::sdks::{check_steps, through, watched};

/// The path at the server, which revision is spoken there, and which steps of the plan the SDK cannot do there.
type Way = (&'static str, &'static str, &'static [&'static str]);

const HANDSHAKE: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

/// Without a session there is no place for answers to questions, and nobody to be told of changes. (Most refuse to ask.
/// Python's 1.x asks, and does not know the answer when it comes: its call ends with its timeout.)
const NO_SESSION: &[&str] = &["ask", "greet", "subscribe", "change"];
/// An answer in JSON has room for itself alone: the SDKs drop what was to be said before it.
const JSON: &[&str] = &["note", "progress"];
/// Questions, too. (Python's 2.x refuses to ask; the others wait for answers to what they did not send.)
const SESSION_JSON: &[&str] = &["ask", "greet", "note", "progress"];
const NO_SESSION_JSON: &[&str] = &["ask", "greet", "subscribe", "change", "note", "progress"];

/// What most of them have.
const COMMON: [Way; 4] = [
    ("sessions", HANDSHAKE, &[]),
    ("sessions-json", HANDSHAKE, SESSION_JSON),
    ("stateless", HANDSHAKE, NO_SESSION),
    ("stateless-json", HANDSHAKE, NO_SESSION_JSON),
];

#[test]
fn typescript_v1() {
    let ways = [
        ("sessions", HANDSHAKE, &[][..]),
        // The question of greet belongs to no call, and goes by the stream of a GET.
        ("sessions-json", HANDSHAKE, &["ask", "note", "progress"]),
        ("stateless", HANDSHAKE, NO_SESSION),
        ("stateless-json", HANDSHAKE, NO_SESSION_JSON),
        ("sse", HANDSHAKE, &[]),
    ];
    over_http(&TS_V1, "server_ts_v1.mjs", &ways);
}

#[test]
fn typescript_v2() {
    let more: [Way; 3] = [
        ("2026-07-28", STATELESS, &[]),
        ("2026-07-28-sse", STATELESS, &[]),
        ("2026-07-28-json", STATELESS, JSON),
    ];
    over_http(&TS_V2, "server_ts_v2.mjs", &[&COMMON[..], &more].concat());
}

#[test]
fn typescript_v2_without_handshake() {
    over_http(&TS_V2_PROBING, "server_ts_v2.mjs", &[("2026-07-28", STATELESS, &[])]);
}

#[test]
fn python_v1() {
    let more: [Way; 1] = [("sse", HANDSHAKE, &[])];
    over_http(&PY_V1, "server_py.py", &[&COMMON[..], &more].concat());
}

#[test]
fn python_v2() {
    let more: [Way; 3] =
        [("2026-07-28", STATELESS, &[]), ("2026-07-28-json", STATELESS, JSON), ("sse", HANDSHAKE, &[])];
    over_http(&PY_V2, "server_py.py", &[&COMMON[..], &more].concat());
}

#[test]
fn python_v2_without_handshake() {
    over_http(&PY_V2_PROBING, "server_py.py", &[("2026-07-28", STATELESS, &[])]);
}

/// What is done, by names that a way may lack, with a piece of what comes back.
fn plan(client: &Client, prompt: &str) -> Vec<(&'static str, Value, &'static str)> {
    let tool = |name: &str| tool_call(name, &json!({}));
    let until = |name: &str, until: &[&str]| {
        let mut call = tool(name);
        call["until"] = json!(until);
        call
    };
    let changes = ["notifications/resources/list_changed", "notifications/resources/updated"];
    // The SDK's high-level server for Python knows no subscriptions of clients with a handshake.
    let subscribes = client.program.contains("node");
    let mut plan = vec![
        ("add", tool_call("add", &json!({ "a": 2, "b": 40 })), "42"),
        ("add", tool_call("add", &json!({ "a": -2, "b": 40 })), r#""isError":true"#),
        ("count", watched(tool_call("count", &json!({ "to": 3 }))), "Counted to 3."),
        ("ask", tool("ask"), "crab in file:///work"),
        ("greet", tool("greet"), "Hello, Ada."),
        ("read", json!({ "read": "fixture://greeting" }), "hällo 🦀"),
        ("prompt", json!({ "prompt": prompt, "arguments": { "about": "rust" } }), "A poem about rust."),
    ];
    // Without a handshake there are other ways to say what one wants to be told; tests/it/matrix has them.
    if client.mode == "legacy" {
        plan.push(("level", json!({ "level": "info" }), ""));
        plan.push(("note", until("note", &["notifications/message"]), r#""level":"warning""#));
        if subscribes {
            plan.push(("subscribe", json!({ "subscribe": "fixture://greeting" }), ""));
        }
        plan.push(("change", until("change", if subscribes { &changes } else { &changes[..1] }), "Changed."));
    }
    plan
}

fn over_http(client: &Client, script: &str, ways: &[Way]) {
    let Some(scratch) = Scratch::new() else { return };
    let program = scratch.real.join(client.program);
    let script = scratch.path(script);
    let run = |mode: &str, command: &[String], calls: Vec<Value>| {
        let plan = json!({ "command": command, "mode": mode, "calls": calls, "tells": true });
        run_plan(&scratch, client, plan)["results"].as_array().unwrap().clone()
    };
    let direct = plan(client, "poem").into_iter().map(|(_, call, _)| call).collect();
    let direct = run("legacy", &[text(&program), text(&script)], direct);

    let (listening, origin) = listen(&scratch, &program, &script);
    for (path, revision, lacks) in ways {
        let url = format!("{origin}/{path}");
        let proxy = scratch.serve(&json!({ "sdk": { "url": url, "lazy_startup": "pure" } }));
        let plan = plan(client, "sdk__poem").into_iter().zip(direct.clone());
        let (done, mut calls): (Vec<_>, Vec<_>) = plan
            .filter(|((name, ..), _)| !lacks.contains(name))
            .map(|((name, call, says), direct)| {
                ((name, says, direct), if call["name"].is_string() { through(&call) } else { call })
            })
            .unzip();
        calls.push(tool_call("get_status", &json!({})));
        let mut proxied = run(client.mode, &proxy, calls);
        let status = proxied.pop().unwrap();
        assert_eq!(status["structuredContent"]["groups"][0]["protocolVersion"], *revision, "{path}");
        for ((name, says, direct), proxied) in done.into_iter().zip(proxied) {
            check(&format!("{path}, {name}"), says, direct, proxied, lacks);
        }
    }
    drop(listening);
    scratch.assert_nothing_is_left();
}

/// The server as it listens, and where.
fn listen(scratch: &Scratch, program: &Path, script: &Path) -> (Listening, String) {
    let mut server = scratch.command(program);
    server.arg(script).arg("http").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Listening(server.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (server, format!("http://127.0.0.1:{}", port.trim()))
}

fn check(what: &str, says: &str, mut direct: Value, mut proxied: Value, lacks: &[&str]) {
    // How far it is may be told in fewer steps.
    for (result, told) in [(&mut direct, true), (&mut proxied, !lacks.contains(&"progress"))] {
        match result.get_mut("steps").map(Value::take) {
            Some(steps) if told => check_steps(&steps),
            _ => {}
        }
    }
    assert!(direct.to_string().contains(says), "{what}: {says} in {direct}");
    // Whether a server takes a level is its own affair; here it is always taken.
    if !what.ends_with("level") {
        assert_eq!(proxied, direct, "{what}");
    }
}
