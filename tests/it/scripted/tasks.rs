//! Its tasks, in both forms there are.

use serde_json::{Value, json};

use super::Scripted;

fn call(server: &mut Scripted, more: Value) -> Value {
    let mut params = json!({"name": "task_optional"});
    params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    server.ask("tools/call", params)
}

fn extended(capabilities: Value, more: Value) -> Value {
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    params
}

/// The next message that is an answer; what is told meanwhile has these statuses.
fn answer(server: &mut Scripted, told: &mut Vec<String>) -> Value {
    loop {
        let message = server.next();
        if message.get("id").is_some() {
            return message;
        }
        told.push(message["params"]["status"].as_str().unwrap().to_owned());
    }
}

#[test]
fn a_task_of_a_handshake_revision() {
    let mut server = Scripted::start(&["--tasks", "--same-task-ids", "--page", "30"]);
    let greeting = server.ask("initialize", json!({}));
    assert!(greeting["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object());
    for (name, task, is_refused) in [
        ("task_required", None, true),
        ("task_optional", None, false),
        ("task_forbidden", None, false),
        ("task_forbidden", Some(json!({})), true),
        ("echo", Some(json!({})), true),
    ] {
        let more = task.map_or(json!({"name": name}), |task| json!({"name": name, "task": task}));
        let answer = call(&mut server, more);
        assert_eq!(answer["error"]["code"] == -32601, is_refused, "{name}: {answer}");
    }
    let created = call(&mut server, json!({"task": {"ttl": 60}, "arguments": {"hold": true}}));
    let task = &created["result"]["task"];
    assert_eq!(
        (&task["taskId"], &task["status"], &task["ttl"]),
        (&json!("task/ö 0"), &json!("working"), &json!(60))
    );
    let got = server.ask("tasks/get", json!({"taskId": "task/ö 0"}));
    assert_eq!(got["result"]["status"], "working");
    server.send(r#"{"jsonrpc":"2.0","id":"r","method":"tasks/result","params":{"taskId":"task/ö 0"}}"#);
    assert_eq!(server.ask("tasks/list", json!({}))["result"]["tasks"].as_array().unwrap().len(), 1);
    let mut told = Vec::new();
    server.send(r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"release"}}"#);
    let mut ids = [answer(&mut server, &mut told), answer(&mut server, &mut told)];
    ids.sort_by_key(|answer| answer["id"].to_string());
    let related = &ids[0]["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, "task/ö 0", "{ids:?}");
    assert_eq!(told, ["completed"]);
    for params in [json!({"taskId": "task/ö 0"}), json!({"taskId": "nothing"}), json!({})] {
        assert_eq!(server.ask("tasks/cancel", params)["error"]["code"], -32602);
    }
}

#[test]
fn a_task_that_asks_or_fails_or_is_cancelled() {
    let mut server = Scripted::start(&["--tasks"]);
    let created = call(&mut server, json!({"task": {}, "arguments": {"ask": "elicitation"}}));
    let id = created["result"]["task"]["taskId"].clone();
    let mut told = Vec::new();
    let asked = answer(&mut server, &mut told);
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}).to_string());
    server.send(
        &json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": {"taskId": id}}).to_string(),
    );
    let result = answer(&mut server, &mut told);
    assert!(result["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{result}");
    assert_eq!(told, ["input_required", "working", "completed"]);

    let created = call(&mut server, json!({"task": {}, "arguments": {"outcome": "error"}}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": created["result"]["task"]})
            .to_string(),
    );
    let mut told = Vec::new();
    assert_eq!(answer(&mut server, &mut told)["error"]["code"], 123_456_789_012_i64);
    assert_eq!(told, ["failed"]);

    let created = call(&mut server, json!({"task": {}, "arguments": {"hold": true}}));
    server.send(
        &json!({"jsonrpc": "2.0", "id": "c", "method": "tasks/cancel", "params": created["result"]["task"]})
            .to_string(),
    );
    assert_eq!(answer(&mut server, &mut Vec::new())["result"]["status"], "cancelled");
}

#[test]
fn a_task_of_the_extension() {
    let mut server = Scripted::start(&["--tasks", "--stateless"]);
    let found = server.ask("server/discover", extended(json!({}), json!({})));
    assert!(found["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    let required = server.ask("tools/call", extended(json!({}), json!({"name": "task_required"})));
    assert_eq!(required["error"]["code"], -32021);
    let able = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
    let arguments = json!({"ask": "elicitation"});
    let created = server
        .ask("tools/call", extended(able.clone(), json!({"name": "task_required", "arguments": arguments})));
    let task = created["result"].clone();
    assert_eq!((&task["resultType"], &task["ttlMs"]), (&json!("task"), &json!(null)));
    let mut state = |method: &str, more: Value| {
        let mut params = extended(able.clone(), json!({"taskId": task["taskId"]}));
        params.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
        server.ask(method, params)["result"].take()
    };
    let until = |state: &mut dyn FnMut(&str, Value) -> Value, wanted: &str| loop {
        let now = state("tasks/get", json!({}));
        if now["status"] == wanted {
            return now;
        }
        assert!(["working", "input_required"].contains(&now["status"].as_str().unwrap()), "{now}");
    };
    let waits = until(&mut state, "input_required");
    let (key, _) = waits["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        state("tasks/update", json!({"inputResponses": {key: {"action": "decline"}}}))["resultType"],
        "complete"
    );
    let done = until(&mut state, "completed");
    assert_eq!(done["resultType"], "complete");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{done}");
    assert_eq!(state("tasks/cancel", json!({}))["resultType"], "complete");
}
