//! Qwen Code 0.24, made of Gemini CLI.

use serde_json::json;

use super::client::{ClientDir, KnownClient, TimeoutMeaning, ToolRules};
use super::gemini;
use super::rule_file::in_tool_name;
use super::string_rules::{Braces, Fields, VariableForm};
use crate::tool_rules::globs_after;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("QWEN_HOME", ".qwen"), "settings.json")],
    project_files: &[".qwen/settings.json"],
    own_meaning: &["authProviderType", "targetAudience", "targetServiceAccount", "tcp"],
    timeout: TimeoutMeaning::MILLISECONDS,
    passes_environment: true,
    shows_questions: |_| false,
    forms: &[VariableForm::Name, VariableForm::BareName],
    braces: Braces::First,
    fields: Fields::All,
    variable: Some("${NAME}"),
    own_fields: |_| json!({"alwaysLoadTools": true}),
    allowed_list: &["mcp", "allowed"],
    rules: ToolRules {
        user_files: |_| Vec::new(),
        project_files: &[],
        read: |file, root| {
            gemini::read(file, root);
            file.read_lists(root, "permissions", |rule| Some(rule.to_owned()));
        },
        globs: |pattern, server| {
            let name = format!("mcp__{}", in_tool_name(server));
            if pattern == name { vec!["*".to_owned()] } else { globs_after(&format!("{name}__"), pattern) }
        },
        renamed: None,
        denies_first: true,
        allow_lifts: false,
        has_agents: false,
    },
    ..KnownClient::new("qwen", "Qwen Code", &["qwen"])
};
