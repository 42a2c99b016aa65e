//! The flat list of many servers: 70 real catalogs, from the cache.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tempfile::TempDir;

use crate::support::{Processes, Proxy, ProxyCommand, merged, scripted_upstream, wait_until};

/// The longest name that every client accepts (64 characters), without what clients put before it (`mcp__dyn__`).
const MAX_NAME: usize = 64 - "mcp__dyn__".len();

/// A server of the catalogs.
#[derive(serde::Deserialize)]
struct Catalog {
    server: String,
    tools: Vec<Value>,
}

/// The whole list, with its bytes, and the definition of each tool by its name.
fn flat_list(proxy: &mut Proxy) -> (String, BTreeMap<String, String>) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        tools: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let (mut all, mut definitions, mut params) = (String::new(), BTreeMap::new(), json!({}));
    loop {
        let page = proxy.raw_result("tools/list", &params.to_string());
        all.push_str(&page);
        let page: Page = serde_json::from_str(&page).unwrap();
        for tool in page.tools {
            let name =
                serde_json::from_str::<Value>(tool.get()).unwrap()["name"].as_str().unwrap().to_owned();
            assert!(definitions.insert(name, tool.get().to_owned()).is_none());
        }
        match page.next_cursor {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return (all, definitions),
        }
    }
}

#[test]
fn the_list_of_seventy_servers_comes_whole_from_the_cache_and_is_always_the_same() {
    let (cache, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let catalogs: Vec<Catalog> =
        serde_json::from_str(include_str!("../../../benches/data/livemcp-70.json")).unwrap();
    let entry = |catalog: &Catalog| {
        let file = dir.path().join(&catalog.server);
        let definitions: Vec<String> = catalog.tools.iter().map(Value::to_string).collect();
        fs::write(&file, definitions.join(",")).unwrap();
        let entry = scripted_upstream(&["--definitions-file", file.to_str().unwrap()]);
        (catalog.server.clone(), merged(entry, json!({"cwd": dir.path()})))
    };
    let servers: serde_json::Map<String, Value> = catalogs.iter().map(entry).collect();
    let config = json!({"mcpServers": servers, "settings": {"surface": "flat"}});
    let start = || {
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        command.config(&config).start_initialized()
    };
    let mut first = start();
    let index = cache.path().join("dynamic-mcp/index.json");
    wait_until("the cache has every server", || {
        let index = fs::read(&index).unwrap_or_default();
        let index: Value = serde_json::from_slice(&index).unwrap_or_default();
        index["servers"].as_object().is_some_and(|servers| servers.len() == catalogs.len())
    });
    first.close_stdin();
    first.wait_for_exit();

    let mut second = start();
    let (bytes, listed) = flat_list(&mut second);
    assert_eq!(Processes::descendants_of(second.pid()).0, [], "nothing was started for that");
    assert!(listed.len() > 700, "{}", listed.len());
    let (again, _) = flat_list(&mut start());
    assert!(bytes == again, "another start lists other bytes");

    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for name in listed.keys() {
        assert!(name.len() <= MAX_NAME && name.chars().all(is_plain), "{name}");
    }
    // What follows the name is the server's own, but for what strict clients reject.
    let shown: BTreeSet<&str> = listed.values().map(|definition| after_name(definition)).collect();
    for tool in catalogs.iter().flat_map(|catalog| &catalog.tools) {
        let mut own = tool.clone();
        if let Some(annotations) = own.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|_, hint| !hint.is_null());
        }
        let own = own.to_string();
        assert!(shown.contains(after_name(&own)), "{own}");
    }

    // A server that starts with the same tools changes no list.
    let echo = listed.keys().find(|name| name.ends_with("__echo")).unwrap().clone();
    let call = json!({"name": echo, "arguments": {"text": "x"}});
    assert_eq!(second.request("tools/call", call)["result"]["content"][0]["text"], "x");
    second.assert_no_message();
}

/// The definition of a tool after its name.
fn after_name(definition: &str) -> &str {
    definition.split_once(r#""name""#).unwrap().1.split_once(',').map_or("", |(_, rest)| rest)
}
