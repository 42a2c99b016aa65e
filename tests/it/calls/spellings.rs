//! Names of groups and tools as models spell them.

use serde_json::{Value, json};

use crate::support::{Proxy, config_of, merged, scripted_upstream, text_of};

/// Tools with names that are alike.
const ALIKE: &str = r#"{"name":"added_get-sum","inputSchema":{"type":"object"}},{"name":"added_a_twin","inputSchema":{"type":"object"}},{"name":"added_a-twin","inputSchema":{"type":"object"}},{"name":"added_x hidden","inputSchema":{"type":"object"}},{"name":"added_x.dotted","inputSchema":{"type":"object"}}"#;

/// A session with the groups `fs`, which has those tools, and `my.mail`, whose tools are known too.
fn proxy() -> Proxy {
    let alike = merged(
        scripted_upstream(&["--definitions", ALIKE]),
        json!({"tools": {"deny": ["added_x hidden"]}, "description": "Files."}),
    );
    let config = config_of([("fs", alike), ("my.mail", scripted_upstream(&[]))]);
    let mut proxy = Proxy::new(&config);
    for group in ["fs", "my.mail"] {
        proxy.request(
            "tools/call",
            json!({"name": "get_dynamic_tools", "arguments": {"group": group, "lazy": true}}),
        );
    }
    proxy
}

/// Calls `call_dynamic_tool` with these arguments, and returns the result.
fn call(proxy: &mut Proxy, arguments: Value) -> Value {
    let params = json!({"name": "call_dynamic_tool", "arguments": arguments});
    proxy.request("tools/call", params)["result"].take()
}

