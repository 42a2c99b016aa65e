//! `tools/list` with the default surface, and `get_status`: neither waits for an upstream.

use serde_json::json;

use crate::support::{
    Message, Proxy, ProxyCommand, config_of, merged, pure_config, scripted_config, scripted_upstream,
};

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

#[test]
fn a_list_in_another_order_at_each_start_keeps_its_bytes() {
    let first = r#"{"name":"alpha","inputSchema":{"type":"object","properties":{"a":{"enum":["p","q"]},"b":{}}}},{"name":"zeta","inputSchema":{}}"#;
    let second = r#"{"inputSchema":{},"name":"zeta"},{"name":"alpha","inputSchema":{"properties":{"b":{},"a":{"enum":["q","p"]}},"type":"object"}}"#;
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("tools");
    std::fs::write(&file, first).unwrap();
    let entry =
        merged(scripted_upstream(&["--definitions-file", file.to_str().unwrap()]), json!({"cwd": "/"}));
    let config = config_of([("g", entry)]);
    for surface in ["flat", "meta"] {
        let start = || {
            let cache = dir.path().join(surface);
            let command = ProxyCommand::new().args(&["--surface", surface, "--first-list-wait", "10s"]);
            command.env("XDG_CACHE_HOME", cache.to_str().unwrap()).config(&config).start_initialized()
        };
        std::fs::write(&file, first).unwrap();
        let mut proxy = start();
        let known = tool_list(&mut proxy);
        assert!(known.contains("zeta"), "{known}");
        std::fs::write(&file, second).unwrap();
        proxy.call_text("g", "alpha", json!({"a": "p"}));
        proxy.call_failure("g", "crash", json!({}));
        proxy.call_text("g", "alpha", json!({"a": "p"}));
        let shown = proxy.get_dynamic_tools(json!({"group": "g", "tools": ["alpha"]}));
        assert!(shown.contains(r#""enum":["q","p"]"#), "the definition is the live one: {shown}");
        assert_eq!(tool_list(&mut proxy), known);
        proxy.assert_no_message();
        proxy.close_stdin();
        proxy.wait_for_exit();
        // Nor does the next process know another order.
        assert_eq!(tool_list(&mut start()), known);
        std::fs::write(&file, second.replace(r#""b":{}"#, r#""b":{"type":"string"}"#)).unwrap();
        let mut proxy = start();
        proxy.call_text("g", "alpha", json!({"a": "p"}));
        if surface == "flat" {
            proxy.wait_for_message("notifications/tools/list_changed");
            assert_ne!(tool_list(&mut proxy), known);
        }
    }
}

#[test]
fn tools_that_a_server_adds_after_the_handshake_are_listed_and_called() {
    let config = config_of([("g", scripted_upstream(&["--late-tool", "50"]))]);
    let mut proxy = Proxy::new(&config);
    proxy.wait_for_state("g", "discovered");
    assert!(tool_list(&mut proxy).contains("added_0"));
    assert_eq!(proxy.call_text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
    // It is called before the server has added it.
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&["--late-tool", "300"]))]));
    assert_eq!(proxy.call_text("g", "added_0", json!({"x": 1})), r#"{"x":1}"#);
}

#[test]
fn the_instructions_of_the_flat_surface_name_what_is_listed_and_say_what_servers_say() {
    let dir = tempfile::TempDir::new().unwrap();
    let entry = |flags: &[&str]| merged(scripted_upstream(flags), json!({"cwd": "/"}));
    let config = config_of([
        ("docs", entry(&["--instructions", "Read first.\nThen write."])),
        ("long", entry(&["--instructions", &"word ".repeat(1000)])),
        ("mute", entry(&[])),
    ]);
    let start = || {
        let command = ProxyCommand::new().args(&["--surface", "flat", "--first-list-wait", "10s"]);
        command.env("XDG_CACHE_HOME", dir.path().to_str().unwrap()).config(&config).start()
    };
    let instructions =
        |proxy: &mut Proxy| proxy.handshake()["result"]["instructions"].as_str().unwrap().to_owned();
    let mut proxy = start();
    let first = instructions(&mut proxy);
    assert!(first.contains("search_dynamic_tools finds those that are not listed"), "{first}");
    tool_list(&mut proxy);
    proxy.close_stdin();
    proxy.wait_for_exit();
    let known = instructions(&mut start());
    let begin = "The tools of these MCP servers (groups) are listed as GROUP__TOOL: docs, long, mute.\n\
                 docs says:\n> Read first.\n> Then write.\nlong says:\n> word word";
    assert!(known.starts_with(begin), "{known}");
    assert!(known.chars().count() <= 2000 && !known.contains("dynamic_tool"), "{known}");
}
