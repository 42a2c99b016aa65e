//! The rules for tools that a client's files have beside the servers: which tools are denied, and before which the user
//! is asked. `rule_files` reads them. What an entry says about its own tools is in `translate`.

use std::path::PathBuf;

use super::tool_rules::{ToolEffect, ToolRuleSet, globs_after};
use crate::clients::apps::ClientApp;

/// A name that no server has. A pattern that matches all of its tools is about the tools of every server.
const NO_SERVER: &str = "\u{0}";

/// Gemini CLI's own tools, by their names and those of their classes.
const GEMINI_TOOLS: &[&str] = &[
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

/// A rule of a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientRule {
    /// The names of tools, as the client forms them. `*` stands for any text, `?` for any character.
    pub pattern: String,
    /// What it says about them.
    pub effect: ToolEffect,
    /// Where it stands and what it is, for texts: "`permissions.deny`: mcp__github__delete".
    pub written: String,
    /// The agent that it is for; `None`: all.
    pub agent: Option<String>,
    /// The servers that the client does not even start for it.
    pub(crate) turns_off: TurnedOff,
}

/// The servers that a rule turns off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnedOff {
    /// None.
    No,
    /// The one that it names.
    Named,
    /// The one that it names, if a project has it.
    NamedOfProject,
    /// All but these. Of several such rules, the last one counts.
    AllBut(Vec<String>),
}

/// The rules of one file, the later one before the earlier one.
#[derive(Debug)]
pub(crate) struct RuleFile {
    /// The client.
    pub app: ClientApp,
    /// The file.
    pub path: PathBuf,
    /// Whether it belongs to a project.
    pub is_project: bool,
    /// Its rules.
    pub rules: Vec<ClientRule>,
    /// What else it decides for all tools, such as "`approval_policy`".
    pub policies: Vec<String>,
}

impl ClientRule {
    /// Returns whether the rule is about the tools of every server, and so about the tools of dynamic-mcp too.
    pub(crate) fn is_policy(&self, app: ClientApp) -> bool {
        self.globs(app, NO_SERVER) == ["*"]
    }

    /// Returns whether it turns off a server of this name, by itself.
    pub(crate) fn turns_off(&self, app: ClientApp, server: &str) -> bool {
        match &self.turns_off {
            TurnedOff::No | TurnedOff::NamedOfProject => false,
            TurnedOff::Named => self.globs(app, server) == ["*"],
            TurnedOff::AllBut(names) => names.iter().all(|name| name != server),
        }
    }

    /// Returns whether it turns off the servers that it does not name.
    pub(crate) fn names_what_stays(&self) -> bool {
        matches!(self.turns_off, TurnedOff::AllBut(_))
    }

    /// Returns whether it is about servers of projects alone.
    pub(crate) fn is_of_projects(&self) -> bool {
        self.turns_off == TurnedOff::NamedOfProject
    }

    /// Returns whether it can be about nothing but tools of servers.
    pub(crate) fn names_servers(&self, app: ClientApp) -> bool {
        match app {
            ClientApp::ClaudeCode | ClientApp::Gemini => self.pattern.starts_with("mcp_"),
            ClientApp::Cursor => true,
            _ => false,
        }
    }

    /// Returns whether it is about a tool that any server may have: its name alone, and none of Gemini CLI's own.
    pub(crate) fn is_about_any_server(&self) -> bool {
        let name = self.pattern();
        !name.contains("__") && !name.starts_with("mcp_") && !GEMINI_TOOLS.contains(&name)
    }

    /// Returns what it matches, without the arguments in parentheses.
    pub(crate) fn pattern(&self) -> &str {
        self.pattern.split('(').next().unwrap_or_default()
    }

    /// Returns the globs over the tools of a server that it names, by the name that the client has for the server.
    pub(crate) fn globs(&self, app: ClientApp, server: &str) -> Vec<String> {
        let name = in_tool_name(server);
        let mut globs = match app {
            ClientApp::Opencode => globs_after(&format!("{name}_"), &self.pattern),
            ClientApp::ClaudeCode if self.pattern == format!("mcp__{name}") => vec!["*".to_owned()],
            ClientApp::ClaudeCode if !self.pattern.contains('(') => {
                globs_after(&format!("mcp__{name}__"), &self.pattern)
            }
            ClientApp::Cursor => {
                let parts = self.pattern.split_once(':').filter(|(of, _)| has_pattern(of, server));
                parts.map_or_else(Vec::new, |(_, tools)| globs_after("", tools))
            }
            ClientApp::Gemini => {
                let mut globs = globs_after(&format!("mcp_{name}_"), &self.pattern);
                // It keeps the dots in names.
                if server != name && server.replace('.', "_") == name {
                    globs.extend(globs_after(&format!("mcp_{server}_"), &self.pattern));
                }
                globs.extend(globs_after(&format!("{name}__"), &self.pattern));
                globs
            }
            ClientApp::Codex => globs_after(&format!("mcp__{server}__"), &self.pattern),
            _ => Vec::new(),
        };
        if globs.iter().any(|glob| glob == "*") {
            globs = vec!["*".to_owned()];
        }
        globs
    }
}