#[test]
fn names_as_texts_show_them_and_with_other_separators_are_understood() {
    let mut proxy = proxy();
    for name in [
        "fs / added_get-sum",
        "fs/added_get-sum",
        "fs.added_get-sum",
        "fs:added_get-sum",
        "fs__added_get_sum",
        "FS/added_get_sum",
        "added_get_sum",
        "ADDED.GET.SUM",
    ] {
        for arguments in
            [json!({"name": name, "args": {"a": 1}}), json!({"group": "fs", "name": name, "args": {"a": 1}})]
        {
            let result = call(&mut proxy, arguments.clone());
            assert_eq!(text_of(&result), r#"{"a":1}"#, "{arguments}");
        }
        let direct =
            proxy.request("tools/call", json!({"name": name, "arguments": {"a": 1}}))["result"].take();
        assert_eq!(text_of(&direct), r#"{"a":1}"#, "{name}");
    }
    for (group, name) in [("my.mail", "my.mail.echo"), ("my_mail", "my.mail / echo"), ("MY-MAIL", "echo")] {
        let result = call(&mut proxy, json!({"group": group, "name": name, "args": {"text": "t"}}));
        assert_eq!(text_of(&result), "t", "{group} {name}");
    }
    let result = call(&mut proxy, json!({"name": "my.mail:echo", "args": {"text": "t"}}));
    assert_eq!(text_of(&result), "t");
}

#[test]
fn exact_names_come_first_and_ambiguous_ones_are_answered_with_the_candidates() {
    let mut proxy = proxy();
    for name in ["added_a_twin", "added_a-twin", "added_x.dotted"] {
        let result = call(&mut proxy, json!({"group": "fs", "name": name, "args": {}}));
        assert_eq!(text_of(&result), "{}", "{name}");
    }
    let candidates = r#"Group fs has several tools that "added.a.twin" may mean: "added_a_twin", "added_a-twin". Use one of these names."#;
    assert_eq!(text_of(&call(&mut proxy, json!({"group": "fs", "name": "added.a.twin"}))), candidates);
    let several = r#""fs.added.a.twin" may mean several tools: fs / added_a_twin, fs / added_a-twin. Name one of them exactly."#;
    for name in ["call_dynamic_tool", "fs.added.a.twin"] {
        let arguments =
            if name == "fs.added.a.twin" { json!({}) } else { json!({"name": "fs.added.a.twin"}) };
        let result =
            proxy.request("tools/call", json!({"name": name, "arguments": arguments}))["result"].take();
        assert_eq!((result["isError"].as_bool(), text_of(&result)), (Some(true), several));
    }
    let result = call(&mut proxy, json!({"name": "Echo", "args": {"text": "t"}}));
    assert_eq!(
        text_of(&result),
        r#""Echo" may mean several tools: fs / echo, my.mail / echo. Name one of them exactly."#
    );
    // A tool that the config denies has no spelling.
    for arguments in [
        json!({"group": "fs", "name": "added_x_hidden"}),
        json!({"name": "fs/added-x-hidden"}),
        json!({"name": "added_x_hidden"}),
    ] {
        let result = call(&mut proxy, arguments);
        assert!(result["isError"] == true && !text_of(&result).contains("added_x hidden"), "{result}");
    }
}

#[test]
fn a_group_that_is_not_connected_is_asked_for_the_tool_after_its_name() {
    let mut proxy = Proxy::new(&crate::support::pure_config([("fs", scripted_upstream(&[]))]));
    let result = call(&mut proxy, json!({"name": "fs / echo", "args": {"text": "t"}}));
    assert_eq!(text_of(&result), "t");
    let result = call(&mut proxy, json!({"name": "fs/none"}));
    assert!(
        text_of(&result).starts_with("Group fs has no tool \"none\". Some of the 21 tools: "),
        "{result}"
    );
}

#[test]
fn get_dynamic_tools_without_a_group_lists_the_groups_and_understands_the_name_of_a_tool() {
    let mut proxy = proxy();
    let mut describe = |arguments: Value| {
        let params = json!({"name": "get_dynamic_tools", "arguments": arguments});
        let result = proxy.request("tools/call", params)["result"].take();
        (result["isError"] == true, text_of(&result).to_owned())
    };
    for arguments in [json!({}), json!(null), json!({"lazy": true}), json!({"group": ""})] {
        let (is_error, text) = describe(arguments);
        let lines: Vec<&str> = text.lines().collect();
        assert!(!is_error && lines[0] == "2 groups:" && lines.len() == 4, "{text}");
        assert!(lines[1].starts_with("fs (") && lines[1].ends_with(" tools): Files."), "{text}");
        assert!(lines[2].starts_with("my.mail ("), "{text}");
        assert_eq!(lines[3], r#"Their tools: get_dynamic_tools {"group":"NAME"}"#);
    }
    for arguments in
        [json!({"group": "fs / added_get-sum"}), json!({"group": "fs", "tools": ["fs/added_get_sum"]})]
    {
        let (is_error, text) = describe(arguments);
        assert!(!is_error && text.contains(r#"{"name":"added_get-sum","#), "{text}");
    }
    let (is_error, text) = describe(json!({"group": "fs", "tools": ["added.a.twin"]}));
    assert!(is_error && text.contains(r#"may mean: "added_a_twin", "added_a-twin""#), "{text}");
    assert!(describe(json!({"tools": ["echo"]})).0);
    assert!(describe(json!({"group": "none"})).1.starts_with("There is no group \"none\". The groups: "));
}

#[test]
fn an_unknown_tool_is_answered_with_the_list_of_our_tools() {
    let mut proxy = proxy();
    let error = proxy.request("tools/call", json!({"name": "call_dynamic_tools"}))["error"].take();
    assert_eq!(error["code"], -32602);
    let message = error["message"].as_str().unwrap();
    let ours =
        "get_dynamic_tools, call_dynamic_tool, call_dynamic_tool_readonly, search_dynamic_tools, get_status";
    assert!(
        message.starts_with("unknown tool: \"call_dynamic_tools\"") && message.contains(ours),
        "{message}"
    );
}
