//! The usual order of the fields of an entry.

use serde_json::{Map, Value};

/// The order of fields in an entry. Others follow.
const ORDER: &[&str] = &[
    "description",
    "enabled",
    "command",
    "args",
    "env",
    "env_file",
    "cwd",
    "inherit_env",
    "url",
    "type",
    "headers",
    "oauth",
    "oauth_scopes",
    "tools",
    "timeout",
    "stateful",
];

/// Returns the entry with its fields in their usual order.
pub(crate) fn in_order(mut entry: Map<String, Value>) -> Map<String, Value> {
    let known = ORDER.iter().filter_map(|name| Some(((*name).to_owned(), entry.shift_remove(*name)?)));
    let mut ordered: Map<String, Value> = known.collect();
    ordered.append(&mut entry);
    ordered
}
