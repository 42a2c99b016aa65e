//! A tool that must be called as a task, of the reference server: whoever calls it through dynamic-mcp need not know.

use serde_json::{Value, json};

use crate::pairs::{PY_V2_PROBING, TS_V1, run, tool_call};
use crate::scratch::Scratch;
use crate::servers;

#[test]
fn a_tool_that_must_be_a_task_is_called_as_one() {
    let Some(scratch) = Scratch::new() else { return };
    let everything = servers::all(&scratch).into_iter().find(|server| server.group == "everything").unwrap();
    let research = |args: Value| {
        let arguments = json!({ "group": "everything", "name": "simulate-research-query", "args": args });
        tool_call("call_dynamic_tool", &arguments)
    };
    // The second one asks what is meant.
    let plan =
        [research(json!({ "topic": "rust" })), research(json!({ "topic": "rust", "ambiguous": true }))];
    for client in [&TS_V1, &PY_V2_PROBING] {
        let proxy = scratch.proxy(&[("everything", everything.command.clone())]);
        let report = run(&scratch, client, client.mode, &proxy, &plan);
        for (result, heading) in report["results"].as_array().unwrap().iter().zip(["rust\n", "rust ("]) {
            assert_eq!(result["isError"], false, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with(&format!("# Research Report: {heading}")), "{text}");
        }
        assert!(report["results"][1].to_string().contains("User accepted"), "{report}");
    }
    scratch.assert_nothing_is_left();
}
