//! The profiles in a config file.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::values::{GlobPattern, ServerPattern};
use crate::fields::ConfigField;

/// What a client with this profile sees: a choice of servers, and rules for their tools.
#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProfileEntry {
    /// Globs of the servers that are used. A glob with `!` before it excludes the servers that it matches, wherever it
    /// stands in the list. Without `servers`, all are used.
    #[serde(default = "all_servers")]
    #[schemars(extend("default" = ["*"], "examples" = [["*", "!github"]]))]
    pub servers: Vec<ServerPattern>,
    /// Rules for the tools of single servers, by the exact name of the server. They add to the server's own rules, and
    /// never allow a tool that those rules do not allow.
    #[serde(default)]
    #[schemars(extend("examples" = [{"github": {"deny": ["delete_*"]}}]))]
    pub tools: BTreeMap<String, ProfileToolsEntry>,
}

impl ProfileEntry {
    /// The fields.
    pub(super) const FIELDS: &'static [ConfigField] =
        &[ConfigField::new("servers"), ConfigField::new("tools")];
}

/// Rules for the tools of a server: globs over the names that the server gives them.
#[derive(Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProfileToolsEntry {
    /// The only tools that may be used, of those that the server's own rules allow. An empty list allows none.
    #[serde(default = "all_tools")]
    #[schemars(extend("default" = ["*"], "examples" = [["get_*", "list_*"]]))]
    pub allow: Vec<GlobPattern>,
    /// Tools that may not be used, in addition to those that the server's own rules deny.
    #[serde(default)]
    #[schemars(extend("default" = [], "examples" = [["delete_*"]]))]
    pub deny: Vec<GlobPattern>,
    /// Tools whose calls the user confirms one by one, in addition to those in the server's own rules.
    #[serde(default)]
    #[schemars(extend("default" = [], "examples" = [["{create,update}_*"]]))]
    pub ask: Vec<GlobPattern>,
}

impl ProfileToolsEntry {
    /// The fields.
    pub(super) const FIELDS: &'static [ConfigField] =
        &[ConfigField::new("allow"), ConfigField::new("deny"), ConfigField::new("ask")];
}

fn all_servers() -> Vec<ServerPattern> {
    ServerPattern::try_from("*".to_owned()).into_iter().collect()
}

fn all_tools() -> Vec<GlobPattern> {
    vec![GlobPattern("*".to_owned())]
}

/// Returns the schema of `profiles`: each is a list of globs, or an object.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<ProfileEntry>();
    let list = generator.subschema_for::<Vec<ServerPattern>>();
    json_schema!({"type": ["object", "null"], "additionalProperties": {"anyOf": [list, object]}})
}
