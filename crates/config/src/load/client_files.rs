//! Files that other clients own: what they look like beyond the fields of servers, and reading them for `import`.

use std::path::Path;

use jsonc_parser::ast::{Array, Object, ObjectProp, ObjectPropName, Value};
use jsonc_parser::common::Ranged;

use super::codex::{self, property, property_name, string};
use super::json_text::parse_json;
use super::source_text::SourceText;
use crate::ConfigError;
use crate::glob::Glob;

/// The names of files in which clients keep their servers beside everything else.
const SETTINGS_FILES: &[&str] = &[
    ".claude.json",
    "claude_desktop_config.json",
    "config.toml",
    "mcp-config.json",
    "opencode.json",
    "opencode.jsonc",
    "settings.json",
];

/// The names of files in which clients keep their servers alone.
const SERVER_FILES: &[&str] = &[".mcp.json", "mcp.json", "mcp_config.json"];

/// The keys that lead to servers. `projects` has those of Claude Code.
const CONTAINERS: &[&str] = &["mcpServers", "servers", "mcp", "projects"];

/// Returns whether a file has more than servers, so that its other members mean nothing here.
pub(super) fn is_settings_file(path: &Path) -> bool {
    has_name(path, SETTINGS_FILES)
}

/// Returns whether `profiles` of a file are ours. In a client's settings the word has another meaning.
pub fn may_have_profiles(path: &Path) -> bool {
    !is_toml(path) && !is_settings_file(path)
}

/// Returns whether a file is read by a client, too, to which fields mean something that we do not know.
pub(super) fn is_client_file(path: &Path) -> bool {
    has_name(path, SETTINGS_FILES) || has_name(path, SERVER_FILES)
}

fn has_name(path: &Path, names: &[&str]) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
}

/// Returns whether a file is TOML, as Codex writes it.
pub fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Reads `text`, that of a client's file, as JSON. In a TOML file, each server has our fields and the rest of Codex's.
/// `path` only says which format it is, and stands in errors.
///
/// # Errors
///
/// Fails if the text is not what its name says, or if a key that leads to servers is there twice, with line and column.
pub fn parse_client_file(path: &Path, text: &str) -> Result<serde_json::Value, ConfigError> {
    let text = SourceText::new(path, text);
    let root = match is_toml(path) {
        true => codex::parse(&text)?,
        false => parse_json(&text)?,
    };
    refuse_repeated_keys(&text, &root, CONTAINERS)?;
    Ok(to_json(&Value::Object(root)))
}

