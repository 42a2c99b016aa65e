//! Tasks of 2025-11-25: their ids are the upstream's at its end, and unique at the client's.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Record, a_second, client, closing_soon, heard, reply, until_state};
use crate::support::{Proxy, servers, upstream};

/// Two groups whose tasks have the same ids.
fn session(more: &[&str]) -> Proxy {
    let entry = upstream(&[&["--protocol", "--tasks", "--same-task-ids"], more].concat());
    let capabilities = json!({"elicitation": {}, "tasks": {"list": {}, "cancel": {}}});
    let mut proxy = client(&servers([("g", entry.clone()), ("h", entry)]), capabilities);
    ["g", "h"].into_iter().for_each(|group| _ = proxy.upstream_pid(group));
    proxy
}

/// A task, as the client hears of it.
fn create(proxy: &mut Proxy, group: &str, args: Value) -> Value {
    let arguments = json!({"group": group, "name": "task_optional", "args": args});
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments, "task": {"ttl": 60_000}});
    let answer = proxy.ask("tools/call", params);
    assert!(answer["result"]["task"]["taskId"].is_string(), "{answer}");
    answer["result"]["task"].clone()
}

fn of(proxy: &mut Proxy, method: &str, task: &Value) -> Value {
    proxy.ask(method, json!({"taskId": task["taskId"]}))
}

#[test]
fn tasks_of_two_groups_under_the_same_id_are_two() {
    let mut proxy = session(&[]);
    let tasks = ["g", "h"].map(|group| create(&mut proxy, group, json!({"of": group})));
    assert_ne!(tasks[0]["taskId"], tasks[1]["taskId"]);
    for (task, group) in tasks.iter().zip(["g", "h"]) {
        let result = of(&mut proxy, "tasks/result", task)["result"].take();
        assert_eq!(result["content"][0]["text"], json!({"of": group}).to_string(), "{result}");
        let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        assert_eq!(*related, task["taskId"], "the id that the client knows");
        let got = of(&mut proxy, "tasks/get", task)["result"].take();
        assert_eq!((&got["taskId"], &got["status"]), (&task["taskId"], &json!("completed")));
        assert_eq!(got["x-unknown"]["exact"], json!(1.10), "what nobody knows passes");
    }
    for task in [json!({"taskId": "nothing"}), json!({"taskId": 3}), json!({})] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(of(&mut proxy, method, &task)["error"]["code"], -32602, "{method} {task}");
        }
    }
}

#[test]
fn a_list_of_tasks_has_those_of_all_groups() {
    let mut proxy = session(&["--page", "30"]);
    let created: BTreeSet<_> =
        ["g", "h", "g", "h"].map(|group| create(&mut proxy, group, json!({}))["taskId"].to_string()).into();
    assert_eq!(created.len(), 4);
    let (mut listed, mut cursor) = (BTreeSet::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let result = proxy.ask("tasks/list", params)["result"].take();
        listed.extend(result["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].to_string()));
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(listed, created);
}

#[test]
fn a_task_is_cancelled_and_the_other_is_not() {
    let mut proxy = session(&[]);
    let [cancelled, kept] = ["g", "h"].map(|group| create(&mut proxy, group, json!({"hold": true})));
    let waits = proxy.send("tasks/result", json!({"taskId": kept["taskId"]}));
    assert_eq!(of(&mut proxy, "tasks/cancel", &cancelled)["result"]["status"], "cancelled");
    assert_eq!(of(&mut proxy, "tasks/cancel", &cancelled)["error"]["code"], -32602, "it has ended");
    assert_eq!(of(&mut proxy, "tasks/get", &kept)["result"]["status"], "working");
    proxy.text("h", "release", json!({}));
    assert_eq!(proxy.answer(waits).json()["result"]["isError"], false);
}

#[test]
fn how_a_task_goes_on_is_told_under_the_id_that_the_client_knows() {
    let mut proxy = session(&[]);
    // The second group's: it is not what its upstream calls it.
    create(&mut proxy, "g", json!({"hold": true}));
    let task = create(&mut proxy, "h", json!({"ask": "elicitation"}));
    let asked = heard(&mut proxy, "elicitation/create");
    let related = &asked.json()["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, task["taskId"]);
    assert_eq!(of(&mut proxy, "tasks/get", &task)["result"]["status"], "input_required");
    reply(&mut proxy, &asked, r#""result":{"action":"accept","content":{"name":"Ada"}}"#);
    loop {
        let told = heard(&mut proxy, "notifications/tasks/status").json();
        assert_eq!(told["params"]["taskId"], task["taskId"], "{told}");
        if told["params"]["status"] == "completed" {
            break;
        }
    }
    let result = of(&mut proxy, "tasks/result", &task);
    assert!(result["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{result}");
}

#[test]
fn a_plain_call_of_a_tool_that_must_be_a_task_has_its_result() {
    let mut proxy = session(&[]);
    for tool in ["task_required", "task_optional", "task_forbidden"] {
        assert_eq!(proxy.text("g", tool, json!({"n": 1})), r#"{"n":1}"#, "{tool}");
    }
    let id = proxy.send_call("g", "task_required", json!({"outcome": "error"}));
    let answer = proxy.answer(id).json();
    assert!(answer.to_string().contains("luck"), "{answer}");
}

#[test]
fn a_result_that_is_an_error_ends_a_task_too() {
    let entry = upstream(&["--protocol", "--tasks"]);
    let mut proxy = client(&closing_soon(entry), json!({}));
    let task = create(&mut proxy, "g", json!({"hold": true}));
    a_second(&mut proxy, "clock");
    assert_eq!(proxy.group("g")["state"], "connected", "kept for the task");
    let error = json!({"code": -7, "message": "it failed"});
    let result = proxy.ask("tasks/result", json!({"taskId": task["taskId"], "x-error": error}));
    assert_eq!(result["error"], error);
    until_state(&mut proxy, "g", "discovered");
}

#[test]
fn what_changes_a_task_is_not_repeated_when_the_connection_breaks() {
    let record = Record::new();
    let entry = record.of(upstream(&["--protocol", "--tasks"]));
    let mut proxy = client(&servers([("g", entry)]), json!({}));
    let task = create(&mut proxy, "g", json!({"hold": true}));
    for (method, times) in [("tasks/get", 2), ("tasks/cancel", 1)] {
        let answer = proxy.ask(method, json!({"taskId": task["taskId"], "x-exit": true}));
        assert_eq!(answer["error"]["code"], -31003, "{answer}");
        assert_eq!(record.lines(method).len(), times, "{method}");
    }
}

#[test]
fn a_task_ends_when_its_server_says_so() {
    let entry = upstream(&["--protocol", "--tasks"]);
    let mut proxy = client(&closing_soon(entry), json!({}));
    create(&mut proxy, "g", json!({"hold": true}));
    a_second(&mut proxy, "clock");
    assert_eq!(proxy.group("g")["state"], "connected", "kept for the task");
    proxy.text("g", "release", json!({}));
    until_state(&mut proxy, "g", "discovered");
}
