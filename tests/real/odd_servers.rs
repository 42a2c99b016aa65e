//! Servers that deviate from MCP, with clients of the official SDKs: a call that works directly works through dynamic-mcp,
//! with the same result.

use serde_json::{Value, json};

use crate::clients::{Client, PY_V1, TS_V1, proxied_call, run_plan, tool_call};
use crate::workspace::{Workspace, path_string};

/// Makes a call without listing the tools before.
fn call(workspace: &Workspace, client: &Client, command: &[String], call: &Value) -> Value {
    let plan = json!({"command": command, "mode": "legacy", "unlisted": true, "calls": [call]});
    run_plan(workspace, client, plan)["results"][0].clone()
}

fn check(client: &Client, ways: &[&str]) {
    let Some(workspace) = Workspace::new() else { return };
    for way in ways {
        let python = path_string(&workspace.install_dir.join("python1/bin/python"));
        let server = vec![python, path_string(&workspace.path("server_odd.py")), (*way).to_owned()];
        let direct = call(&workspace, client, &server, &tool_call("a", &json!({})));
        let proxy = workspace.proxy_for_commands(&[("odd", server)]);
        let proxied = call(&workspace, client, &proxy, &proxied_call("odd", "a", &json!({})));
        assert!(direct.to_string().contains("caf"), "{way}: {direct}");
        assert_eq!(proxied, direct, "{way}");
    }
    workspace.assert_no_process_left();
}

#[test]
fn the_typescript_client_takes_them() {
    check(&TS_V1, &["no list", "broken list", "twice", "circle", "fraction", "bytes"]);
}

/// It lists the tools itself before it returns a result, and reads nothing but UTF-8.
#[test]
fn the_python_client_takes_them() {
    check(&PY_V1, &["twice", "circle"]);
}
