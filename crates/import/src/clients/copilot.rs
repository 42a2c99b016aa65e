//! GitHub Copilot CLI 1.0.102.

use serde_json::json;

use super::client::{KnownClient, ClientDir, TimeoutMeaning};
use super::host_search::HostSearch;
use super::string_rules::{Fields, VariableForm};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("COPILOT_HOME", ".copilot"), "mcp-config.json")],
    project_files: &[".github/mcp.json"],
    timeout: TimeoutMeaning::MILLISECONDS,
    shows_questions: |_| true,
    forms: &[VariableForm::Braces, VariableForm::BareName],
    fields: Fields::Only(&["command", "args", "env", "cwd", "headers"]),
    home_fields: &["cwd"],
    variable: Some("${NAME}"),
    local_type: Some("local"),
    own_fields: |_| json!({"tools": ["*"], "deferTools": "never"}),
    tool_search: |_, _| HostSearch::Unknown("its model may change in a session".to_owned()),
    ..KnownClient::new("copilot", "Copilot CLI", &["copilot"])
};
