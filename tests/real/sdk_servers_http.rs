//! Servers made with the official SDKs, over HTTP with every transport and setting that the SDKs have: results through
//! dynamic-mcp equal those of the same server on stdio. One process serves all endpoints of an SDK.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::clients::{Client, PY_V1, PY_V2, PY_V2_PROBING, TS_V1, TS_V2, TS_V2_PROBING, run_plan, tool_call};
use crate::reference_server_http::HttpServer;
use crate::sdk_servers_stdio::{assert_increasing_progress, proxied, with_progress};
use crate::workspace::{Workspace, path_string};

/// The path of an endpoint, its revision, and the steps of the plan that the SDK does not support there.
type Endpoint = (&'static str, &'static str, &'static [&'static str]);

const HANDSHAKE: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

/// Without a session a server cannot receive responses to its requests and cannot send notifications later. (Most SDKs
/// refuse to send requests. Python's 1.x sends them and does not accept the responses, so the call times out.)
const NO_SESSION: &[&str] = &["ask", "greet", "subscribe", "change"];
/// A JSON response has no room for notifications, and the SDKs drop them.
const JSON: &[&str] = &["note", "progress"];
/// Nor for requests. (Python's 2.x refuses to send them; the others wait for responses to requests they did not send.)
const SESSION_JSON: &[&str] = &["ask", "greet", "note", "progress"];
const NO_SESSION_JSON: &[&str] = &["ask", "greet", "subscribe", "change", "note", "progress"];

/// The endpoints of most SDKs.
const COMMON: [Endpoint; 4] = [
    ("sessions", HANDSHAKE, &[]),
    ("sessions-json", HANDSHAKE, SESSION_JSON),
    ("stateless", HANDSHAKE, NO_SESSION),
    ("stateless-json", HANDSHAKE, NO_SESSION_JSON),
];

#[test]
fn typescript_v1() {
    let endpoints = [
        ("sessions", HANDSHAKE, &[][..]),
        // The elicitation of `greet` does not belong to a call and is sent on the GET stream.
        ("sessions-json", HANDSHAKE, &["ask", "note", "progress"]),
        ("stateless", HANDSHAKE, NO_SESSION),
        ("stateless-json", HANDSHAKE, NO_SESSION_JSON),
        ("sse", HANDSHAKE, &[]),
    ];
    check_endpoints(&TS_V1, "server_ts_v1.mjs", &endpoints);
}

#[test]
fn typescript_v2() {
    let more: [Endpoint; 3] = [
        ("2026-07-28", STATELESS, &[]),
        ("2026-07-28-sse", STATELESS, &[]),
        ("2026-07-28-json", STATELESS, JSON),
    ];
    check_endpoints(&TS_V2, "server_ts_v2.mjs", &[&COMMON[..], &more].concat());
}

#[test]
fn typescript_v2_without_handshake() {
    check_endpoints(&TS_V2_PROBING, "server_ts_v2.mjs", &[("2026-07-28", STATELESS, &[])]);
}

#[test]
fn python_v1() {
    let more: [Endpoint; 1] = [("sse", HANDSHAKE, &[])];
    check_endpoints(&PY_V1, "server_py.py", &[&COMMON[..], &more].concat());
}

#[test]
fn python_v2() {
    let more: [Endpoint; 3] =
        [("2026-07-28", STATELESS, &[]), ("2026-07-28-json", STATELESS, JSON), ("sse", HANDSHAKE, &[])];
    check_endpoints(&PY_V2, "server_py.py", &[&COMMON[..], &more].concat());
}

#[test]
fn python_v2_without_handshake() {
    check_endpoints(&PY_V2_PROBING, "server_py.py", &[("2026-07-28", STATELESS, &[])]);
}

