//! The status as an MCP App: who has the page, and what its data says.

use serde_json::{Value, json};

use super::shows_pages;
use crate::support::{Proxy, full_upstream, merged, pure_config, wait_until};

const URI: &str = "ui://dynamic-mcp/status";

/// The capabilities of a client that shows apps of this media type.
fn shows(mime_type: &str) -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [mime_type]}}})
}

fn names(list: &str, member: &str, key: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(list).unwrap();
    list[member].as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_clients_that_show_pages_have_the_page() {
    for surface in ["meta", "flat"] {
        let config = pure_config([("g", full_upstream(&[]))]);
        let config = merged(config, json!({"settings": {"surface": surface, "lazy_startup": "eager"}}));
        let lists = |capabilities| {
            let mut proxy = Proxy::with_capabilities(&config, capabilities);
            wait_until("ready", || proxy.group_state("g") == "connected");
            ["tools/list", "resources/list"].map(|method| proxy.raw_result(method, "{}"))
        };
        let (plain, other, page) = (lists(json!({})), lists(shows("text/x-other")), lists(shows_pages()));
        assert_eq!(plain, other, "{surface}");
        let mut tools = names(&page[0], "tools", "name");
        assert_eq!(
            tools.split_off(tools.len() - 3),
            ["show_status", "status_data", "page_action"],
            "{surface}"
        );
        assert_eq!(tools, names(&plain[0], "tools", "name"), "{surface}");
        let mut uris = names(&page[1], "resources", "uri");
        assert_eq!(uris.remove(0), URI);
        assert_eq!(uris, names(&plain[1], "resources", "uri"));
    }
}

#[test]
fn a_client_without_pages_cannot_use_them() {
    let mut proxy =
        Proxy::with_capabilities(&pure_config([("g", full_upstream(&[]))]), shows("text/x-other"));
    proxy.connect(["g"]);
    for tool in ["show_status", "status_data", "page_action"] {
        assert_eq!(proxy.error_code("tools/call", json!({"name": tool, "arguments": {}})), -32602);
    }
    assert_eq!(proxy.error_code("resources/read", json!({"uri": URI})), -32002);
}

#[test]
fn the_page_is_read_and_every_uri_beside_it_is_reserved() {
    let mut proxy = Proxy::with_capabilities(&pure_config([("g", full_upstream(&[]))]), shows_pages());
    let page = proxy.request("resources/read", json!({"uri": URI}))["result"]["contents"][0].take();
    assert_eq!((&page["uri"], &page["mimeType"]), (&json!(URI), &json!("text/html;profile=mcp-app")));
    assert!(page["text"].as_str().unwrap().starts_with("<!doctype html>"));
    let ui = &page["_meta"]["ui"];
    assert_eq!((&ui["csp"], &ui["permissions"]), (&Value::Null, &json!({"clipboardWrite": {}})));
    // The scripted upstream would answer any URI.
    let other = json!({"uri": "ui://dynamic-mcp/other"});
    assert_eq!(proxy.error_code("resources/read", other), -32002);
    let definition = proxy.request("tools/describe", json!({"name": "show_status"}))["result"]["tool"].take();
    assert_eq!(definition["_meta"]["ui"], json!({"resourceUri": URI, "visibility": ["model"]}));
    let definition = proxy.request("tools/describe", json!({"name": "status_data"}))["result"]["tool"].take();
    assert_eq!(definition["_meta"]["ui"], json!({"visibility": ["app"]}));
}

#[test]
fn the_result_of_show_status_is_complete_without_the_page() {
    let failing = json!({"command": "sh", "args": ["-c", "echo '</script><b>no</b>' >&2; exit 3"]});
    let config = pure_config([("g", full_upstream(&[])), ("bad", failing)]);
    let mut proxy = Proxy::with_capabilities(&config, shows_pages());
    proxy.connect(["g"]);
    proxy.call_failure("bad", "x", json!({}));
    let shown = proxy.call_meta_tool("show_status", json!({}));
    let text = shown["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("- g: connected") && text.contains("- bad: failed"), "{text}");
    let report = &shown["structuredContent"];
    let instances = report["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 1);
    assert_eq!((&instances[0]["pid"], &instances[0]["isThis"]), (&json!(proxy.pid()), &json!(true)));
    assert!(report["takenAtS"].as_u64().unwrap() > 1_700_000_000, "{report}");
    let tokens = &instances[0]["tokens"];
    assert!(tokens["direct"].as_u64().unwrap() > 0 && tokens["listed"].as_u64().unwrap() > 0, "{tokens}");
    let bad =
        instances[0]["groups"].as_array().unwrap().iter().find(|group| group["group"] == "bad").unwrap();
    assert_eq!(bad["brief"], "its process ends");
    let remedies = bad["remedies"].as_array().unwrap();
    let commands: Vec<_> = remedies.iter().map(|remedy| remedy["command"].as_str().unwrap()).collect();
    let begins =
        ["dynamic-mcp logs bad --all", "dynamic-mcp check bad --config ", "dynamic-mcp reconnect bad --all"];
    assert!(commands.iter().zip(begins).all(|(command, begin)| command.starts_with(begin)), "{commands:?}");
    assert_eq!(commands.len(), begins.len());
    // It may have been tried again.
    let stderr = bad["stderr"].as_array().unwrap();
    assert!(!stderr.is_empty() && stderr.iter().all(|line| line == "</script><b>no</b>"), "{stderr:?}");
    // `get_status` has none of this, because models read it.
    let plain = proxy.group_status("bad");
    assert_eq!((&plain["remedies"], &plain["stderr"]), (&Value::Null, &Value::Null));
}
