//! Crush. Its strings are words of a shell.

use serde_json::json;

use super::client::{ClientDir, EntryMembers, KnownClient, TimeoutMeaning};
use super::string_rules::{Fields, VariableForm};
use crate::json::all_strings;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("XDG_CONFIG_HOME", ".config"), "crush/crush.json")],
    project_files: &["crush.json", ".crush.json"],
    // Lists are put together.
    puts_project_over_user: true,
    servers: |_| &["mcp"],
    usual_form,
    timeout: TimeoutMeaning::Limits { names: &["initialize"], unit: 1.0, least: 1.0 },
    passes_environment: true,
    forms: &[VariableForm::Braces, VariableForm::BareName],
    fields: Fields::Only(&["command", "args", "env", "url", "headers"]),
    home_fields: &["command"],
    is_empty_in_env: true,
    variable: Some("${NAME}"),
    local_type: Some("stdio"),
    own_fields: |_| json!({"timeout": 30}),
    ..KnownClient::new("crush", "Crush", &["crush"])
};

fn usual_form(entry: &mut EntryMembers) -> Result<(), String> {
    let mut texts = entry.values().flat_map(all_strings);
    match texts.any(|text| text.contains(['\\', '`', '"', '\'']) || text.contains("$(")) {
        true => Err("it has words of a shell, such as quotes or `$(…)`".to_owned()),
        false => Ok(()),
    }
}
