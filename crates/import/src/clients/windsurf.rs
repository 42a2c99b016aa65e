//! Windsurf. From its documentation.

use super::client::{ClientDir, KnownClient};
use super::string_rules::{Fields, VariableForm};

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".codeium"), "windsurf/mcp_config.json")],
    names: &[("disabledTools", "excludeTools")],
    forms: &[VariableForm::EnvName],
    fields: Fields::Only(&["command", "args", "env", "url", "headers"]),
    variable: Some("${env:NAME}"),
    ..KnownClient::new("windsurf", "Windsurf", &["windsurf", "Windsurf"])
};
