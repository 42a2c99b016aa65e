//! What a client's rules for tools say about one of its servers, in our form. A server whose rules cannot be carried over
//! exactly stays in its client's file.

use super::client::KnownClient;
use super::rule_file::{ClientRule, TurnedOff};
use crate::tool_rules::{ToolEffect, ToolRuleSet};
use base::text::{joined, visible};

/// A name that no server has. A pattern that matches all of its tools is about the tools of every server.
const NO_SERVER: &str = "\u{0}";

/// What the rules say about a server.
#[derive(Debug, Default)]
pub(crate) struct ServerRules {
    /// Its tools.
    pub(crate) tools: ToolRuleSet,
    /// Whether they turn the server off.
    pub(crate) is_off: bool,
}

/// Returns the globs over the tools of a server that a rule names.
pub(crate) fn globs(client: &KnownClient, rule: &ClientRule, server: &str) -> Vec<String> {
    let globs = (client.rules.globs)(&rule.pattern, server);
    if globs.iter().any(|glob| glob == "*") { vec!["*".to_owned()] } else { globs }
}

/// Returns whether the rule is about the tools of every server, and so about the tools of dynamic-mcp too.
pub(crate) fn is_policy(client: &KnownClient, rule: &ClientRule) -> bool {
    rule.turns_off == TurnedOff::No && globs(client, rule, NO_SERVER) == ["*"]
}

/// Returns what the rules say about one of the client's servers. `of_project`: a project has the server. `asks`: the client
/// shows its user the questions of servers.
///
/// # Errors
///
/// Says which of them servers.json cannot have.
pub(crate) fn rules_for(
    client: &KnownClient,
    server: &str,
    of_project: bool,
    rules: &[&ClientRule],
    asks: bool,
) -> Result<ServerRules, String> {
    let is_about = |rule: &&&ClientRule| !is_policy(client, rule) && !globs(client, rule, server).is_empty();
    for rule in rules.iter().filter(is_about) {
        if let Some(reason) = rule.inexact {
            return Err(format!("{}: {reason}", rule.written));
        }
    }
    let mut rules: Vec<&ClientRule> = rules.iter().copied().filter(|rule| rule.inexact.is_none()).collect();
    for rule in rules.iter().filter(|_| !of_project) {
        if let TurnedOff::NamedIn(name, dir) = &rule.turns_off
            && name == server
        {
            return Err(format!(
                "it is off in {}, and a server of dynamic-mcp is on everywhere",
                visible(dir)
            ));
        }
    }
    let is_off = is_off(server, of_project, &rules);
    let denies = |rule: &&&ClientRule| rule.effect == ToolEffect::Deny;
    let last_policy = rules.iter().rfind(|rule| is_policy(client, rule)).filter(denies);
    if let Some(rule) = last_policy {
        return Err(format!("{}: it denies every tool, and so those of dynamic-mcp", rule.written));
    }
    // The client itself denies, asks for, or allows all tools of dynamic-mcp by the same rule.
    rules.retain(|rule| !is_policy(client, rule));
    if client.rules.denies_first {
        // There a denial of any file counts before a question of any other.
        rules.sort_by_key(|rule| rule.effect);
    }
    let mut tools = ToolRuleSet::default();
    for rule in &rules {
        let globs = globs(client, rule, server);
        // Without a question is not the same as only.
        let counts = rule.effect != ToolEffect::Allow || client.rules.allow_lifts;
        if !globs.is_empty() && counts && tools.add(&globs, rule.effect) {
            return Err(format!("{}: it is an exception that a list cannot have", rule.written));
        }
    }
    if client.rules.has_agents && tools.denies_all() {
        let mut off = rules.iter().filter(denies).filter(|rule| globs(client, rule, server) == ["*"]);
        let rule = off.next_back().map_or("", |rule| &rule.written);
        return Err(format!("{rule}: its tools are off, except for agents that turn them on"));
    }
    let asked = joined(tools.asked().map(visible));
    if !asked.is_empty() && !asks {
        return Err(format!("{} asks before {asked}, and shows no questions of servers", client.label));
    }
    Ok(ServerRules { tools, is_off })
}

