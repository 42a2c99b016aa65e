//! Codex 0.169. Its entries are translated while its file is read (`config::load`).

use serde_json::{Map, Value, json};

use super::client::{KnownClient, ClientDir, HostOs, TimeoutMeaning, ToolRules, named_dir};
use super::codex_plugins;
use super::host_search::{HostSearch, file_content};
use super::rule_file::RuleFile;
use super::string_rules::{Fields, VariableForm};
use crate::json::members;
use crate::tool_rules::{ToolEffect, globs_after};
use base::text;
use config::env::Env;

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("CODEX_HOME", ".codex"), "config.toml")],
    project_files: &[".codex/config.toml"],
    puts_project_over_user: true,
    servers: |_| &["mcp_servers"],
    packages: |context| {
        let dir = named_dir("CODEX_HOME", ".codex", context.env);
        dir.map_or_else(Vec::new, |dir| codex_plugins::packages(context, &dir, &dir.join("config.toml")))
    },
    timeout: TimeoutMeaning::Ours,
    // It starts no server without the variable of its token.
    forms: &[VariableForm::Ours],
    optional: Fields::Only(&[]),
    passed_names: Some("env_vars"),
    shows_questions: |_| true,
    approvals,
    rules: ToolRules {
        read,
        globs: |pattern, server| globs_after(&format!("mcp__{server}__"), pattern),
        allow_lifts: true,
        ..ToolRules::NONE
    },
    tool_search,
    lists_tools_once: true,
    ..KnownClient::new("codex", "Codex", &["codex"])
};

/// The mode of a tool that needs no question.
const APPROVED: &str = "approve";

fn approvals(entry: &Value, prefix: &str) -> Value {
    let approved = members(entry.get("tools")).filter(|(_, tool)| tool["approval_mode"] == APPROVED);
    let approved = approved.map(|(tool, _)| (format!("{prefix}{tool}"), json!({"approval_mode": APPROVED})));
    let tools: Map<String, Value> = approved.collect();
    if tools.is_empty() { Value::Null } else { json!({ "tools": tools }) }
}

/// Reads the tools that go without a question. The other rules are in its entry.
fn read(file: &mut RuleFile, root: &Value) {
    if root.get("approval_policy").is_some() {
        file.policies.push("`approval_policy`".to_owned());
    }
    const MODE: &str = "default_tools_approval_mode";
    // Of a server whose tools are named, the entry asks for the others by name.
    let asks = |entry: &Value| entry[MODE] == "prompt" && entry.get("enabled_tools").is_none();
    for (server, entry) in members(root.get("mcp_servers")) {
        let tools = members(entry.get("tools"));
        let modes = tools.filter_map(|(tool, settings)| Some((tool, settings["approval_mode"].as_str()?)));
        let asks = asks(entry);
        for (tool, mode) in modes.filter(|(_, mode)| if asks { *mode != "prompt" } else { *mode == APPROVED }) {
            if asks {
                file.add(MODE, "prompt", format!("mcp__{server}__*"), ToolEffect::Ask);
            }
            let key = format!("mcp_servers.{server}.tools.{tool}.approval_mode");
            file.add(&key, mode, format!("mcp__{server}__{tool}"), ToolEffect::Allow);
        }
    }
}

/// It hides the tools of servers if its list of models says that the model can search for them. Nothing in its settings
/// changes that. Without a `model` it takes one that can.
fn tool_search(client: &KnownClient, env: &Env) -> HostSearch {
    let Some(file) = client.user_files(env, HostOs::CURRENT).pop() else {
        return HostSearch::Unknown("its directory is not known".to_owned());
    };
    let place = text::path(&file);
    let Some(config) = file_content(&file) else {
        return HostSearch::Unknown(format!("{place} cannot be read"));
    };
    let setting = |name: &str| config.get(name).and_then(Value::as_str);
    if setting("profile").is_some() {
        return HostSearch::Unknown("a profile may name another model".to_owned());
    }
    let Some(model) = setting("model") else {
        return HostSearch::On(format!("{place} names no model"));
    };
    let dir = file.parent().unwrap_or(&file);
    let catalog = dir.join(setting("model_catalog_json").unwrap_or("models_cache.json"));
    let place = text::path(&catalog);
    let known = file_content(&catalog);
    let Some(models) = known.as_ref().and_then(|known| known.get("models")?.as_array()) else {
        return HostSearch::Unknown(format!("{place} has no list of models"));
    };
    let entry = models.iter().find(|entry| entry["slug"] == model);
    match entry.map(|entry| entry["supports_search_tool"] == true) {
        Some(true) => HostSearch::On(format!("{model} can search by {place}")),
        Some(false) => HostSearch::Off(format!("{model} cannot search by {place}")),
        None => HostSearch::Off(format!("{place} has no model {model}")),
    }
}
