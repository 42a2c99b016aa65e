//! `tools/list` with the default surface, and `get_status`: neither waits for an upstream.

use serde_json::json;

use crate::support::{Message, Proxy, merged, pure_config, scripted_config, scripted_upstream};

/// The bytes of the response to `tools/list`, without its id.
fn tool_list(proxy: &mut Proxy) -> String {
    let id = proxy.send_request("tools/list", json!({}));
    let Message { line, .. } = proxy.response(id);
    line.replace(&format!("\"id\":{id}"), "")
}

#[test]
fn the_list_has_the_same_bytes_before_and_after_use_and_in_another_process() {
    let config = pure_config([
        (
            "g",
            merged(scripted_upstream(&["--list-changed-on-call"]), json!({"description": "Says it back."})),
        ),
        ("broken", scripted_upstream(&["--crash-at-start", "no"])),
    ]);
    let mut proxy = Proxy::new(&config);
    let first = tool_list(&mut proxy);
    assert!(first.contains("Says it back."), "{first}");
    assert_eq!(tool_list(&mut proxy), first);
    proxy.call_text("g", "echo", json!({"text": "x"}));
    proxy.call_failure("broken", "echo", json!({}));
    proxy.get_dynamic_tools(json!({"group": "g"}));
    assert_eq!(tool_list(&mut proxy), first, "after use and failure");
    assert_eq!(tool_list(&mut Proxy::new(&config)), first, "in another process");
}

#[test]
fn the_list_has_our_tools_and_names_the_groups_once() {
    let mut proxy =
        Proxy::new(&pure_config([("files", scripted_upstream(&[])), ("time", scripted_upstream(&[]))]));
    let response = proxy.request("tools/list", json!({}));
    let tools = response["result"]["tools"].as_array().unwrap();
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
    assert_eq!(
        (&response["result"]["nextCursor"], proxy.status()["ready"].as_u64()),
        (&json!(null), Some(0))
    );
}

#[test]
fn get_status_starts_no_group_and_reports_its_state() {
    let mut proxy = Proxy::new(&scripted_config(&["--name", "x"]));
    assert_eq!(proxy.group_status("g")["state"], "pending");
    proxy.call_text("g", "echo", json!({"text": "x"}));
    let group = proxy.group_status("G");
    assert_eq!(
        (&group["state"], &group["server"], &group["tools"]),
        (&json!("connected"), &json!("x"), &json!(21))
    );
    assert_eq!((&group["calls"], &group["error"]), (&json!(1), &json!(null)));
    assert_eq!((proxy.status()["ready"].as_u64(), proxy.status()["total"].as_u64()), (Some(1), Some(1)));
    let unknown = proxy.call_meta_tool("get_status", json!({"group": "h"}));
    assert_eq!(unknown["isError"], true);
    assert!(unknown.to_string().contains(r#"The groups: \"g\"."#), "{unknown}");
}
