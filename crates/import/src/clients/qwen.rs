//! Qwen Code 0.24, made of Gemini CLI.

use serde_json::json;

use super::client::{ClientDir, KnownClient, TimeoutMeaning, ToolRules, named_dir};
use super::gemini;
use super::gemini_extensions;
use super::package::{ClientSetting, SettingChange};
use super::rule_file::in_tool_name;
use super::string_rules::VariableForm;
use crate::tool_rules::globs_after;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("QWEN_HOME", ".qwen"), "settings.json")],
    project_files: &[".qwen/settings.json"],
    packages: |context| {
        let Some(dir) = named_dir("QWEN_HOME", ".qwen", context.env) else { return Vec::new() };
        let off = |server: &str| {
            let change = SettingChange::Add(server.into());
            ClientSetting::new(&dir.join("settings.json"), &["mcp", "excluded"], change)
        };
        gemini_extensions::packages(context, &dir.join("extensions"), "qwen-extension.json", off)
    },
    own_meaning: &["authProviderType", "targetAudience", "targetServiceAccount", "tcp"],
    timeout: TimeoutMeaning::MILLISECONDS,
    passes_environment: true,
    forms: &[VariableForm::Name, VariableForm::BareName],
    variable: Some("${NAME}"),
    own_fields: |_| json!({"alwaysLoadTools": true}),
    allowed_list: &["mcp", "allowed"],
    rules: ToolRules {
        read: |file, root| {
            gemini::read_with(file, root, "mcp__", "__");
            file.read_lists(root, "permissions", |rule| Some(rule.to_owned()));
        },
        globs: |pattern, server| {
            let name = format!("mcp__{}", in_tool_name(server));
            if pattern == name { vec!["*".to_owned()] } else { globs_after(&format!("{name}__"), pattern) }
        },
        denies_first: true,
        ..ToolRules::NONE
    },
    ..KnownClient::new("qwen", "Qwen Code", &["qwen"])
};
