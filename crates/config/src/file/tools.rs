//! The rules for tools in a config file.

use super::values::GlobPattern;
use crate::object::{config_keys, config_object};
use std::collections::BTreeMap;

config_object! {
    /// Rules for tools: globs over the names that the server gives them.
    #[derive(Clone)]
    pub struct ToolsEntry {
        /// The only tools that may be used. Without it, all.
        #[schemars(extend("examples" = [["get_*", "list_*"]]))]
        allow: Option<Vec<GlobPattern>>,
        /// Tools that no route lists, describes, calls or exposes.
        #[schemars(extend("default" = [], "examples" = [["delete_*"]]))]
        deny: Option<Vec<GlobPattern>>,
        /// Tools whose calls the user confirms one by one.
        #[schemars(extend("default" = [], "examples" = [["{create,update}_*"]]))]
        ask: Option<Vec<GlobPattern>>,
        /// Tools that count as read-only whatever the server says.
        #[schemars(extend("default" = [], "examples" = [["get_*"]]))]
        read_only: Option<Vec<GlobPattern>>,
        /// The same as `trust_annotations` beside `tools`, which takes precedence.
        trust_annotations: Option<bool>,
        /// What clients see of single tools, by the names that the server gives them. All other rules here use the
        /// server's own names, too.
        #[schemars(rename = "override")]
        #[schemars(extend("examples" = [{"run": {"name": "run_query", "hidden_args": ["dry_run"]}}]))]
        overrides: Option<BTreeMap<String, ToolOverrideEntry>> [named("override")],
    }
}

config_keys! {
    /// What clients see of one tool instead of what the server says.
    #[derive(Clone)]
    pub struct ToolOverrideEntry;
    /// What clients see of one tool instead of what the server says.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ToolOverride;

    /// The name under which clients list, find and call the tool: 1 to 128 of the characters `a-z A-Z 0-9 _ - .`. If
    /// the server has another tool of this name, that other tool is left out.
    #[schemars(extend("examples" = ["run_query"]))]
    name: String => Option<String> = None,
    /// The description in place of the server's.
    #[schemars(extend("examples" = ["Runs one SQL query on the sales database."]))]
    description: String => Option<String> = None,
    /// Arguments that clients do not see and must not pass. A required argument is passed with the `const` or `default`
    /// of its schema; without either it stays visible.
    #[schemars(extend("examples" = [["dry_run"]]))]
    hidden_args: Vec<String> => Vec<String> = Vec::new(),
}