/// Returns the rules of a client for one of its servers, and the rules whose exceptions servers.json cannot express.
pub(crate) fn rules_for<'r>(
    app: ClientApp,
    server: &str,
    rules: impl IntoIterator<Item = &'r ClientRule>,
) -> (ToolRuleSet, Vec<&'r ClientRule>) {
    let mut set = ToolRuleSet::default();
    let mut incomplete = Vec::new();
    let mut rules: Vec<_> =
        rules.into_iter().filter(|rule| rule.agent.is_none() && rule.turns_off == TurnedOff::No).collect();
    if app.denies_first {
        // There a denial of any file counts before a question of any other.
        rules.sort_by_key(|rule| rule.effect);
    }
    for rule in rules {
        let globs = rule.globs(app, server);
        // The client itself denies, asks for, or allows all tools of dynamic-mcp by the same rule.
        let is_the_clients = rule.is_policy(app);
        // Without a question is not the same as only. Codex says so only of exceptions.
        let lifts = rule.effect != ToolEffect::Allow || app.allow_lifts;
        if !globs.is_empty() && lifts && !is_the_clients && set.add(&globs, rule.effect) {
            incomplete.push(rule);
        }
    }
    (set, incomplete)
}

/// Returns whether rules of a client turn one of its servers off. `is_project`: a project has the server.
pub(crate) fn is_off<'r>(
    app: ClientApp,
    server: &str,
    is_project: bool,
    rules: impl IntoIterator<Item = &'r ClientRule>,
) -> bool {
    let (mut is_off, mut is_allowed) = (false, true);
    for rule in rules {
        match &rule.turns_off {
            TurnedOff::No => {}
            TurnedOff::NamedOfProject if !is_project => {}
            TurnedOff::Named | TurnedOff::NamedOfProject => is_off |= rule.globs(app, server) == ["*"],
            TurnedOff::AllBut(allowed) => is_allowed = allowed.iter().any(|name| name == server),
        }
    }
    is_off || !is_allowed
}

/// Returns whether a pattern matches the whole name of a server.
fn has_pattern(pattern: &str, server: &str) -> bool {
    // The rest of the pattern is its end, or may match nothing before that.
    globs_after(server, &format!("{pattern}\0")).iter().any(|rest| rest.trim_start_matches('*') == "\0")
}

/// Returns the name of a server, as it stands before the names of its tools.
pub(crate) fn in_tool_name(server: &str) -> String {
    server
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '\0') { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::rules::rule_files::read;
    use serde_json::{Value, json};

    fn rules(app: ClientApp, server: &str, root: &Value) -> Value {
        let file = read(app, Path::new("/f"), false, root);
        Value::Object(rules_for(app, server, &file.rules).0.members())
    }

    #[test]
    fn the_rules_of_every_client_name_tools_of_its_servers() {
        let opencode = json!({
            "tools": {"gh_delete_repository": false, "write": false, "jira*": false, "jira_get": true},
            "permission": {"*": "ask", "bash": {"*": "ask", "git *": "allow"}, "gh_merge*": "ask", "my_srv_x": {"*": "deny"}},
            "permissions": [{"action": "gh_push", "resource": "*", "effect": "deny"}, {"action": "gh_x", "resource": "a", "effect": "deny"}],
            "agent": {"plan": {"tools": {"gh_*": false}}}
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
            (
                ClientApp::Opencode,
                "gh",
                &opencode,
                json!({"deny": ["delete_repository", "push"], "ask": ["merge*"]}),
            ),
            (ClientApp::Opencode, "jira", &opencode, json!({"allow": ["get"]})),
            (ClientApp::Opencode, "my.srv", &opencode, json!({"deny": ["x"]})),
            (ClientApp::Opencode, "fs", &opencode, json!({})),
            (
                ClientApp::ClaudeCode,
                "gh",
                &claude,
                json!({"deny": ["*__drop*", "_drop*", "delete_repository", "drop*"], "ask": ["merge_*"]}),
            ),
            (ClientApp::ClaudeCode, "jira", &claude, json!({"deny": ["*"]})),
            (ClientApp::ClaudeCode, "my.srv", &claude, json!({"deny": ["*__drop*", "_drop*", "drop*"]})),
            (
                ClientApp::ClaudeCode,
                "gh",
                // A question for all tools lifts no denial.
                &json!({"permissions": {"ask": ["mcp__gh"], "deny": ["mcp__gh__delete_repository"]}}),
                json!({"deny": ["delete_repository"], "ask": ["*"]}),
            ),
            (ClientApp::Cursor, "gh", &cursor, json!({"deny": ["del*", "x"]})),
            (ClientApp::Gemini, "gh", &gemini, json!({"deny": ["del", "x"]})),
            (
                ClientApp::Gemini,
                "my.server",
                &json!({"tools": {"exclude": ["mcp_my.server_drop", "mcp_my_server_x"]}}),
                json!({"deny": ["drop", "x"]}),
            ),
        ] {
            assert_eq!(rules(app, server, root), expected, "{app:?} {server}");
        }
    }

    #[test]
    fn a_rule_for_everything_is_a_policy() {
        let root = json!({"permission": "ask", "permissions": [{"action": "gh_*", "effect": "ask"}]});
        let file = read(ClientApp::Opencode, Path::new("/f"), false, &root);
        let policies: Vec<_> = file.rules.iter().map(|rule| rule.is_policy(ClientApp::Opencode)).collect();
        assert_eq!(policies, [true, false]);
        let denied = json!({"permission": {"*": "deny", "gh_get": "allow"}});
        assert_eq!(
            rules(ClientApp::Opencode, "gh", &denied),
            json!({}),
            "the client denies all but this one"
        );
    }
}
