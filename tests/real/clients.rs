//! The clients of the official SDKs, and of FastMCP. Each is a script that runs a plan and prints a report.
//!
//! A plan has the server's `command` or `url`, the `mode` of the client and the `calls` to make; `run_plan.mjs` describes it.

use serde_json::{Value, json};

use crate::workspace::{Workspace, parse_report};

/// A client of one SDK.
pub(crate) struct Client {
    /// The interpreter, in the installation.
    pub(crate) program: &'static str,
    script: &'static str,
    /// `legacy`: it makes a handshake. `auto`: it tries `server/discover` first, and then needs no handshake.
    pub(crate) mode: &'static str,
}

impl Client {
    /// The revision that it negotiates with dynamic-mcp.
    pub(crate) fn revision(&self) -> &'static str {
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
/// It logs in before it calls.
pub(crate) const TS_LOGIN: Client =
    Client { program: "bin/node", script: "client_ts_login.mjs", mode: "auto" };
/// FastMCP's client, whose messages of the server reach its log handler.
pub(crate) const FASTMCP: Client =
    Client { program: "python2/bin/python", script: "client_fastmcp.py", mode: "legacy" };

/// Runs a client that makes these calls to the server with this command, and returns its report.
pub(crate) fn run_calls(
    workspace: &Workspace,
    client: &Client,
    mode: &str,
    command: &[String],
    calls: &[Value],
) -> Value {
    run_plan(workspace, client, json!({ "command": command, "mode": mode, "calls": calls }))
}

/// Runs a client with this plan, and returns its report.
pub(crate) fn run_plan(workspace: &Workspace, client: &Client, plan: Value) -> Value {
    let plan = workspace.write("plan.json", &plan.to_string());
    let mut program = workspace.command(workspace.install_dir.join(client.program));
    program.args([workspace.path(client.script), plan]);
    parse_report(&workspace.run(program))
}

/// A call of a tool, for a plan.
pub(crate) fn tool_call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// A call of a tool of a group through dynamic-mcp, for a plan.
pub(crate) fn proxied_call(group: &str, tool: &str, arguments: &Value) -> Value {
    tool_call("call_dynamic_tool", &json!({ "group": group, "name": tool, "args": arguments }))
}
