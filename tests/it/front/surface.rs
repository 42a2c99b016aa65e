//! `tools/list` and `get_status`, which come from the config and never from an upstream.

use serde_json::json;

use crate::support::{Message, Proxy, one, servers, upstream, with};

fn list(proxy: &mut Proxy) -> String {
    let id = proxy.send("tools/list", json!({}));
    let Message { line, .. } = proxy.answer(id);
    line.replace(&format!("\"id\":{id}"), "")
}

#[test]
fn the_list_has_the_same_bytes_whatever_happens() {
    let config = servers([
        ("g", with(upstream(&["--list-changed-on-call"]), json!({"description": "Says it back."}))),
        ("broken", upstream(&["--crash-at-start", "no"])),
    ]);
    let mut proxy = Proxy::new(&config);
    let first = list(&mut proxy);
    assert!(first.contains("Says it back."), "{first}");
    assert_eq!(list(&mut proxy), first);
    proxy.text("g", "echo", json!({"text": "x"}));
    proxy.failure("broken", "echo", json!({}));
    proxy.tools(json!({"group": "g"}));
    assert_eq!(list(&mut proxy), first, "after use and failure");
    assert_eq!(list(&mut Proxy::new(&config)), first, "in another process");
}

#[test]
fn the_list_has_our_tools_and_names_the_groups_once() {
    let mut proxy = Proxy::new(&servers([("files", upstream(&[])), ("time", upstream(&[]))]));
    let answer = proxy.ask("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "get_dynamic_tools",
            "call_dynamic_tool",
            "call_dynamic_tool_readonly",
            "search_dynamic_tools",
            "get_status"
        ]
    );
    assert_eq!(tools[0]["inputSchema"]["properties"]["group"]["enum"], json!(["files", "time"]));
    for tool in tools {
        assert!(tool["title"].is_string() && tool["annotations"].is_object(), "{tool}");
        assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true);
        let calls = tool["name"].as_str().unwrap().starts_with("call_");
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"].is_u64(), calls, "{tool}");
        jsonschema::meta::validate(&tool["inputSchema"]).unwrap();
    }
    assert_eq!((&answer["result"]["nextCursor"], proxy.status()["ready"].as_u64()), (&json!(null), Some(0)));
}

#[test]
fn get_status_starts_nothing_and_follows_the_group() {
    let mut proxy = Proxy::new(&one(&["--name", "x"]));
    assert_eq!(proxy.group("g")["state"], "pending");
    proxy.text("g", "echo", json!({"text": "x"}));
    let group = proxy.group("G");
    assert_eq!(
        (&group["state"], &group["server"], &group["tools"]),
        (&json!("connected"), &json!("x"), &json!(21))
    );
    assert_eq!((&group["calls"], &group["error"]), (&json!(1), &json!(null)));
    assert_eq!((proxy.status()["ready"].as_u64(), proxy.status()["total"].as_u64()), (Some(1), Some(1)));
    let unknown = proxy.front("get_status", json!({"group": "h"}));
    assert_eq!(unknown["isError"], true);
    assert!(unknown.to_string().contains("The groups: g."), "{unknown}");
}
