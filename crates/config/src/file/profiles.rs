//! The profiles in a config file.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::collections::BTreeMap;

use super::values::{GlobPattern, ServerPattern};
use crate::fields::ConfigField;
use crate::value_reader::{ReadValue, ValueCursor};

/// What a client with this profile sees: a choice of servers, and rules for their tools.
// By default, no server.
#[derive(Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProfileEntry {
    /// Globs of the servers that are used. A glob with `!` before it excludes the servers that it matches, wherever it
    /// stands in the list. Without `servers`, all are used.
    #[schemars(default, with = "Vec<ServerPattern>")]
    #[schemars(extend("default" = ["*"], "examples" = [["*", "!github"]]))]
    pub servers: Vec<Located<ServerPattern>>,
    /// Rules for the tools of single servers, by the exact name of the server. They add to the server's own rules, and
    /// never allow a tool that those rules do not allow.
    #[schemars(default, with = "BTreeMap<String, ProfileToolsEntry>")]
    #[schemars(extend("examples" = [{"github": {"deny": ["delete_*"]}}]))]
    pub tools: Vec<Located<(String, ProfileToolsEntry)>>,
}

/// A part of a profile, and the byte offset of its place in the file.
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) offset: usize,
}

impl<T: ReadValue> ReadValue for Located<T> {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        Some(Self { value: T::read(at)?, offset: at.value.start() })
    }
}

impl ProfileEntry {
    /// The fields.
    pub(crate) const FIELDS: &'static [ConfigField] =
        &[ConfigField::new("servers"), ConfigField::new("tools")];
}

/// A profile is an object, or the list in its `servers`.
impl ReadValue for ProfileEntry {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let offset = at.value.start();
        // Without a list, the place of the glob for all is that of the profile.
        let all = Located { value: ServerPattern::try_from("*".to_owned()).ok()?, offset };
        let (mut servers, mut tools, mut list_offset) = (vec![all], Vec::new(), offset);
        match at.value {
            Value::Object(_) => at.read_members(Self::FIELDS, |name, at| {
                match name {
                    "servers" => (servers, list_offset) = (Vec::read(at)?, at.value.start()),
                    _ => tools = read_rules(at)?,
                }
                Some(())
            })?,
            _ => servers = Vec::read(at)?,
        }
        if !servers.is_empty() && servers.iter().all(|pattern| pattern.value.excludes) {
            let hint = Some("write [\"*\", \"!NAME\"] to use all servers but NAME".to_owned());
            return at.fail_at(list_offset, "it excludes servers and chooses none", hint);
        }
        Some(Self { servers, tools })
    }
}

/// Reads the rules for the tools of servers, by their names. `None` if there are errors, such as rules that are given
/// twice.
fn read_rules(at: &ValueCursor<'_>) -> Option<Vec<Located<(String, ProfileToolsEntry)>>> {
    let mut rules: BTreeMap<String, ProfileToolsEntry> = BTreeMap::read(at)?;
    let members = at.value.as_object().map_or(&[][..], |object| &object.properties);
    let located = members.iter().map(|member| {
        let offset = member.name.start();
        let twice = || at.fail_at(offset, "the rules for this server are given twice", None);
        Some(Located { value: rules.remove_entry(member.name.as_str()).or_else(twice)?, offset })
    });
    located.collect()
}

/// Rules for the tools of a server: globs over the names that the server gives them.
#[derive(Clone, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProfileToolsEntry {
    /// The only tools that may be used, of those that the server's own rules allow. An empty list allows none.
    #[schemars(default)]
    #[schemars(extend("default" = ["*"], "examples" = [["get_*", "list_*"]]))]
    pub allow: Vec<GlobPattern>,
    /// Tools that may not be used, in addition to those that the server's own rules deny.
    #[schemars(default)]
    #[schemars(extend("default" = [], "examples" = [["delete_*"]]))]
    pub deny: Vec<GlobPattern>,
    /// Tools whose calls the user confirms one by one, in addition to those in the server's own rules.
    #[schemars(default)]
    #[schemars(extend("default" = [], "examples" = [["{create,update}_*"]]))]
    pub ask: Vec<GlobPattern>,
}

impl ProfileToolsEntry {
    /// The fields.
    pub(crate) const FIELDS: &'static [ConfigField] =
        &[ConfigField::new("allow"), ConfigField::new("deny"), ConfigField::new("ask")];
}

impl ReadValue for ProfileToolsEntry {
    fn read(at: &ValueCursor<'_>) -> Option<Self> {
        let all = GlobPattern::try_from("*".to_owned()).ok()?;
        let mut rules = Self { allow: vec![all], deny: Vec::new(), ask: Vec::new() };
        at.read_members(Self::FIELDS, |name, at| {
            let list = match name {
                "allow" => &mut rules.allow,
                "deny" => &mut rules.deny,
                _ => &mut rules.ask,
            };
            *list = Vec::read(at)?;
            Some(())
        })?;
        Some(rules)
    }
}

/// Returns the schema of `profiles`: each is a list of globs, or an object.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<ProfileEntry>();
    let list = generator.subschema_for::<Vec<ServerPattern>>();
    json_schema!({"type": ["object", "null"], "additionalProperties": {"anyOf": [list, object]}})
}
