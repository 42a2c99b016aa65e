//! Continue. From its source. Its files are YAML, with a list of servers, and only read.

use serde_json::{Map, Value, json};

use super::client::{ClientDir, EntryMembers, KnownClient, TimeoutMeaning};
use crate::json::{all_strings, into_members};

const DIR: ClientDir = ClientDir::Named("CONTINUE_GLOBAL_DIR", ".continue");

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(DIR, "mcpServers/*.yaml"), (DIR, "mcpServers/*.json"), (DIR, "config.yaml")],
    by_name,
    names: &[("connectionTimeout", "timeout")],
    own_meaning: &["uses", "envFile"],
    usual_form,
    timeout: TimeoutMeaning::MILLISECONDS,
    own_fields: |_| json!({"name": "dyn"}),
    ..KnownClient::new("continue", "Continue", &["cn"])
};

/// Of several servers with one name, the first counts.
fn by_name(root: &mut Value) {
    let Some(list) = root.get("mcpServers").and_then(Value::as_array) else { return };
    let mut servers = Map::new();
    for entry in list {
        let name = entry.get("name").or_else(|| entry.get("uses")).and_then(Value::as_str).unwrap_or_default();
        servers.entry(name.to_owned()).or_insert_with(|| entry.clone());
    }
    root["mcpServers"] = Value::Object(servers);
}

fn usual_form(entry: &mut EntryMembers) -> Result<(), String> {
    if entry.values().flat_map(all_strings).any(|text| text.contains("${")) {
        return Err("it needs a secret of Continue".to_owned());
    }
    for name in ["name", "serverName", "faviconUrl", "sourceFile", "sourceSlug"] {
        entry.shift_remove(name);
    }
    let options = into_members(entry.shift_remove("requestOptions"));
    if let Some(other) = options.keys().find(|name| *name != "headers") {
        return Err(format!("dynamic-mcp has nothing like its `requestOptions.{other}`"));
    }
    entry.extend(options);
    if let Some(key) = entry.shift_remove("apiKey").as_ref().and_then(Value::as_str) {
        let headers = entry.entry("headers").or_insert_with(|| json!({}));
        headers["Authorization"] = json!(format!("Bearer {key}"));
    }
    Ok(())
}
