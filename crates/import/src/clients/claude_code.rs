//! Claude Code 2.1.332.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::claude_plugins;
use super::client::{KnownClient, ProjectPlace, ClientDir, HostOs, TimeoutMeaning, ToolRules, files_in, named_dir};
use super::host_search::{HostSearch, file_content};
use super::rule_file::{RuleFile, TurnedOff, in_tool_name};
use super::string_rules::{Fields, VariableForm};
use crate::json::{members, strings};
use crate::tool_rules::{ToolEffect, globs_after};
use config::env::Env;

/// Moves its files.
const DIR_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named(DIR_VARIABLE, ""), ".claude.json")],
    project_files: &[".mcp.json"],
    projects,
    packages: |context| {
        let dir = settings_dir(context.env);
        dir.map_or_else(Vec::new, |dir| claude_plugins::packages(context, &dir, &user_settings(context.env)))
    },
    // Smaller numbers are ignored.
    timeout: TimeoutMeaning::Limits { names: &["tools"], unit: 0.001, least: 1000.0 },
    own_meaning: &["headersHelper"],
    passes_environment: true,
    shows_questions: |_| true,
    forms: &[VariableForm::Braces],
    fields: Fields::Only(&["command", "args", "env", "url", "headers"]),
    variable: Some("${NAME}"),
    local_type: Some("stdio"),
    own_fields: |_| json!({"alwaysLoad": true}),
    rules: ToolRules {
        user_files: user_settings,
        project_files: &[".claude/settings.json", ".claude/settings.local.json"],
        read,
        globs: |pattern, server| {
            let name = in_tool_name(server);
            match pattern {
                pattern if pattern == format!("mcp__{name}") => vec!["*".to_owned()],
                // A rule for arguments is about no whole tool.
                pattern if pattern.contains('(') => Vec::new(),
                pattern => globs_after(&format!("mcp__{name}__"), pattern),
            }
        },
        renamed: Some(renamed),
        denies_first: true,
        ..ToolRules::NONE
    },
    tool_search,
    ..KnownClient::new("claude-code", "Claude Code", &["claude"])
};

/// The user's settings, and those that the system's administrator has put above them.
fn user_settings(env: &Env) -> Vec<PathBuf> {
    let managed = PathBuf::from(match HostOs::CURRENT {
        HostOs::Linux => "/etc/claude-code/managed-settings.json",
        HostOs::MacOs => "/Library/Application Support/ClaudeCode/managed-settings.json",
        HostOs::Windows => r"C:\Program Files\ClaudeCode\managed-settings.json",
    });
    let mut files = files_in(settings_dir(env), &["settings.json"]);
    files.push(managed);
    files
}

fn settings_dir(env: &Env) -> Option<PathBuf> {
    named_dir(DIR_VARIABLE, ".claude", env)
}

/// The user's file has a part for each directory in which the client was used.
fn projects(root: &Value) -> Vec<ProjectPlace> {
    let places = members(root.get("projects")).filter(|(_, project)| project.get("mcpServers").is_some());
    let place = |dir: &String| (["projects", dir, "mcpServers"].map(str::to_owned).to_vec(), PathBuf::from(dir));
    places.map(|(dir, _)| place(dir)).collect()
}

