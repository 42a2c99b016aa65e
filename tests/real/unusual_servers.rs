//! Servers that behave as MCP does not foresee, with the official SDKs' clients beside dynamic-mcp: what works with an
//! SDK works here. `unusual_server.py` is the server.

use serde_json::{Value, json};

use crate::clients::{Client, PY_V1, PY_V2, TS_V1, TS_V2, proxied_call, run_plan, tool_call};
use crate::reference_server_http::HttpServer;
use crate::workspace::Workspace;

/// The results of these tools at a path of the server: with each of the clients, and through dynamic-mcp.
fn results(workspace: &Workspace, clients: &[&Client], url: &str, tools: &[&str]) -> (Vec<Value>, Value) {
    let calls = |call: fn(&str) -> Value| tools.iter().map(|tool| call(tool)).collect::<Vec<_>>();
    let direct = calls(|tool| tool_call(tool, &json!({})));
    let of_sdks = clients.iter().map(|client| {
        let plan = json!({"url": url, "mode": "legacy", "calls": direct});
        run_plan(workspace, client, plan)["results"].take()
    });
    let of_sdks = of_sdks.collect();
    let command = workspace.proxy_for_servers(&json!({"g": {"url": url, "lazy_startup": "pure"}}));
    let proxied = calls(|tool| proxied_call("g", tool, &json!({})));
    let plan = json!({"command": command, "mode": "legacy", "calls": proxied});
    (of_sdks, run_plan(workspace, &TS_V1, plan)["results"].take())
}

fn start(workspace: &Workspace) -> (HttpServer, String) {
    let mut command = workspace.command(workspace.install_dir.join("python2/bin/python"));
    command.arg(workspace.path("unusual_server.py"));
    HttpServer::start(command)
}

fn texts(results: &Value) -> Vec<&str> {
    results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["content"][0]["text"].as_str().unwrap_or("failed"))
        .collect()
}

#[test]
fn a_get_that_fails_costs_no_call() {
    let Some(workspace) = Workspace::new() else { return };
    let (server, origin) = start(&workspace);
    for path in ["/get/401", "/get/409", "/get/502", "/get/404", "/closes"] {
        let clients = [&TS_V1, &TS_V2, &PY_V1, &PY_V2];
        let (of_sdks, ours) = results(&workspace, &clients, &format!("{origin}{path}"), &["echo", "echo"]);
        for (client, sdk) in clients.iter().zip(&of_sdks) {
            assert_eq!(texts(sdk), ["echo", "echo"], "{path}: {}", client.program);
        }
        assert_eq!(texts(&ours), ["echo", "echo"], "{path}: {ours}");
    }
    drop(server);
    workspace.assert_no_process_left();
}

/// The SDKs' clients leave a lost session to their host; dynamic-mcp makes a new one.
#[test]
fn a_session_that_a_restart_lost_is_made_anew() {
    let Some(workspace) = Workspace::new() else { return };
    let (server, origin) = start(&workspace);
    // The Python client of 1.x ends with an exception.
    let clients = [&TS_V1, &TS_V2, &PY_V2];
    let tools = ["echo", "restart", "echo", "echo"];
    let (of_sdks, ours) = results(&workspace, &clients, &format!("{origin}/restart"), &tools);
    for (client, sdk) in clients.iter().zip(&of_sdks) {
        assert_eq!(texts(sdk), ["echo", "restart", "failed", "failed"], "{}: {sdk}", client.program);
    }
    assert_eq!(texts(&ours), ["echo", "restart", "echo", "echo"], "{ours}");
    drop(server);
    workspace.assert_no_process_left();
}
