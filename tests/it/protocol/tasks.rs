//! Tasks of revision 2025-11-25: the client gets unique ids, the upstream keeps its own, and an open task keeps its group
//! connected.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::short_idle_config;
use crate::support::{InputRecord, Proxy, pure_config, scripted_upstream};

/// A session with two groups whose tasks have the same ids.
fn proxy_with_tasks(flags: &[&str]) -> Proxy {
    let entry = scripted_upstream(&[&["--protocol", "--tasks", "--same-task-ids"], flags].concat());
    let capabilities = json!({"elicitation": {}, "tasks": {"list": {}, "cancel": {}}});
    let mut proxy =
        Proxy::with_capabilities(&pure_config([("g", entry.clone()), ("h", entry)]), capabilities);
    proxy.connect(["g", "h"]);
    proxy
}

/// Makes a call as a task, and returns the task with the id that the client gets.
fn create_task(proxy: &mut Proxy, group: &str, args: Value) -> Value {
    let arguments = json!({"group": group, "name": "task_optional", "args": args});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "task": {"ttl": 60_000}});
    let response = proxy.request("tools/call", params);
    assert!(response["result"]["task"]["taskId"].is_string(), "{response}");
    response["result"]["task"].clone()
}

/// Sends a request about a task and returns the response.
fn task_request(proxy: &mut Proxy, method: &str, task: &Value) -> Value {
    proxy.request(method, json!({"taskId": task["taskId"]}))
}

#[test]
fn tasks_of_two_groups_with_the_same_id_are_distinguished() {
    let mut proxy = proxy_with_tasks(&[]);
    let tasks = ["g", "h"].map(|group| create_task(&mut proxy, group, json!({"of": group})));
    assert_ne!(tasks[0]["taskId"], tasks[1]["taskId"]);
    for (task, group) in tasks.iter().zip(["g", "h"]) {
        let result = task_request(&mut proxy, "tasks/result", task)["result"].take();
        assert_eq!(result["content"][0]["text"], json!({"of": group}).to_string(), "{result}");
        let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        assert_eq!(*related, task["taskId"], "the id that the client got");
        let status = task_request(&mut proxy, "tasks/get", task)["result"].take();
        assert_eq!((&status["taskId"], &status["status"]), (&task["taskId"], &json!("completed")));
        assert_eq!(status["x-unknown"]["exact"], json!(1.10), "unknown members pass");
    }
    for task in [json!({"taskId": "nothing"}), json!({"taskId": 3}), json!({})] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(task_request(&mut proxy, method, &task)["error"]["code"], -32602, "{method} {task}");
        }
    }
}

