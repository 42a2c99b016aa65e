//! Gemini CLI 0.61.

use serde_json::Value;

use super::client::{KnownClient, ClientDir, TimeoutMeaning, ToolRules, files_in};
use super::gemini_extensions;
use super::host_search::HostSearch;
use super::package::{ClientSetting, SettingChange};
use super::rule_file::{RuleFile, TurnedOff, in_tool_name};
use super::string_rules::VariableForm;
use crate::json::{members, strings};
use crate::tool_rules::{ToolEffect, globs_after};
use config::env::Env;

/// Where `gemini mcp disable` notes what it turns off.
const ENABLEMENT: &str = "mcp-server-enablement.json";

/// Its own tools, by their names and those of their classes.
const OWN_TOOLS: &[&str] = &[
    "EditTool",
    "GlobTool",
    "GrepTool",
    "LSTool",
    "MemoryTool",
    "ReadFileTool",
    "ReadManyFilesTool",
    "RipGrepTool",
    "ShellTool",
    "WebFetchTool",
    "WebSearchTool",
    "WriteFileTool",
    "ask_user",
    "edit",
    "glob",
    "google_web_search",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "replace",
    "run_shell_command",
    "save_memory",
    "search_file_content",
    "web_fetch",
    "write_file",
    "write_todos",
];

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[(ClientDir::Named("", ".gemini"), "settings.json")],
    project_files: &[".gemini/settings.json"],
    packages: |context| {
        let Some(dir) = context.env.home().map(|home| home.join(".gemini")) else { return Vec::new() };
        // Servers are in lower case there.
        let off = |server: &str| {
            let keys = [&*server.to_lowercase(), "enabled"];
            ClientSetting::new(&dir.join(ENABLEMENT), &keys, SettingChange::Set(false.into()))
        };
        gemini_extensions::packages(context, &dir.join("extensions"), "gemini-extension.json", off)
    },
    timeout: TimeoutMeaning::MILLISECONDS,
    own_meaning: &["authProviderType", "targetAudience", "targetServiceAccount"],
    withholds: &["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTH", "CREDENTIAL"],
    forms: &[VariableForm::Braces, VariableForm::BareName],
    is_empty_in_env: true,
    variable: Some("${NAME}"),
    allowed_list: &["mcp", "allowed"],
    rules: ToolRules {
        user_files: |env| files_in(env.home().map(|home| home.join(".gemini")), &[ENABLEMENT]),
        read: |file, root| read_with(file, root, "mcp_", "_"),
        globs,
        ..ToolRules::NONE
    },
    tool_search: |_, _| HostSearch::Off("it has no such search".to_owned()),
    remarks,
    ..KnownClient::new("gemini", "Gemini CLI", &["gemini"])
};

/// Reads the rules of a file. `before` and `after`: what stands around the server in the full name of a tool.
pub(super) fn read_with(file: &mut RuleFile, root: &Value, before: &str, after: &str) {
    if file.path.ends_with(ENABLEMENT) {
        let disabled = members(Some(root)).filter(|(_, server)| server["enabled"] == false);
        return disabled.for_each(|(name, _)| file.turn_off("enabled", name, TurnedOff::Named(name.clone())));
    }
    for (key, names) in [("tools.exclude", root.pointer("/tools/exclude")), ("excludeTools", root.get("excludeTools"))] {
        strings(names).for_each(|name| file.add(key, name, name.to_owned(), ToolEffect::Deny));
    }
    for (server, _) in members(root.get("mcpServers")).filter(|(_, server)| server["trust"] == true) {
        file.add("trust", server, format!("{before}{}{after}*", in_tool_name(server)), ToolEffect::Allow);
    }
    let excluded = strings(root.pointer("/mcp/excluded"));
    excluded.for_each(|name| file.turn_off("mcp.excluded", name, TurnedOff::Named(name.to_owned())));
    if let Some(allowed) = root.pointer("/mcp/allowed").filter(|allowed| allowed.is_array()) {
        let names: Vec<String> = strings(Some(allowed)).map(str::to_owned).collect();
        file.turn_off("mcp.allowed", &names.join(", "), TurnedOff::AllBut(names.clone()));
    }
}

fn globs(pattern: &str, server: &str) -> Vec<String> {
    let name = in_tool_name(server);
    let mut globs = globs_after(&format!("mcp_{name}_"), pattern);
    // It keeps the dots in names.
    if server != name && server.replace('.', "_") == name {
        globs.extend(globs_after(&format!("mcp_{server}_"), pattern));
    }
    globs.extend(globs_after(&format!("{name}__"), pattern));
    // A tool of any server may have such a name. What is in parentheses limits the arguments of its own tools.
    let is_of_any = !pattern.contains("__") && !pattern.starts_with("mcp_") && !pattern.contains(['(', '*', '?']);
    if is_of_any && !OWN_TOOLS.contains(&pattern) {
        globs.extend(globs_after("", pattern));
    }
    globs
}

fn remarks(env: &Env) -> Vec<String> {
    let mut remarks = vec![
        "its servers get the variables that hold no secrets and are usual; name others that they need in `inherit_env`"
            .to_owned(),
    ];
    let policies = env.home().and_then(|home| home.join(".gemini/policies").read_dir().ok());
    let mut policies = policies.into_iter().flatten().flatten();
    if policies.any(|file| file.path().extension().is_some_and(|end| end == "toml")) {
        remarks.push(
            "its policies in ~/.gemini/policies are not read; write what they deny into `tools.deny` of the server"
                .to_owned(),
        );
    }
    remarks
}
