//! Cline, on the command line and in editors, which share one file since 2026.

use serde_json::{Map, Value, json};

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::{Braces, Fields, VariableForm};
use crate::json::into_members;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("CLINE_DIR", ".cline"), "data/settings/cline_mcp_settings.json")],
    // The organization takes such a server away again.
    own_meaning: &["remoteConfigured"],
    usual_form: |entry| Ok(usual_form(entry)),
    timeout: TimeoutMeaning::SECONDS,
    shows_questions: |_| false,
    forms: &[VariableForm::EnvName],
    braces: Braces::First,
    fields: Fields::All,
    variable: Some("${env:NAME}"),
    // Without it, our answer to `initialize` has 3 s.
    own_fields: |_| json!({"timeout": 60}),
    ..KnownClient::new("cline", "Cline", &["cline"])
};

/// What says how a server is reached may stand in `transport`. An address without a type is one of HTTP+SSE.
fn usual_form(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut usual = entry.clone();
    if entry.get("transport").is_some_and(Value::is_object) {
        let transport = usual.shift_remove("transport");
        usual.extend(into_members(transport));
    }
    if let Some(kind) = usual.shift_remove("transportType") {
        usual.insert("type".to_owned(), kind);
    }
    if usual.contains_key("url") && !usual.contains_key("type") {
        usual.insert("type".to_owned(), json!("sse"));
    }
    usual
}