fn read(file: &mut RuleFile, root: &Value) {
    file.read_lists(root, "permissions", |rule| Some(rule.to_owned()));
    read_hooks(file, root);
    for name in strings(root.get("disabledMcpjsonServers")) {
        let turned_off = if file.is_project { TurnedOff::Named } else { TurnedOff::NamedOfProject };
        file.turn_off("disabledMcpjsonServers", name, turned_off(name.to_owned()));
    }
    let is_project = file.is_project;
    for name in strings(root.get("disabledMcpServers")).filter(|_| is_project) {
        file.turn_off("disabledMcpServers", name, TurnedOff::Named(name.to_owned()));
    }
    for (dir, project) in members(root.get("projects")) {
        for name in strings(project.get("disabledMcpServers")) {
            file.turn_off("disabledMcpServers", dir, TurnedOff::NamedIn(name.to_owned(), dir.clone()));
        }
    }
    let named = |key: &str| {
        let list = root.get(key)?.as_array()?.iter();
        Some(list.map(|server| Some(server.get("serverName")?.as_str()?.to_owned())).collect::<Vec<_>>())
    };
    for name in named("deniedMcpServers").into_iter().flatten().flatten() {
        file.turn_off("deniedMcpServers", &name, TurnedOff::Named(name.clone()));
    }
    // One that is allowed by its command or address may be any.
    if let Some(allowed) = named("allowedMcpServers").and_then(|names| names.into_iter().collect()) {
        let allowed: Vec<String> = allowed;
        file.turn_off("allowedMcpServers", &allowed.join(", "), TurnedOff::AllBut(allowed.clone()));
    }
}

/// Reads the hooks that watch tools: a regular expression for the name of each.
fn read_hooks(file: &mut RuleFile, root: &Value) {
    for (event, hooks) in members(root.get("hooks")) {
        let matchers = hooks.as_array().into_iter().flatten().filter_map(|hook| hook["matcher"].as_str());
        for matcher in matchers.flat_map(|matcher| matcher.split('|')).filter(|name| name.contains("mcp__")) {
            let pattern = matcher.trim_matches(['^', '$', '(', ')']).replace(".*", "*");
            file.add(&format!("hooks.{event}"), matcher, pattern, ToolEffect::Ask);
            file.rules.iter_mut().last().into_iter().for_each(|rule| rule.inexact = Some("a hook watches its tools"));
        }
    }
}

/// In a rule that allows, a wildcard may stand behind the name of the server.
fn renamed(rule: &str, server: &str, own: &str, group: &str) -> Option<String> {
    let rest = rule.strip_prefix(&format!("mcp__{}", in_tool_name(server)))?;
    let tool = if rest.is_empty() { "*" } else { rest.strip_prefix("__")? };
    Some(format!("mcp__{}__{}__{tool}", in_tool_name(own), in_tool_name(group)))
}

/// It hides the tools of servers, but lists their names. A value in `env` of its settings counts more than the environment.
fn tool_search(_: &KnownClient, env: &Env) -> HostSearch {
    let settings = files_in(settings_dir(env), &["settings.json"]).pop();
    let settings = settings.as_deref().and_then(file_content).unwrap_or_default();
    let value = |name: &str| {
        let set = settings.get("env").and_then(|env| env.get(name)?.as_str());
        set.or_else(|| env.get_non_empty(name)).map(str::to_owned)
    };
    let is_true = |value: &str| ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str());
    let mut denied = strings(settings.get("permissions").and_then(|rules| rules.get("deny")));
    const BETAS: &str = "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS";
    if value(BETAS).is_some_and(|value| is_true(&value)) {
        return HostSearch::Off(format!("{BETAS} is set"));
    }
    if denied.any(|rule| rule == "ToolSearch") {
        return HostSearch::Off("`permissions.deny` has ToolSearch".to_owned());
    }
    match value("ENABLE_TOOL_SEARCH").as_deref() {
        Some("auto:0") => HostSearch::On("ENABLE_TOOL_SEARCH is auto:0".to_owned()),
        Some("auto:100") => HostSearch::Off("ENABLE_TOOL_SEARCH is auto:100".to_owned()),
        Some(auto) if auto.starts_with("auto") => HostSearch::Unknown(format!("ENABLE_TOOL_SEARCH is {auto}")),
        Some(set) if is_true(set) => HostSearch::On("ENABLE_TOOL_SEARCH is set".to_owned()),
        Some(_) => HostSearch::Off("ENABLE_TOOL_SEARCH turns it off".to_owned()),
        None if value("ANTHROPIC_BASE_URL").is_some() || value("CLAUDE_CODE_USE_VERTEX").is_some() => {
            HostSearch::Unknown("its API may refuse it".to_owned())
        }
        None => HostSearch::On("nothing turns it off".to_owned()),
    }
}
