//! The rules for tools that a client's file has beside the servers: which tools are denied, and before which the user is
//! asked. What an entry says about its own tools is in `translate`.

use std::path::PathBuf;

use serde_json::Value;

use crate::json::strings;
use crate::tool_rules::ToolEffect;

/// A rule of a client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientRule {
    /// The names of tools, as the client forms them. `*` stands for any text, `?` for any character.
    pub pattern: String,
    /// What it says about them.
    pub effect: ToolEffect,
    /// Where it stands and what it is, for texts: "`permissions.deny`: mcp__github__delete".
    pub written: String,
    /// Why servers.json can have no such rule, if it cannot.
    pub inexact: Option<&'static str>,
    /// The servers that the client does not even start for it.
    pub(crate) turns_off: TurnedOff,
}

/// The servers that a rule turns off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnedOff {
    /// None.
    No,
    /// The one with this name.
    Named(String),
    /// The one with this name, if a project has it.
    NamedOfProject(String),
    /// The one with this name, in this directory alone.
    NamedIn(String, String),
    /// All but these. Of several such rules, the last one counts.
    AllBut(Vec<String>),
}

/// The rules of one file, the later one before the earlier one.
#[derive(Debug, Default)]
pub(crate) struct RuleFile {
    /// The file.
    pub path: PathBuf,
    /// Whether it belongs to a project.
    pub is_project: bool,
    /// Its text, if its rules will be about our tools.
    pub renamed_text: Option<String>,
    /// Its rules.
    pub rules: Vec<ClientRule>,
    /// Those that stay in it, under the names of our tools.
    pub renamed: Vec<ClientRule>,
    /// What else it decides for all tools, such as "`approval_policy`".
    pub policies: Vec<String>,
}

impl RuleFile {
    /// Sets the rules apart that get the names of our tools.
    pub(crate) fn set_renamed_apart(&mut self) {
        if self.renamed_text.is_some() {
            let is_about_tools =
                |rule: &mut ClientRule| rule.turns_off == TurnedOff::No && rule.inexact.is_none();
            self.renamed = self.rules.extract_if(.., is_about_tools).collect();
        }
    }

    /// Adds a rule for the tools that match a pattern.
    pub(super) fn add(&mut self, key: &str, written: &str, pattern: String, effect: ToolEffect) {
        let written = format!("`{key}`: {written}");
        self.rules.push(ClientRule { pattern, effect, written, inexact: None, turns_off: TurnedOff::No });
    }

    /// Adds a rule that turns off servers.
    pub(super) fn turn_off(&mut self, key: &str, written: &str, turns_off: TurnedOff) {
        let written = format!("`{key}`: {written}");
        let (pattern, effect) = (String::new(), ToolEffect::Deny);
        self.rules.push(ClientRule { pattern, effect, written, inexact: None, turns_off });
    }

    /// Reads the lists `allow`, `ask` and `deny` of an object. What denies counts before what asks, and that before what
    /// allows.
    pub(super) fn read_lists(&mut self, root: &Value, key: &str, pattern: impl Fn(&str) -> Option<String>) {
        for (name, effect) in ToolEffect::NAMED {
            for rule in strings(root.get(key).and_then(|lists| lists.get(name))) {
                if let Some(pattern) = pattern(rule) {
                    self.add(&format!("{key}.{name}"), rule, pattern, effect);
                }
            }
        }
    }
}

/// Returns the name of a server, as clients write it before the names of its tools.
pub(super) fn in_tool_name(server: &str) -> String {
    server
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '\0') { c } else { '_' })
        .collect()
}
