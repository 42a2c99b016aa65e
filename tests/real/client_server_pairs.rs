//! Every client SDK with every server: what comes through dynamic-mcp is what the server says when asked directly.

use crate::scratch::{Scratch, report};
use crate::servers::{self, Call, Server};
use serde_json::{Value, json};

/// How a client is started, and whether it asks `server/discover` before it says `initialize`; then it needs no
/// handshake.
pub(crate) struct Client {
    pub(crate) program: &'static str,
    script: &'static str,
    pub(crate) mode: &'static str,
}

impl Client {
    fn revision(&self) -> &'static str {
        if self.mode == "auto" { "2026-07-28" } else { "2025-11-25" }
    }
}

pub(crate) const TS_V1: Client = Client { program: "bin/node", script: "client_ts_v1.mjs", mode: "legacy" };
pub(crate) const TS_V2: Client = Client { program: "bin/node", script: "client_ts_v2.mjs", mode: "legacy" };
pub(crate) const TS_V2_PROBING: Client =
    Client { program: "bin/node", script: "client_ts_v2.mjs", mode: "auto" };
pub(crate) const PY_V1: Client =
    Client { program: "python1/bin/python", script: "client_py.py", mode: "legacy" };
pub(crate) const PY_V2: Client =
    Client { program: "python2/bin/python", script: "client_py.py", mode: "legacy" };
pub(crate) const PY_V2_PROBING: Client =
    Client { program: "python2/bin/python", script: "client_py.py", mode: "auto" };

macro_rules! pairs {
    ($($client:ident = $how:expr;)*) => {
        $(mod $client {
            use super::*;

            #[test]
            fn everything() { pair(&$how, "everything"); }

            #[test]
            fn filesystem() { pair(&$how, "filesystem"); }

            #[test]
            fn time() { pair(&$how, "time"); }

            #[test]
            fn git() { pair(&$how, "git"); }
        })*
    };
}

pairs! {
    typescript_v1 = TS_V1;
    typescript_v2 = TS_V2;
    typescript_v2_probing = TS_V2_PROBING;
    python_v1 = PY_V1;
    python_v2_probing = PY_V2_PROBING;
}

fn pair(client: &Client, group: &str) {
    let Some(scratch) = Scratch::new() else { return };
    let servers = servers::all(&scratch);
    let server = servers.iter().find(|server| server.group == group).unwrap();
    let direct_plan: Vec<_> = server.calls.iter().map(|call| tool_call(call.tool, &call.arguments)).collect();
    let direct = run(&scratch, client, "legacy", &server.command, &direct_plan);

    let commands: Vec<_> = servers.iter().map(|server| (server.group, server.command.clone())).collect();
    let plan = proxied_plan(server);
    let proxied = run(&scratch, client, client.mode, &scratch.proxy(&commands), &plan);
    scratch.assert_nothing_is_left();

    check_greeting(client, &proxied);
    let results = proxied["results"].as_array().unwrap();
    assert_eq!(results.len(), plan.len());
    let (through, ours) = results.split_at(server.calls.len());
    check_calls(&server.calls, through, &direct);
    check_our_own(server, ours, &direct);
}

pub(crate) fn run(
    scratch: &Scratch,
    client: &Client,
    mode: &str,
    command: &[String],
    calls: &[Value],
) -> Value {
    run_plan(scratch, client, json!({ "command": command, "mode": mode, "calls": calls }))
}

pub(crate) fn run_plan(scratch: &Scratch, client: &Client, plan: Value) -> Value {
    let plan = scratch.write("plan.json", &plan.to_string());
    let mut program = scratch.command(scratch.real.join(client.program));
    program.args([scratch.path(client.script), plan]);
    report(&scratch.run(program))
}

pub(crate) fn tool_call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// The server's calls through us, then those that `check_our_own` looks at.
fn proxied_plan(server: &Server) -> Vec<Value> {
    let through = |name: &str, tool: &str, arguments: &Value| {
        tool_call(name, &json!({ "group": server.group, "name": tool, "args": arguments }))
    };
    let mut plan: Vec<_> =
        server.calls.iter().map(|call| through("call_dynamic_tool", call.tool, &call.arguments)).collect();
    let read = &server.calls[0];
    plan.extend([
        tool_call("get_dynamic_tools", &json!({ "group": server.group, "lazy": false })),
        through("call_dynamic_tool_readonly", read.tool, &read.arguments),
        through("call_dynamic_tool_readonly", server.writes, &json!({})),
        through("call_dynamic_tool", "no_such_tool", &json!({})),
        tool_call("get_dynamic_tools", &json!({ "group": "no_such_group" })),
        tool_call("no_such_meta_tool", &json!({})),
        tool_call("get_status", &json!({})),
    ]);
    plan
}

fn check_greeting(client: &Client, report: &Value) {
    assert_eq!((&report["server"], &report["version"]), (&json!("dynamic-mcp"), &json!(client.revision())));
    let tools = [
        "get_dynamic_tools",
        "call_dynamic_tool",
        "call_dynamic_tool_readonly",
        "search_dynamic_tools",
        "get_status",
    ];
    assert_eq!(report["tools"], json!(tools));
    assert!(
        report["instructions"].as_str().unwrap().contains("everything, filesystem, time, git"),
        "{report}"
    );
}

pub(crate) fn check_calls(calls: &[Call], through: &[Value], direct: &Value) {
    for (n, (call, result)) in calls.iter().zip(through).enumerate() {
        assert_eq!(*result, direct["results"][n], "{} through us and directly", call.tool);
        assert_eq!(result["isError"], call.is_error, "{}: {result}", call.tool);
        let content = result["content"].to_string();
        assert!(content.contains(call.says), "{}: {content}", call.tool);
    }
}

fn check_our_own(server: &Server, results: &[Value], direct: &Value) {
    let [described, read, refused, no_tool, no_group, no_meta_tool, status] = results else {
        panic!("{results:?}")
    };
    let definitions = words(described, false);
    for tool in direct["tools"].as_array().unwrap() {
        assert!(definitions.contains(&format!("\"name\":{tool}")), "no {tool} in {definitions}");
    }
    assert_eq!(*read, direct["results"][0]);
    assert!(!words(refused, true).is_empty());
    assert!(words(no_tool, true).contains("has no tool \"no_such_tool\""), "{no_tool}");
    assert!(words(no_group, true).contains("There is no group"), "{no_group}");
    assert_eq!(no_meta_tool["error"]["code"], -32602, "{no_meta_tool}");
    for group in status["structuredContent"]["groups"].as_array().unwrap() {
        let used = group["group"] == server.group;
        assert_eq!(group["state"] == "connected", used, "only what is used is started: {group}");
    }
}

/// The text of a result of ours.
fn words(result: &Value, is_error: bool) -> &str {
    assert_eq!(result["isError"], is_error, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}
