//! OpenCode, in both forms of its file.

use serde_json::{Value, json};

use super::client::{KnownClient, ClientDir, TimeoutMeaning, ToolRules};
use super::host_search::HostSearch;
use super::rule_file::{RuleFile, in_tool_name};
use super::string_rules::{Fields, VariableForm};
use crate::json::members;
use crate::source::has_nested_servers;
use crate::tool_rules::{ToolEffect, globs_after};

pub(super) static CLIENT: KnownClient = KnownClient {
    user_files: &[
        (ClientDir::Named("XDG_CONFIG_HOME", ".config"), "opencode/opencode.jsonc"),
        (ClientDir::Named("XDG_CONFIG_HOME", ".config"), "opencode/opencode.json"),
    ],
    project_files: &["opencode.jsonc", "opencode.json", ".opencode/opencode.jsonc", ".opencode/opencode.json"],
    servers: |root| if has_nested_servers(root) { &["mcp", "servers"] } else { &["mcp"] },
    // Of all servers. It is not carried over.
    beside_servers: "timeout",
    // Its second version does.
    shows_questions: has_nested_servers,
    own_fields: |root| if has_nested_servers(root) { json!({"codemode": false}) } else { Value::Null },
    tool_search: |_, _| HostSearch::Off("it has no such search".to_owned()),
    ..made_of_it("opencode", "OpenCode", &["opencode"])
};

/// Returns a client that is OpenCode, or made of its first version.
pub(super) const fn made_of_it(
    id: &'static str,
    label: &'static str,
    programs: &'static [&'static str],
) -> KnownClient {
    KnownClient {
        puts_project_over_user: true,
        servers: |_| &["mcp"],
        timeout: TimeoutMeaning::EVERYTHING,
        passes_environment: true,
        asks: false,
        forms: &[VariableForm::OpenCode],
        optional: Fields::All,
        is_empty_in_env: true,
        variable: Some("{env:NAME}"),
        local_type: Some("local"),
        env: "environment",
        command_has_args: true,
        rules: ToolRules {
            read,
            globs: |pattern, server| globs_after(&format!("{}_", in_tool_name(server)), pattern),
            allow_lifts: true,
            has_agents: true,
            ..ToolRules::NONE
        },
        ..KnownClient::new(id, label, programs)
    }
}

/// Reads `tools`, `permission` and `permissions`, in the order in which they count, and the rules of single agents.
fn read(file: &mut RuleFile, root: &Value) {
    read_object(file, "", root);
    for key in ["agent", "agents", "mode"] {
        for (name, agent) in members(root.get(key)) {
            let first = file.rules.len();
            read_object(file, &format!("{key}.{name}."), agent);
            let of_agent = file.rules.iter_mut().skip(first);
            of_agent.for_each(|rule| rule.inexact = Some("it is for one agent, and dynamic-mcp knows no agents"));
        }
    }
}

fn read_object(file: &mut RuleFile, at: &str, object: &Value) {
    let tools = members(object.get("tools"));
    for (pattern, is_on) in tools.filter_map(|(name, is_on)| Some((name, is_on.as_bool()?))) {
        let effect = if is_on { ToolEffect::Allow } else { ToolEffect::Deny };
        file.add(&format!("{at}tools"), &format!("{pattern} {is_on}"), pattern.clone(), effect);
    }
    let mut add = |key: &str, pattern: &str, effect: &Value| {
        if let Some((name, effect)) = ToolEffect::NAMED.into_iter().find(|(name, _)| effect == name) {
            file.add(&format!("{at}{key}"), &format!("{pattern} {name}"), pattern.to_owned(), effect);
        }
    };
    let all = object.get("permission").filter(|all| all.is_string()).map(|all| ("*", all));
    let rules = members(object.get("permission")).map(|(pattern, value)| (pattern.as_str(), value));
    for (pattern, value) in all.into_iter().chain(rules) {
        // The calls of a server's tools are the resource `*`.
        add("permission", pattern, value.get("*").unwrap_or(value));
    }
    for rule in object.get("permissions").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| rule.get(key).and_then(Value::as_str);
        if let (Some(pattern), Some(effect), None | Some("*")) =
            (text("action"), rule.get("effect"), text("resource"))
        {
            add("permissions", pattern, effect);
        }
    }
}
