//! Droid of Factory 0.225. It starts no server without a variable that its entry names.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::{Fields, VariableForm};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("", ".factory"), "mcp.json")],
    project_files: &[".factory/mcp.json"],
    names: &[("enabledTools", "includeTools"), ("disabledTools", "excludeTools")],
    timeout: TimeoutMeaning::MILLISECONDS,
    passes_environment: true,
    forms: &[VariableForm::Braces],
    fields: Fields::Only(&["env", "headers", "oauth"]),
    optional: Fields::Only(&[]),
    variable: Some("${NAME}"),
    local_type: Some("stdio"),
    ..KnownClient::new("droid", "Droid", &["droid"])
};
