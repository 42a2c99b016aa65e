//! Amp. From its documentation.

use serde_json::Value;

use super::client::{ClientDir, KnownClient, ToolRules};
use super::rule_file::in_tool_name;
use super::string_rules::VariableForm;
use crate::json::strings;
use crate::tool_rules::{ToolEffect, globs_after};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[
        (ClientDir::Named("", ".config"), "amp/settings.jsonc"),
        (ClientDir::Named("", ".config"), "amp/settings.json"),
    ],
    project_files: &[".amp/settings.jsonc", ".amp/settings.json"],
    servers: |_| &["amp.mcpServers"],
    forms: &[VariableForm::Name],
    variable: Some("${NAME}"),
    rules: ToolRules {
        read: |file, root: &Value| {
            let names = strings(root.get("amp.tools.disable"));
            names.for_each(|name| file.add("amp.tools.disable", name, name.to_owned(), ToolEffect::Deny));
        },
        globs: |pattern, server| globs_after(&format!("mcp__{}__", in_tool_name(server)), pattern),
        denies_first: true,
        ..ToolRules::NONE
    },
    ..KnownClient::new("amp", "Amp", &["amp"])
};
