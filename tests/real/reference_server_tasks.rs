//! A tool of a reference server that must be called as a task: clients call it through dynamic-mcp like any other tool.

use serde_json::json;

use crate::clients::{PY_V2_PROBING, TS_V1, proxied_call, run_calls};
use crate::reference_servers;
use crate::workspace::Workspace;

#[test]
fn a_plain_call_of_a_tool_that_requires_a_task_returns_its_result() {
    let Some(workspace) = Workspace::new() else { return };
    let servers = reference_servers::all(&workspace);
    let everything = servers.into_iter().find(|server| server.group == "everything").unwrap();
    let research = |args| proxied_call("everything", "simulate-research-query", &args);
    // The second call elicits a choice from the user.
    let plan =
        [research(json!({ "topic": "rust" })), research(json!({ "topic": "rust", "ambiguous": true }))];
    for client in [&TS_V1, &PY_V2_PROBING] {
        let proxy = workspace.proxy_for_commands(&[("everything", everything.command.clone())]);
        let report = run_calls(&workspace, client, client.mode, &proxy, &plan);
        for (result, heading) in report["results"].as_array().unwrap().iter().zip(["rust\n", "rust ("]) {
            assert_eq!(result["isError"], false, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with(&format!("# Research Report: {heading}")), "{text}");
        }
        assert!(report["results"][1].to_string().contains("User accepted"), "{report}");
    }
    workspace.assert_no_process_left();
}