/// Refuses a key of servers that is there twice: the client reads only one of them, and an edit could change the other.
/// `keys` are those that must not be there twice in `object`; those within them are checked, too.
///
/// # Errors
///
/// Returns the place of the second one, with that of the first in its text.
fn refuse_repeated_keys(text: &SourceText, object: &Object<'_>, keys: &[&str]) -> Result<(), ConfigError> {
    let mut seen: Vec<&ObjectPropName<'_>> = Vec::new();
    for member in object.properties.iter().filter(|member| keys.contains(&member.name.as_str())) {
        let key = member.name.as_str();
        if let Some(first) = seen.iter().find(|name| name.as_str() == key) {
            let (line, column) = text.position(first.start());
            let message = format!("`{key}` is there twice, first at {line}:{column}");
            let hint = "put the members of both into one of them".to_owned();
            return Err(text.error(member.name.start(), message, Some(hint)));
        }
        seen.push(&member.name);
        match (key, &member.value) {
            ("mcp", Value::Object(mcp)) => refuse_repeated_keys(text, mcp, &["servers"])?,
            ("projects", Value::Object(projects)) => {
                let dirs: Vec<_> = projects.properties.iter().map(|project| project.name.as_str()).collect();
                refuse_repeated_keys(text, projects, &dirs)?;
                for project in projects.properties.iter().filter_map(|project| project.value.as_object()) {
                    refuse_repeated_keys(text, project, &["mcpServers"])?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes plain JSON of a syntax tree. Of equal names, the last one counts, as with the clients.
pub(super) fn to_json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::StringLit(text) => text.value.as_ref().into(),
        Value::NumberLit(number) => {
            serde_json::from_str(&number.value.replace('_', "")).unwrap_or(serde_json::Value::Null)
        }
        Value::BooleanLit(bool) => bool.value.into(),
        Value::NullKeyword(_) => serde_json::Value::Null,
        Value::Array(list) => list.elements.iter().map(to_json).collect(),
        Value::Object(object) => object
            .properties
            .iter()
            .map(|member| (member.name.as_str().to_owned(), to_json(&member.value)))
            .collect(),
    }
}

/// The lists in Gemini CLI's `mcp`, a key that OpenCode uses for the servers themselves.
pub(super) struct GeminiLists {
    /// The only servers that it starts; `None` starts all.
    allowed: Option<Vec<String>>,
    /// Servers that it does not start.
    excluded: Vec<String>,
}

impl GeminiLists {
    /// Returns the lists if this is the `mcp` of Gemini CLI.
    pub(super) fn of(mcp: &Value<'_>) -> Option<Self> {
        const NAMES: [&str; 3] = ["allowed", "excluded", "serverCommand"];
        let mcp = mcp.as_object()?;
        let is_list = |member: &ObjectProp<'_>| {
            NAMES.contains(&member.name.as_str()) && member.value.as_object().is_none()
        };
        if !mcp.properties.iter().any(is_list) {
            return None;
        }
        let names = |name| {
            let list = mcp.get_array(name)?;
            let names = list.elements.iter().filter_map(|name| name.as_string_lit());
            Some(names.map(|name| name.value.to_string()).collect())
        };
        Some(Self { allowed: names("allowed"), excluded: names("excluded").unwrap_or_default() })
    }

    /// Returns whether Gemini CLI starts a server.
    pub(super) fn allow(&self, server: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == server);
        self.allowed.as_deref().is_none_or(is_in) && !is_in(&self.excluded)
    }
}

/// Translates what other clients write in forms of their own, if the entry has any of it: a list in `tools` (Copilot
/// CLI), `auth` (Cursor), and whether `oauth` is on (Gemini CLI).
pub(super) fn translated<'t>(entry: &Value<'t>) -> Option<Value<'t>> {
    let object = entry.as_object()?;
    let has_oauth_switch = object.get_object("oauth").is_some_and(|oauth| oauth.get("enabled").is_some());
    if object.get_array("tools").is_none() && object.get_object("auth").is_none() && !has_oauth_switch {
        return None;
    }
    let properties = object.properties.iter().cloned().map(|mut member| {
        match (member.name.as_str(), &mut member.value) {
            ("tools", Value::Array(list)) => member.value = tool_rules(list),
            ("oauth", Value::Object(oauth)) => drop(oauth.take("enabled")),
            ("auth", Value::Object(auth)) => {
                auth.properties = auth.properties.drain(..).map(in_lower_case).collect();
                member.name = property_name(member.range, "oauth");
            }
            _ => {}
        }
        member
    });
    Some(Value::Object(Object { range: object.range, properties: properties.collect() }))
}

/// Gives a member of Cursor's `auth`, such as `CLIENT_ID`, our name.
fn in_lower_case(mut member: ObjectProp<'_>) -> ObjectProp<'_> {
    member.name = property_name(member.range, member.name.as_str().to_lowercase());
    member
}

/// Returns the rules that a list of the tools in use stands for. `["*"]` stands for all.
fn tool_rules<'t>(list: &Array<'t>) -> Value<'t> {
    let range = list.range;
    let is_all = |name: &Value<'_>| name.as_string_lit().is_some_and(|name| name.value == "*");
    let rule = if list.elements.iter().any(is_all) {
        None
    } else if list.elements.is_empty() {
        Some(("deny", vec![string(range, "*")]))
    } else {
        Some(("allow", list.elements.iter().map(escaped).collect()))
    };
    let member = |(rule, elements)| property(range, rule, Value::Array(Array { range, elements }));
    Value::Object(Object { range, properties: rule.map(member).into_iter().collect() })
}

/// Returns a name as a glob that matches it alone. What is no string is an error elsewhere.
fn escaped<'t>(name: &Value<'t>) -> Value<'t> {
    match name {
        Value::StringLit(name) => string(name.range, Glob::escape(&name.value)),
        other => other.clone(),
    }
}
