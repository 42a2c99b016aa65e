//! Goose. From its source. Its file is YAML, and only read.

use serde_json::{Value, json};

use super::client::{ClientDir, EntryMembers, KnownClient, TimeoutMeaning};
use crate::json::{members, strings};

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
    shows_questions: |_| true,
    own_fields: |_| json!({"enabled": true, "type": "stdio", "name": "dyn", "description": "", "timeout": 300}),
    ..KnownClient::new("goose", "Goose", &["goose", "goosed", "Goose"])
};

fn usual_form(entry: &mut EntryMembers) -> Result<(), String> {
    match entry.get("type").and_then(Value::as_str) {
        Some("stdio" | "streamable_http") => {}
        Some("sse") => return Err("Goose has no transport `sse` any more".to_owned()),
        _ => return Err("it is a part of Goose".to_owned()),
    }
    let kept: Vec<_> = strings(entry.get("env_keys")).collect();
    if !kept.is_empty() {
        return Err(format!("Goose keeps the value of {} in its own store", kept.join(", ")));
    }
    if members(entry.get("envs")).any(|(name, _)| WITHHELD.contains(&&**name)) {
        return Err("Goose does not pass on all of its `envs`".to_owned());
    }
    // Goose takes an empty list for all tools.
    entry.retain(|name, value| {
        let is_for_people = ["bundled", "display_name", "description", "name", "env_keys"].contains(&&**name);
        !(is_for_people || name == "available_tools" && *value == json!([]))
    });
    Ok(())
}
