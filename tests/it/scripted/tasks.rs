//! Its tasks, of revision 2025-11-25 and of the extension.

use serde_json::{Value, json};

use super::ScriptedUpstream;
use super::eras::stateless_params;

/// Calls `task_optional`, or with these `members` of the params.
fn call_tool(server: &mut ScriptedUpstream, members: Value) -> Value {
    let mut params = json!({"name": "task_optional"});
    params.as_object_mut().unwrap().append(&mut members.as_object().unwrap().clone());
    server.request("tools/call", params)
}

/// The next message with an id. The statuses that notifications report before it go into `statuses`.
fn next_with_id(server: &mut ScriptedUpstream, statuses: &mut Vec<String>) -> Value {
    loop {
        let message = server.next_message();
        if message.get("id").is_some() {
            return message;
        }
        statuses.push(message["params"]["status"].as_str().unwrap().to_owned());
    }
}

#[test]
fn tasks_of_a_handshake_revision_are_created_listed_and_finished() {
    let mut server = ScriptedUpstream::start(&["--tasks", "--same-task-ids", "--page", "30"]);
    let initialized = server.request("initialize", json!({}));
    assert!(initialized["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object());
    for (name, task, is_refused) in [
        ("task_required", None, true),
        ("task_optional", None, false),
        ("task_forbidden", None, false),
        ("task_forbidden", Some(json!({})), true),
        ("echo", Some(json!({})), true),
    ] {
        let members = task.map_or(json!({"name": name}), |task| json!({"name": name, "task": task}));
        let answer = call_tool(&mut server, members);
        assert_eq!(answer["error"]["code"] == -32601, is_refused, "{name}: {answer}");
    }
    let created = call_tool(&mut server, json!({"task": {"ttl": 60}, "arguments": {"hold": true}}));
    let task = &created["result"]["task"];
    assert_eq!(
        (&task["taskId"], &task["status"], &task["ttl"]),
        (&json!("task/ö 0"), &json!("working"), &json!(60))
    );
    let got = server.request("tasks/get", json!({"taskId": "task/ö 0"}));
    assert_eq!(got["result"]["status"], "working");
    server.send(r#"{"jsonrpc":"2.0","id":"r","method":"tasks/result","params":{"taskId":"task/ö 0"}}"#);
    assert_eq!(server.request("tasks/list", json!({}))["result"]["tasks"].as_array().unwrap().len(), 1);
    let mut statuses = Vec::new();
    server.send(r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"release"}}"#);
    let mut responses = [next_with_id(&mut server, &mut statuses), next_with_id(&mut server, &mut statuses)];
    responses.sort_by_key(|answer| answer["id"].to_string());
    let related = &responses[0]["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, "task/ö 0", "{responses:?}");
    assert_eq!(statuses, ["completed"]);
    for params in [json!({"taskId": "task/ö 0"}), json!({"taskId": "nothing"}), json!({})] {
        assert_eq!(server.request("tasks/cancel", params)["error"]["code"], -32602);
    }
}

#[test]
fn a_task_can_request_input_fail_or_be_cancelled() {
    let mut server = ScriptedUpstream::start(&["--tasks"]);
    let created = call_tool(&mut server, json!({"task": {}, "arguments": {"ask": "elicitation"}}));
    let id = created["result"]["task"]["taskId"].clone();
    let mut statuses = Vec::new();
    let request = next_with_id(&mut server, &mut statuses);
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    server.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}}).to_string());
    server.send(
        &json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": id}}).to_string(),
    );
    let result = next_with_id(&mut server, &mut statuses);
    assert!(result["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{result}");
    assert_eq!(statuses, ["input_required", "working", "completed"]);

    let created = call_tool(&mut server, json!({"task": {}, "arguments": {"outcome": "error"}}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": created["result"]["task"]})
            .to_string(),
    );
    let mut statuses = Vec::new();
    assert_eq!(next_with_id(&mut server, &mut statuses)["error"]["code"], 123_456_789_012_i64);
    assert_eq!(statuses, ["failed"]);

    let created = call_tool(&mut server, json!({"task": {}, "arguments": {"hold": true}}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "c", "method": "tasks/cancel", "params": created["result"]["task"]})
            .to_string(),
    );
    assert_eq!(next_with_id(&mut server, &mut Vec::new())["result"]["status"], "cancelled");
}

#[test]
fn tasks_of_the_extension_request_input_and_finish() {
    let mut server = ScriptedUpstream::start(&["--tasks", "--stateless"]);
    let discovered = server.request("server/discover", stateless_params(json!({}), json!({})));
    assert!(discovered["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    let required =
        server.request("tools/call", stateless_params(json!({}), json!({"name": "task_required"})));
    assert_eq!(required["error"]["code"], -32021);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    let arguments = json!({"ask": "elicitation"});
    let created = server.request(
        "tools/call",
        stateless_params(capabilities.clone(), json!({"name": "task_required", "arguments": arguments})),
    );
    let task = created["result"].clone();
    assert_eq!((&task["resultType"], &task["ttlMs"]), (&json!("task"), &json!(null)));
    let mut request = |method: &str, members: Value| {
        let mut params = stateless_params(capabilities.clone(), json!({"taskId": task["taskId"]}));
        params.as_object_mut().unwrap().append(&mut members.as_object().unwrap().clone());
        server.request(method, params)["result"].take()
    };
    let wait_for = |request: &mut dyn FnMut(&str, Value) -> Value, status: &str| loop {
        let task = request("tasks/get", json!({}));
        if task["status"] == status {
            return task;
        }
        assert!(["working", "input_required"].contains(&task["status"].as_str().unwrap()), "{task}");
    };
    let waiting = wait_for(&mut request, "input_required");
    let (key, _) = waiting["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        request("tasks/update", json!({"inputResponses": {key: {"action": "decline"}}}))["resultType"],
        "complete"
    );
    let done = wait_for(&mut request, "completed");
    assert_eq!(done["resultType"], "complete");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{done}");
    assert_eq!(request("tasks/cancel", json!({}))["resultType"], "complete");
}