/// Returns whether rules turn a server off.
fn is_off(server: &str, of_project: bool, rules: &[&ClientRule]) -> bool {
    let (mut is_off, mut is_allowed) = (false, true);
    for rule in rules {
        match &rule.turns_off {
            TurnedOff::No | TurnedOff::NamedIn(..) => {}
            TurnedOff::Named(name) => is_off |= name == server,
            TurnedOff::NamedOfProject(name) => is_off |= of_project && name == server,
            TurnedOff::AllBut(allowed) => is_allowed = allowed.iter().any(|name| name == server),
        }
    }
    is_off || !is_allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::apps::ClientApp;
    use crate::clients::rule_file::RuleFile;
    use serde_json::{Value, json};

    fn read(app: &str, root: &Value) -> (ClientApp, RuleFile) {
        let mut file = RuleFile { path: "/f".into(), ..RuleFile::default() };
        let app = ClientApp::find(app).unwrap();
        (app.rules.read)(&mut file, root);
        (app, file)
    }

    /// The rules, or the reason why they cannot be carried over.
    fn rules(app: &str, server: &str, root: &Value) -> Value {
        let (app, file) = read(app, root);
        let rules: Vec<_> = file.rules.iter().collect();
        match rules_for(&app, server, false, &rules, true) {
            Ok(rules) => Value::Object(rules.tools.members()),
            Err(reason) => reason.into(),
        }
    }

    #[test]
    fn the_rules_of_every_client_name_tools_of_its_servers() {
        let opencode = json!({
            "tools": {"gh_delete_repository": false, "write": false, "jira*": false, "jira_get": true},
            "permission": {"*": "ask", "bash": {"*": "ask", "git *": "allow"}, "gh_merge*": "ask", "my_srv_x": {"*": "deny"}},
            "permissions": [{"action": "gh_push", "resource": "*", "effect": "deny"}, {"action": "gh_x", "resource": "a", "effect": "deny"}],
            "agent": {"plan": {"tools": {"other_*": false}}}
        });
        let claude = json!({"permissions": {
            "deny": ["mcp__gh__delete_repository", "mcp__jira", "Bash(rm *)", "mcp__*__drop*", "mcp__gh__x(a:b)"],
            "ask": ["mcp__gh__merge_*", "mcp__*"],
            "allow": ["mcp__gh__get", "mcp__my_srv"]
        }});
        let cursor = json!({"permissions": {"allow": ["Mcp(gh:get)"], "deny": ["Mcp(gh:del*)", "Mcp(*:x)", "Shell(rm)"]}});
        let gemini =
            json!({"tools": {"exclude": ["mcp_gh_del", "run_shell_command"]}, "excludeTools": ["gh__x"]});
        for (app, server, root, expected) in [
            ("opencode", "gh", &opencode, json!({"deny": ["delete_repository", "push"], "ask": ["merge*"]})),
            ("opencode", "jira", &opencode, json!({"allow": ["get"]})),
            ("opencode", "my.srv", &opencode, json!({"deny": ["x"]})),
            ("opencode", "fs", &opencode, json!({})),
            (
                "claude-code",
                "gh",
                &claude,
                json!({"deny": ["*__drop*", "_drop*", "delete_repository", "drop*"], "ask": ["merge_*"]}),
            ),
            ("claude-code", "jira", &claude, json!({"deny": ["*"]})),
            ("claude-code", "my.srv", &claude, json!({"deny": ["*__drop*", "_drop*", "drop*"]})),
            (
                "claude-code",
                "gh",
                // A question for all tools lifts no denial.
                &json!({"permissions": {"ask": ["mcp__gh"], "deny": ["mcp__gh__delete_repository"]}}),
                json!({"deny": ["delete_repository"], "ask": ["*"]}),
            ),
            ("cursor", "gh", &cursor, json!({"deny": ["del*", "x"]})),
            ("gemini", "gh", &gemini, json!({"deny": ["del", "x"]})),
            (
                "gemini",
                "my.server",
                &json!({"tools": {"exclude": ["mcp_my.server_drop", "mcp_my_server_x"]}}),
                json!({"deny": ["drop", "x"]}),
            ),
        ] {
            assert_eq!(rules(app, server, root), expected, "{app} {server}");
        }
    }

    #[test]
    fn a_rule_for_everything_is_a_policy() {
        let root = json!({"permission": "ask", "permissions": [{"action": "gh_*", "effect": "ask"}]});
        let (app, file) = read("opencode", &root);
        let policies: Vec<_> = file.rules.iter().map(|rule| is_policy(&app, rule)).collect();
        assert_eq!(policies, [true, false]);
        let denied = json!({"permission": {"*": "deny", "gh_get": "allow"}});
        assert_eq!(
            rules("opencode", "gh", &denied),
            "`permission`: * deny: it denies every tool, and so those of dynamic-mcp"
        );
    }
}
