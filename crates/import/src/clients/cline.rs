//! Cline, on the command line and in editors, which share one file since 2026.

use serde_json::{Value, json};

use super::client::{ClientDir, EntryMembers, KnownClient, TimeoutMeaning};
use super::string_rules::VariableForm;
use crate::json::into_members;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("CLINE_DIR", ".cline"), "data/settings/cline_mcp_settings.json")],
    // The organization takes such a server away again.
    own_meaning: &["remoteConfigured"],
    usual_form,
    timeout: TimeoutMeaning::SECONDS,
    forms: &[VariableForm::EnvName],
    variable: Some("${env:NAME}"),
    // Without it, our answer to `initialize` has 3 s.
    own_fields: |_| json!({"timeout": 60}),
    ..KnownClient::new("cline", "Cline", &["cline"])
};

/// What says how a server is reached may stand in `transport`. An address without a type is one of HTTP+SSE.
fn usual_form(entry: &mut EntryMembers) -> Result<(), String> {
    if entry.get("transport").is_some_and(Value::is_object) {
        let transport = entry.shift_remove("transport");
        entry.extend(into_members(transport));
    }
    if let Some(kind) = entry.shift_remove("transportType") {
        entry.insert("type".to_owned(), kind);
    }
    if entry.contains_key("url") && !entry.contains_key("type") {
        entry.insert("type".to_owned(), json!("sse"));
    }
    Ok(())
}
