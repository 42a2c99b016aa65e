//! Kiro, the editor and the command line. `${NAME}` counts for names that its settings approve.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::VariableForm;

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".kiro"), "settings/mcp.json")],
    project_files: &[".kiro/settings/mcp.json"],
    names: &[("disabledTools", "excludeTools")],
    timeout: TimeoutMeaning::MILLISECONDS,
    forms: &[VariableForm::Name],
    variable: Some("${NAME}"),
    ..KnownClient::new("kiro", "Kiro", &["kiro", "Kiro", "kiro-cli"])
};