#[test]
fn the_list_of_tasks_has_those_of_all_groups() {
    let mut proxy = proxy_with_tasks(&["--page", "30"]);
    let created: BTreeSet<_> = ["g", "h", "g", "h"]
        .map(|group| create_task(&mut proxy, group, json!({}))["taskId"].to_string())
        .into();
    assert_eq!(created.len(), 4);
    let (mut listed, mut cursor) = (BTreeSet::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let result = proxy.request("tasks/list", params)["result"].take();
        listed.extend(result["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].to_string()));
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(listed, created);
}

#[test]
fn a_task_that_is_created_after_its_call_was_cancelled_is_cancelled() {
    let record = InputRecord::new();
    let definition = r#"{"name":"write","inputSchema":{"type":"object"}}"#;
    let entry = record.attached_to(scripted_upstream(&["--definitions", definition]));
    let mut proxy = Proxy::new(&pure_config([("g", entry)]));
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":"t\u00e9-1","status":"working"}}}"#;
    // The answer comes after the cancellation, as a call of another tool decides.
    let parts = json!([" ", format!("{answer}\n")]);
    let arguments = json!({"group": "g", "name": "write", "args": {"parts": parts, "pause_ms": 700}});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "task": {}});
    let id = proxy.send_request("tools/call", params);
    record.wait_for("tools/call", 0);
    proxy.notify("notifications/cancelled", json!({"requestId": id}));
    record.wait_for("notifications/cancelled", 0);
    assert!(record.lines_of("tasks/cancel").is_empty(), "no task is known yet");
    let cancel = record.wait_for("tasks/cancel", 0);
    assert_eq!(cancel.raw("params"), Some(r#"{"taskId":"t\u00e9-1"}"#));
    // An answer that is no task, or to a call that was not cancelled, cancels nothing.
    proxy.call_text("g", "echo", json!({"text": "x"}));
    assert_eq!(record.lines_of("tasks/cancel").len(), 1);
}

#[test]
fn only_the_cancelled_task_ends() {
    let mut proxy = proxy_with_tasks(&[]);
    let [cancelled, kept] = ["g", "h"].map(|group| create_task(&mut proxy, group, json!({"hold": true})));
    let open_result = proxy.send_request("tasks/result", json!({"taskId": kept["taskId"]}));
    assert_eq!(task_request(&mut proxy, "tasks/cancel", &cancelled)["result"]["status"], "cancelled");
    assert_eq!(
        task_request(&mut proxy, "tasks/cancel", &cancelled)["error"]["code"],
        -32602,
        "the task has ended"
    );
    assert_eq!(task_request(&mut proxy, "tasks/get", &kept)["result"]["status"], "working");
    proxy.call_text("h", "release", json!({}));
    assert_eq!(proxy.response(open_result).json()["result"]["isError"], false);
}

#[test]
fn status_notifications_and_requests_have_the_task_id_that_the_client_got() {
    let mut proxy = proxy_with_tasks(&[]);
    // The task of the second group, whose id differs from that of its upstream.
    create_task(&mut proxy, "g", json!({"hold": true}));
    let task = create_task(&mut proxy, "h", json!({"ask": "elicitation"}));
    let request = proxy.wait_for_message("elicitation/create");
    let related = &request.json()["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, task["taskId"]);
    assert_eq!(task_request(&mut proxy, "tasks/get", &task)["result"]["status"], "input_required");
    proxy.respond(&request, r#""result":{"action":"accept","content":{"name":"Ada"}}"#);
    loop {
        let notification = proxy.wait_for_message("notifications/tasks/status").json();
        assert_eq!(notification["params"]["taskId"], task["taskId"], "{notification}");
        if notification["params"]["status"] == "completed" {
            break;
        }
    }
    let result = task_request(&mut proxy, "tasks/result", &task);
    assert!(result["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{result}");
}

#[test]
fn a_plain_call_of_a_tool_that_requires_a_task_returns_its_result() {
    let mut proxy = proxy_with_tasks(&[]);
    for tool in ["task_required", "task_optional", "task_forbidden"] {
        assert_eq!(proxy.call_text("g", tool, json!({"n": 1})), r#"{"n":1}"#, "{tool}");
    }
    let id = proxy.send_call("g", "task_required", json!({"outcome": "error"}));
    let response = proxy.response(id).json();
    assert!(response.to_string().contains("luck"), "{response}");
}

#[test]
fn an_error_as_the_result_ends_a_task() {
    let entry = scripted_upstream(&["--protocol", "--tasks"]);
    let mut proxy = Proxy::with_capabilities(&short_idle_config(entry), json!({}));
    let task = create_task(&mut proxy, "g", json!({"hold": true}));
    proxy.wait_one_second("clock");
    assert_eq!(proxy.group_status("g")["state"], "connected", "the task keeps its group connected");
    let error = json!({"code": -7, "message": "it failed"});
    let result = proxy.request("tasks/result", json!({"taskId": task["taskId"], "x-error": error}));
    assert_eq!(result["error"], error);
    proxy.wait_for_state("g", "discovered");
}

#[test]
fn only_read_only_task_requests_are_repeated_after_a_crash() {
    let record = InputRecord::new();
    let entry = record.attached_to(scripted_upstream(&["--protocol", "--tasks"]));
    let mut proxy = Proxy::with_capabilities(&pure_config([("g", entry)]), json!({}));
    let task = create_task(&mut proxy, "g", json!({"hold": true}));
    for (method, times) in [("tasks/get", 2), ("tasks/cancel", 1)] {
        let response = proxy.request(method, json!({"taskId": task["taskId"], "x-exit": true}));
        assert_eq!(response["error"]["code"], -31003, "{response}");
        assert_eq!(record.lines_of(method).len(), times, "{method}");
    }
}

#[test]
fn a_task_ends_with_the_status_notification_of_its_server() {
    let entry = scripted_upstream(&["--protocol", "--tasks"]);
    let mut proxy = Proxy::with_capabilities(&short_idle_config(entry), json!({}));
    create_task(&mut proxy, "g", json!({"hold": true}));
    proxy.wait_one_second("clock");
    assert_eq!(proxy.group_status("g")["state"], "connected", "the task keeps its group connected");
    proxy.call_text("g", "release", json!({}));
    proxy.wait_for_state("g", "discovered");
}
