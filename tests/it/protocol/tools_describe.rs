//! Our extensions of the protocol for programs: `lazy` in `tools/list`, `tools/describe` and `tools/describe_batch`.

use serde_json::{Value, json};

use super::{members_of, two_schemes_config};
use crate::support::{Proxy, ProxyCommand, merged, pure_config, scripted_config, scripted_upstream};

const INVALID: &str = r#"{"name":"added_invalid","inputSchema":{"type":"array"}}"#;

/// The response to `tools/list` with `lazy`.
fn list_tools(proxy: &mut Proxy, lazy: bool) -> Value {
    proxy.request("tools/list", json!({"lazy": lazy}))
}

#[test]
fn a_lazy_list_has_stubs_of_known_tools_and_starts_no_group() {
    let mut proxy = Proxy::new(&pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]));
    assert_eq!(list_tools(&mut proxy, true)["result"], json!({"tools": []}));
    proxy.upstream_pid("g");
    let list = list_tools(&mut proxy, true);
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools[0], json!({"name": "g__echo", "description": "Returns its text."}));
    assert_eq!(tools.len(), 21);
    assert_eq!(proxy.group_state("h"), "pending");
    for lazy in ["3", "\"true\""] {
        assert!(proxy.raw_error("tools/list", &format!(r#"{{"lazy":{lazy}}}"#)).contains("-32602"));
    }
}

#[test]
fn lazy_false_lists_verbatim_definitions_and_without_lazy_the_surface_is_listed() {
    let mut proxy = Proxy::new(&scripted_config(&["--tools", "1", "--definitions", INVALID]));
    proxy.upstream_pid("g");
    let full = proxy.raw_result("tools/list", r#"{"lazy":false}"#);
    let echo = r#"{"name":"g__echo","title":"Echo","#;
    assert!(full.contains(echo) && full.contains("18446744073709551615") && full.contains("2.50"), "{full}");
    assert!(!full.contains("added_invalid"), "strict clients would drop the whole list");
    for params in ["{}", r#"{"lazy":null}"#] {
        assert!(proxy.raw_result("tools/list", params).contains(r#""name":"get_dynamic_tools""#));
    }
}

#[test]
fn describing_a_tool_connects_its_group() {
    let mut proxy = Proxy::new(&pure_config([
        ("g", scripted_upstream(&["--definitions", INVALID])),
        ("h", scripted_upstream(&[])),
    ]));
    let tool = proxy.raw_result("tools/describe", r#"{"name":"g__echo"}"#);
    assert!(tool.starts_with(r#"{"tool":{"name":"g__echo","title":"Echo","#), "{tool}");
    assert!(tool.ends_with(r#""_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}}"#), "{tool}");
    assert_eq!(
        (proxy.group_state("g"), proxy.group_state("h")),
        ("connected".to_owned(), "pending".to_owned())
    );
    let invalid = proxy.raw_result("tools/describe", r#"{"name":"g__added_invalid"}"#);
    assert!(invalid.contains(r#""type":"array""#), "{invalid}");
    for name in ["g__nothing", "nobody__echo", "nothing", ""] {
        assert_eq!(proxy.error_code("tools/describe", json!({"name": name})), -32602, "{name}");
    }
    assert_eq!(proxy.error_code("tools/describe", json!({})), -32602);
}

#[test]
fn every_name_that_calls_a_tool_describes_it() {
    let mut proxy = Proxy::new(&pure_config([
        ("my group", scripted_upstream(&["--tools", "1"])),
        ("h", merged(scripted_upstream(&[]), json!({"tools": {"deny": ["generated_0"]}}))),
    ]));
    // The first name connects both groups.
    for name in
        ["my_group__echo", "my group__ECHO", "my group/echo", "MY GROUP.echo", "generated_0", "h/sleep"]
    {
        let described = proxy.request("tools/describe", json!({"name": name}))["result"]["tool"].take();
        let called = proxy.request("tools/call", json!({"name": name, "arguments": {"text": "x", "ms": 0}}));
        assert!(called["result"]["content"].is_array(), "{name}: {called}");
        let exposed = described["name"].as_str().unwrap_or_else(|| panic!("{name}: {described}"));
        let again = proxy.request("tools/describe", json!({"name": exposed}))["result"]["tool"].take();
        assert_eq!(described, again, "{name}");
    }
    let ambiguous = proxy.request("tools/describe", json!({"name": "echo"}));
    assert!(ambiguous["error"]["message"].as_str().unwrap().contains("\"my group\", \"h\""), "{ambiguous}");
    let ours = proxy.request("tools/describe_batch", json!({"names": ["get_status", "h/pid", "echo"]}));
    assert_eq!(members_of(&ours, "tools", "name"), ["get_status", "h__pid"]);
    assert_eq!(ours["result"]["notFound"], json!(["echo"]));
}

#[test]
fn describe_batch_reports_unknown_names() {
    let mut proxy = Proxy::new(&two_schemes_config());
    let names = json!(["h__pid", "g__nothing", "g__echo", "x"]);
    let response = proxy.request("tools/describe_batch", json!({"names": names}));
    assert_eq!(members_of(&response, "tools", "name"), ["h__pid", "g__echo"], "in the order of the request");
    assert_eq!(response["result"]["notFound"], json!(["g__nothing", "x"]));
    assert_eq!(
        proxy.request("tools/describe_batch", json!({"names": []}))["result"],
        json!({"tools": [], "notFound": []})
    );
    for params in [json!({}), json!({"names": "g__echo"}), json!({"names": [3]})] {
        assert_eq!(proxy.error_code("tools/describe_batch", params), -32602);
    }
    let duplicates =
        proxy.request("tools/describe_batch", json!({"names": ["g__echo", "x", "g__echo", "x"]}));
    assert_eq!(members_of(&duplicates, "tools", "name"), ["g__echo"]);
    assert_eq!(duplicates["result"]["notFound"], json!(["x"]));
    let too_many: Vec<_> = (0..=1000).map(|n| format!("x{n}")).collect();
    assert_eq!(proxy.error_code("tools/describe_batch", json!({"names": too_many})), -32602);
    assert!(proxy.request("tools/describe_batch", json!({"names": too_many[1..]}))["result"].is_object());
}

#[test]
fn an_unavailable_group_affects_only_its_own_tools() {
    let config = pure_config([
        ("g", scripted_upstream(&[])),
        ("broken", scripted_upstream(&["--crash-at-start", "no"])),
    ]);
    let mut proxy = Proxy::new(&config);
    assert_eq!(proxy.error_code("tools/describe", json!({"name": "broken__echo"})), -31001);
    let both = proxy.request("tools/describe_batch", json!({"names": ["broken__echo", "g__echo"]}));
    assert_eq!(both["result"]["notFound"], json!(["broken__echo"]));
    assert_eq!(members_of(&both, "tools", "name"), ["g__echo"]);
}

#[test]
fn cached_tools_are_described_without_a_connection() {
    let cache = tempfile::TempDir::new().unwrap();
    let entry = merged(scripted_upstream(&[]), json!({"cwd": "/"}));
    let config = crate::support::config_of([("g", entry)]);
    let start = || {
        ProxyCommand::new()
            .env("XDG_CACHE_HOME", cache.path().to_str().unwrap())
            .config(&config)
            .start_initialized()
    };
    let mut first = start();
    first.wait_for_state("g", "discovered");
    first.close_stdin();
    first.wait_for_exit();
    let mut second = start();
    assert_eq!(list_tools(&mut second, true)["result"]["tools"].as_array().unwrap().len(), 21);
    assert!(second.raw_result("tools/describe", r#"{"name":"g__echo"}"#).contains("2.50"));
    assert_eq!(
        (second.group_status("g")["cached"].clone(), second.group_state("g")),
        (json!(true), "discovered".to_owned())
    );
}
