//! The usual order of the fields of an entry.

use serde_json::{Map, Value};

use config::fields;
use config::file::ServerEntry;

/// Returns the entry with its fields in their usual order: what a person looks for first, then those of the config in the
/// order in which the docs have them. Others follow.
pub(crate) fn in_order(mut entry: Map<String, Value>) -> Map<String, Value> {
    let names = fields::all(ServerEntry::FIELDS).map(|field| field.name);
    let names = ["description", "enabled"].into_iter().chain(names);
    let known = names.filter_map(|name| Some((name.to_owned(), entry.shift_remove(name)?)));
    let mut ordered: Map<String, Value> = known.collect();
    ordered.append(&mut entry);
    ordered
}
