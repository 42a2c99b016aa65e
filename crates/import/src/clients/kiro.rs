//! Kiro, the editor and the command line. `${NAME}` counts for names that its settings approve.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::{Braces, Fields, VariableForm};

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".kiro"), "settings/mcp.json")],
    project_files: &[".kiro/settings/mcp.json"],
    names: &[("disabledTools", "excludeTools")],
    timeout: TimeoutMeaning::MILLISECONDS,
    shows_questions: |_| false,
    forms: &[VariableForm::Name],
    braces: Braces::First,
    fields: Fields::All,
    variable: Some("${NAME}"),
    ..KnownClient::new("kiro", "Kiro", &["kiro", "Kiro", "kiro-cli"])
};
