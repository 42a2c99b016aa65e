//! Goose. From its source. Its file is YAML, and only read.

use serde_json::{Map, Value, json};

use super::client::{ClientDir, KnownClient, TimeoutMeaning};

/// Variables that it does not pass on from `envs`.
const WITHHELD: [&str; 6] = ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_OPTIONS", "CLASSPATH"];

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[
        // That of Windows.
        (ClientDir::Config, "Block/goose/config/config.yaml"),
        (ClientDir::Config, "goose/config.yaml"),
    ],
    servers: |_| &["extensions"],
    names: &[("cmd", "command"), ("envs", "env"), ("uri", "url"), ("available_tools", "includeTools")],
    usual_form,
    timeout: TimeoutMeaning::SECONDS,
    passes_environment: true,
    own_fields: |_| json!({"enabled": true, "type": "stdio", "name": "dyn", "description": "", "timeout": 300}),
    ..KnownClient::new("goose", "Goose", &["goose", "goosed", "Goose"])
};

fn usual_form(entry: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    match entry.get("type").and_then(Value::as_str) {
        Some("stdio" | "streamable_http") => {}
        Some("sse") => return Err("Goose has no transport `sse` any more".to_owned()),
        _ => return Err("it is a part of Goose".to_owned()),
    }
    let kept = entry.get("env_keys").and_then(Value::as_array).filter(|names| !names.is_empty());
    if let Some(names) = kept {
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        return Err(format!("Goose keeps the value of {} in its own store", names.join(", ")));
    }
    let envs = entry.get("envs").and_then(Value::as_object);
    if envs.is_some_and(|envs| WITHHELD.iter().any(|name| envs.contains_key(*name))) {
        return Err("Goose does not pass on all of its `envs`".to_owned());
    }
    let mut usual = entry.clone();
    // Goose takes an empty list for all tools.
    usual.retain(|name, value| {
        let is_for_people = ["bundled", "display_name", "description", "name", "env_keys"].contains(&&**name);
        !(is_for_people || name == "available_tools" && *value == json!([]))
    });
    Ok(usual)
}
