//! Cursor, and its command line.

use super::client::{KnownClient, ClientDir, ToolRules, files_in};
use super::string_rules::{Fields, VariableForm};
use crate::tool_rules::globs_after;

/// What it knows about its window.
const WINDOW_NAMES: &[&str] = &["workspaceFolder", "workspaceFolderBasename"];

pub(super) static CLIENT: KnownClient = KnownClient {
    has_window: true,
    user_files: &[(ClientDir::Named("", ".cursor"), "mcp.json")],
    project_files: &[".cursor/mcp.json"],
    shows_questions: |_| true,
    forms: &[VariableForm::Editor, VariableForm::ClientOnly(WINDOW_NAMES)],
    fields: Fields::Only(&["command", "args", "env", "env_file", "url", "headers", "oauth"]),
    variable: Some("${env:NAME}"),
    rules: ToolRules {
        user_files: |env| files_in(env.home().map(|home| home.join(".cursor")), &["cli-config.json"]),
        project_files: &[".cursor/cli.json"],
        read: |file, root| {
            file.read_lists(root, "permissions", |rule| {
                rule.strip_prefix("Mcp(")?.strip_suffix(')').map(str::to_owned)
            });
        },
        globs: |pattern, server| {
            let parts = pattern.split_once(':').filter(|(of, _)| has_pattern(of, server));
            parts.map_or_else(Vec::new, |(_, tools)| globs_after("", tools))
        },
        denies_first: true,
        ..ToolRules::NONE
    },
    ..KnownClient::new("cursor", "Cursor", &["cursor", "Cursor"])
};

/// Returns whether a pattern matches the whole name of a server.
fn has_pattern(pattern: &str, server: &str) -> bool {
    // The rest of the pattern is its end, or may match nothing before that.
    globs_after(server, &format!("{pattern}\0")).iter().any(|rest| rest.trim_start_matches('*') == "\0")
}
