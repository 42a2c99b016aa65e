//! Amazon Q Developer CLI. What its process has in its environment counts more than an entry's `env`.

use super::client::{ClientDir, KnownClient, TimeoutMeaning};
use super::string_rules::{Fields, VariableForm};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("", ".aws"), "amazonq/mcp.json")],
    project_files: &[".amazonq/mcp.json"],
    timeout: TimeoutMeaning::MILLISECONDS,
    passes_environment: true,
    forms: &[VariableForm::EnvName],
    fields: Fields::Only(&["env", "headers"]),
    variable: Some("${env:NAME}"),
    ..KnownClient::new("amazon-q", "Amazon Q", &["q", "qchat"])
};
