//! Roo Code 3.52, in every editor that is made of VS Code.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::VariableForm;

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Extension("rooveterinaryinc.roo-cline"), "settings/mcp_settings.json")],
    project_files: &[".roo/mcp.json"],
    names: &[("disabledTools", "excludeTools")],
    timeout: TimeoutMeaning::SECONDS,
    forms: &[VariableForm::EnvName, VariableForm::ClientOnly(&["workspaceFolder"])],
    variable: Some("${env:NAME}"),
    ..KnownClient::new("roo", "Roo Code", &["code", "Code"])
};