/// The steps: a name, the call, and a part of the expected result. `prompt`: the name of the prompt.
fn steps(client: &Client, prompt: &str) -> Vec<(&'static str, Value, &'static str)> {
    let tool = |name: &str| tool_call(name, &json!({}));
    let tool_with_notifications = |name: &str, methods: &[&str]| {
        let mut call = tool(name);
        call["wait_for"] = json!(methods);
        call
    };
    let changes = ["notifications/resources/list_changed", "notifications/resources/updated"];
    // The high-level server of the Python SDK does not support subscriptions of clients with a handshake.
    let can_subscribe = client.program.contains("node");
    let mut steps = vec![
        ("add", tool_call("add", &json!({ "a": 2, "b": 40 })), "42"),
        ("add", tool_call("add", &json!({ "a": -2, "b": 40 })), r#""isError":true"#),
        ("count", with_progress(tool_call("count", &json!({ "to": 3 }))), "Counted to 3."),
        ("ask", tool("ask"), "crab in file:///work"),
        ("greet", tool("greet"), "Hello, Ada."),
        ("read", json!({ "read": "fixture://greeting" }), "hällo 🦀"),
        ("prompt", json!({ "prompt": prompt, "arguments": { "about": "rust" } }), "A poem about rust."),
    ];
    // A stateless client requests notifications in other ways, which tests/it/matrix covers.
    if client.mode == "legacy" {
        steps.push(("level", json!({ "level": "info" }), ""));
        let note = tool_with_notifications("note", &["notifications/message"]);
        steps.push(("note", note, r#""level":"warning""#));
        if can_subscribe {
            steps.push(("subscribe", json!({ "subscribe": "fixture://greeting" }), ""));
        }
        let methods = if can_subscribe { &changes } else { &changes[..1] };
        steps.push(("change", tool_with_notifications("change", methods), "Changed."));
    }
    steps
}

fn check_endpoints(client: &Client, script: &str, endpoints: &[Endpoint]) {
    let Some(workspace) = Workspace::new() else { return };
    let program = workspace.install_dir.join(client.program);
    let script = workspace.path(script);
    let run = |mode: &str, command: &[String], calls: Vec<Value>| {
        let plan = json!({ "command": command, "mode": mode, "calls": calls, "sampling_and_roots": true });
        run_plan(&workspace, client, plan)["results"].as_array().unwrap().clone()
    };
    let calls = steps(client, "poem").into_iter().map(|(_, call, _)| call).collect();
    let direct = run("legacy", &[path_string(&program), path_string(&script)], calls);

    let (server, origin) = start_server(&workspace, &program, &script);
    for (path, revision, unsupported) in endpoints {
        let url = format!("{origin}/{path}");
        let proxy = workspace.proxy_for_servers(&json!({ "sdk": { "url": url, "lazy_startup": "pure" } }));
        let steps = steps(client, "sdk__poem").into_iter().zip(direct.clone());
        let (expectations, mut calls): (Vec<_>, Vec<_>) = steps
            .filter(|((name, ..), _)| !unsupported.contains(name))
            .map(|((name, call, expected), direct)| {
                ((name, expected, direct), if call["name"].is_string() { proxied(&call) } else { call })
            })
            .unzip();
        calls.push(tool_call("get_status", &json!({})));
        let mut results = run(client.mode, &proxy, calls);
        let status = results.pop().unwrap();
        assert_eq!(status["structuredContent"]["groups"][0]["protocolVersion"], *revision, "{path}");
        for ((name, expected, direct), proxied) in expectations.into_iter().zip(results) {
            assert_step(&format!("{path}, {name}"), expected, direct, proxied, unsupported);
        }
    }
    drop(server);
    workspace.assert_no_process_left();
}

/// Starts the server. Returns it and its origin.
fn start_server(workspace: &Workspace, program: &Path, script: &Path) -> (HttpServer, String) {
    let mut command = workspace.command(program);
    command.arg(script).arg("http").stderr(Stdio::null());
    HttpServer::start(command)
}

fn assert_step(what: &str, expected: &str, mut direct: Value, mut proxied: Value, unsupported: &[&str]) {
    // The number of progress notifications may differ.
    let has_progress = !unsupported.contains(&"progress");
    for (result, is_checked) in [(&mut direct, true), (&mut proxied, has_progress)] {
        match result.get_mut("progress").map(Value::take) {
            Some(progress) if is_checked => assert_increasing_progress(&progress),
            _ => {}
        }
    }
    assert!(direct.to_string().contains(expected), "{what}: {expected} in {direct}");
    // A server may refuse a level. Dynamic-mcp accepts every level.
    if !what.ends_with("level") {
        assert_eq!(proxied, direct, "{what}");
    }
}
