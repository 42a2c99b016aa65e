//! Each SDK's client with each reference server: results through dynamic-mcp equal the results of the server itself, and
//! our own tools work.

use serde_json::{Value, json};

use crate::clients::{
    Client, PY_V1, PY_V2_PROBING, TS_V1, TS_V2, TS_V2_PROBING, proxied_call, run_calls, tool_call,
};
use crate::reference_servers::{self, ReferenceServer, ServerCall};
use crate::workspace::Workspace;

macro_rules! pairs {
    ($($module:ident = $client:expr;)*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn everything() { check_pair(&$client, "everything"); }

            #[test]
            fn filesystem() { check_pair(&$client, "filesystem"); }

            #[test]
            fn time() { check_pair(&$client, "time"); }

            #[test]
            fn git() { check_pair(&$client, "git"); }
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

fn check_pair(client: &Client, group: &str) {
    let Some(workspace) = Workspace::new() else { return };
    let servers = reference_servers::all(&workspace);
    let server = servers.iter().find(|server| server.group == group).unwrap();
    let direct_plan: Vec<_> = server.calls.iter().map(|call| tool_call(call.tool, &call.arguments)).collect();
    let direct = run_calls(&workspace, client, "legacy", &server.command, &direct_plan);

    let commands: Vec<_> = servers.iter().map(|server| (server.group, server.command.clone())).collect();
    let plan = proxied_plan(server);
    let proxied = run_calls(&workspace, client, client.mode, &workspace.proxy_for_commands(&commands), &plan);
    workspace.assert_no_process_left();

    assert_initialized(client, &proxied);
    let results = proxied["results"].as_array().unwrap();
    assert_eq!(results.len(), plan.len());
    let (proxied_results, own_results) = results.split_at(server.calls.len());
    assert_same_results(&server.calls, proxied_results, &direct);
    assert_own_results(server, own_results, &direct);
}

/// The calls of the server through dynamic-mcp, then those that `assert_own_results` checks.
fn proxied_plan(server: &ReferenceServer) -> Vec<Value> {
    let mut plan: Vec<_> =
        server.calls.iter().map(|call| proxied_call(server.group, call.tool, &call.arguments)).collect();
    let read_only_call = |tool: &str, arguments: &Value| {
        let arguments = json!({ "group": server.group, "name": tool, "args": arguments });
        tool_call("call_dynamic_tool_readonly", &arguments)
    };
    let first = &server.calls[0];
    plan.extend([
        tool_call("get_dynamic_tools", &json!({ "group": server.group, "lazy": false })),
        read_only_call(first.tool, &first.arguments),
        read_only_call(server.writing_tool.unwrap_or("no_such_tool"), &json!({})),
        proxied_call(server.group, "no_such_tool", &json!({})),
        tool_call("get_dynamic_tools", &json!({ "group": "no_such_group" })),
        tool_call("no_such_meta_tool", &json!({})),
        tool_call("get_status", &json!({})),
    ]);
    plan
}

fn assert_initialized(client: &Client, report: &Value) {
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

/// Asserts that each result equals that of the server itself, and has the expected content.
pub(crate) fn assert_same_results(calls: &[ServerCall], proxied: &[Value], direct: &Value) {
    for (n, (call, result)) in calls.iter().zip(proxied).enumerate() {
        assert_eq!(*result, direct["results"][n], "{} through dynamic-mcp and directly", call.tool);
        assert_eq!(result["isError"], call.is_error, "{}: {result}", call.tool);
        let content = result["content"].to_string();
        assert!(content.contains(call.expected), "{}: {content}", call.tool);
    }
}

/// Checks the results of our own tools.
fn assert_own_results(server: &ReferenceServer, results: &[Value], direct: &Value) {
    let [described, read, refused, no_tool, no_group, no_meta_tool, status] = results else {
        panic!("{results:?}")
    };
    let definitions = text_of(described, false);
    for tool in direct["tools"].as_array().unwrap() {
        assert!(definitions.contains(&format!("\"name\":{tool}")), "no {tool} in {definitions}");
    }
    assert_eq!(*read, direct["results"][0]);
    let refusal = match server.writing_tool {
        Some(tool) => [tool, "is not marked as read-only, so it was not called"],
        None => ["no_such_tool", "has no tool"],
    };
    for (result, parts) in [
        (refused, refusal),
        (no_tool, ["no_such_tool", "has no tool"]),
        (no_group, ["no_such_group", "There is no group"]),
    ] {
        let text = text_of(result, true);
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
    }
    let (code, message) =
        (&no_meta_tool["error"]["code"], no_meta_tool["error"]["message"].as_str().unwrap());
    assert!(*code == -32602 && message.contains("no_such_meta_tool"), "{no_meta_tool}");
    for group in status["structuredContent"]["groups"].as_array().unwrap() {
        let is_used = group["group"] == server.group;
        assert_eq!(group["state"] == "connected", is_used, "only the used group is started: {group}");
    }
}

/// The text of a result. Asserts whether it is an error.
fn text_of(result: &Value, is_error: bool) -> &str {
    assert_eq!(result["isError"], is_error, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}
