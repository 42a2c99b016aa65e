//! Zed.

use serde_json::Value;

use super::client::{ClientDir, EntryMembers, KnownClient, TimeoutMeaning, ToolRules};
use super::rule_file::RuleFile;
use crate::json::{into_members, members};
use crate::tool_rules::{ToolEffect, globs_after};

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Config, "zed/settings.json")],
    project_files: &[".zed/settings.json"],
    servers: |_| &["context_servers"],
    own_meaning: &["remote"],
    usual_form,
    timeout: TimeoutMeaning::SECONDS,
    passes_environment: true,
    rules: ToolRules {
        read,
        globs: |pattern, server| globs_after(&format!("mcp:{server}:"), pattern),
        denies_first: true,
        ..ToolRules::NONE
    },
    ..KnownClient::new("zed", "Zed", &["zed", "Zed", "zeditor"])
};

/// Earlier entries have the program and its arguments in `command`.
fn usual_form(entry: &mut EntryMembers) -> Result<(), String> {
    if entry.contains_key("settings") && !entry.contains_key("command") && !entry.contains_key("url") {
        return Err("an extension of Zed starts it".to_owned());
    }
    if entry.get("command").is_some_and(Value::is_object) {
        let mut command = into_members(entry.shift_remove("command"));
        let path = command.shift_remove("path").unwrap_or_default();
        entry.extend(command);
        entry.insert("command".to_owned(), path);
    }
    Ok(())
}

/// Only the default of a tool counts: its patterns are about arguments, and a call of a server's tool has none there.
fn read(file: &mut RuleFile, root: &Value) {
    for (tool, rules) in members(root.pointer("/agent/tool_permissions/tools")) {
        if tool.starts_with("mcp:") && rules["default"] == "deny" {
            file.add("agent.tool_permissions.tools", tool, tool.clone(), ToolEffect::Deny);
        }
    }
}
