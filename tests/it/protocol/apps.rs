//! MCP Apps: how a host finds the user interface of a tool, and the calls of the app itself.

use serde_json::{Value, json};

use super::{members_of, shows_pages};
use crate::support::{Proxy, full_upstream, merged, pure_config, wait_until};

/// A tool whose app is a resource that no list has, one that only the app may call, and one with the older key.
const TOOLS: &str = r#"{"name":"long_show","description":"Shows a chart.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://linked/chart","x":1.50},"y":1}},{"name":"long_refresh","description":"Refreshes the chart.","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}},{"name":"long_old","inputSchema":{"type":"object"},"_meta":{"ui/resourceUri":"ui://linked/chart"}}"#;

/// Two groups with these tools, whose URIs begin with `ui://`.
fn config() -> Value {
    let entry = |name| full_upstream(&["--definitions", TOOLS, "--scheme", "ui", "--name", name]);
    pure_config([("g", entry("g")), ("h", entry("h"))])
}

/// The same groups, of which `tools/list` has everything.
fn eager_config() -> Value {
    let mut config = config();
    for group in ["g", "h"] {
        config["mcpServers"][group] =
            merged(config["mcpServers"][group].take(), json!({"lazy_startup": "eager"}));
    }
    config
}

fn started(config: &Value, capabilities: Value) -> Proxy {
    let mut proxy = Proxy::with_capabilities(config, capabilities);
    proxy.connect(["g", "h"]);
    proxy
}

#[test]
fn the_app_of_a_listed_tool_is_read_from_its_own_group() {
    let config = eager_config();
    let mut proxy = started(&config, shows_pages());
    let list = proxy.raw_result("tools/list", r#"{"lazy":false}"#);
    for (group, uri) in [("g", "ui://linked/chart"), ("h", "ui://h/linked/chart")] {
        let nested = format!(r#""_meta":{{"ui":{{"resourceUri":"{uri}","x":1.50}},"y":1}}"#);
        let old = format!(r#""_meta":{{"ui/resourceUri":"{uri}"}}"#);
        assert!(list.contains(&nested) && list.contains(&old), "{group}: {list}");
        let read = proxy.request("resources/read", json!({"uri": uri}))["result"]["contents"][0].take();
        assert_eq!(read, json!({"uri": uri, "text": format!("linked/chart of {group}")}));
    }
}

#[test]
fn tools_of_apps_are_listed_for_a_client_that_shows_apps() {
    let config = eager_config();
    let of_apps = |capabilities| {
        let mut proxy = started(&config, capabilities);
        wait_until("ready", || proxy.status()["status"] == "ready");
        let names = members_of(&proxy.request("tools/list", json!({})), "tools", "name");
        names.into_iter().filter(|name| name.contains("__")).collect::<Vec<_>>()
    };
    let tools = |group: &str| ["show", "refresh", "old"].map(|tool| format!("{group}__long_{tool}"));
    assert_eq!(of_apps(shows_pages()), [tools("g"), tools("h")].concat());
    assert_eq!(of_apps(json!({})), Vec::<String>::new());
}

#[test]
fn a_result_of_call_dynamic_tool_names_the_app_for_a_client_that_shows_apps() {
    let mut proxy = started(&config(), shows_pages());
    for (group, uri) in [("g", "ui://linked/chart"), ("h", "ui://h/linked/chart")] {
        for tool in ["long_show", "long_old"] {
            let result = proxy.call_tool(group, tool, json!({}));
            let expected = json!({"ui": {"resourceUri": uri}, "ui/resourceUri": uri});
            assert_eq!(result["_meta"], expected, "{tool}");
        }
        // The definition says it already.
        let direct = json!({"name": format!("{group}__long_show"), "arguments": {}});
        assert_eq!(proxy.request("tools/call", direct)["result"]["_meta"], Value::Null);
        assert_eq!(proxy.call_tool(group, "echo", json!({"text": "x"}))["_meta"], Value::Null);
    }
    let mut other = started(&config(), json!({}));
    assert_eq!(other.call_tool("g", "long_show", json!({}))["_meta"], Value::Null);
}

#[test]
fn a_tool_for_the_app_alone_is_called_by_the_app_and_by_no_model() {
    let mut proxy = started(&config(), shows_pages());
    let stubs = proxy.get_dynamic_tools(json!({"group": "g", "lazy": true}));
    assert!(stubs.contains("long_show") && !stubs.contains("long_refresh"), "{stubs}");
    let found = proxy.call_meta_tool("search_dynamic_tools", json!({"query": "refresh chart"})).to_string();
    assert!(found.contains("long_show") && !found.contains("long_refresh"), "{found}");
    let refused = proxy.call_failure("g", "long_refresh", json!({}));
    assert!(refused.contains("only for the user interface of the server"), "{refused}");
    // The host sends the call of the app, which knows the server's own name for the tool.
    let call = json!({"name": "h__long_refresh", "arguments": {"a": 1}});
    assert_eq!(proxy.request("tools/call", call)["result"]["content"][0]["text"], r#"{"a":1}"#);
    let list = proxy.raw_result("tools/list", r#"{"lazy":false}"#);
    assert!(list.contains("h__long_refresh"), "the host hides it from the model");
}

#[test]
fn the_name_that_an_app_uses_leads_to_the_only_server_with_such_an_app() {
    let plain = r#"{"name":"long_refresh","inputSchema":{"type":"object"}}"#;
    let entry = |tools, name| full_upstream(&["--definitions", tools, "--name", name, "--scheme", name]);
    let config = pure_config([("g", entry(plain, "g")), ("h", entry(TOOLS, "h"))]);
    let mut proxy = started(&config, shows_pages());
    let before = proxy.group_status("h")["calls"].as_u64().unwrap();
    let call = json!({"name": "long_refresh", "arguments": {}});
    assert_eq!(proxy.request("tools/call", call)["result"]["content"][0]["text"], "{}");
    assert_eq!(proxy.group_status("h")["calls"], before + 1);
}
