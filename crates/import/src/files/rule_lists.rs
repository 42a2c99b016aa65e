//! The rules for tools in a client's settings, under other names.

use std::path::Path;

use serde_json::Value;

use super::edit::{ObjectEdit, edit};
use crate::json::strings;
use crate::source::literal;
use crate::tool_rules::ToolEffect;

/// The object that has the lists of rules.
const KEY: &str = "permissions";

/// Returns the text of a file with its rules renamed. A rule for which there is no other name stays. Nothing is written:
/// `path` only says which format the text has.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub(crate) fn rename_rules(
    path: &Path,
    text: &str,
    other_name: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let root = literal(path, text).map_err(|error| error.to_string())?;
    let renamed = |list: &Value| -> Value {
        strings(Some(list)).map(|rule| other_name(rule).unwrap_or_else(|| rule.to_owned())).collect()
    };
    let lists = ToolEffect::NAMED.iter().filter_map(|(name, _)| Some((*name, root.get(KEY)?.get(name)?)));
    // A list with anything else than rules is none that the client reads.
    let lists = lists.filter(|(_, list)| strings(Some(list)).count() == list.as_array().map_or(0, Vec::len));
    let set: Vec<_> = lists.map(|(name, list)| (name.to_owned(), renamed(list))).collect();
    match set.is_empty() {
        true => Ok(text.to_owned()),
        false => edit(path, text, &[ObjectEdit::set(vec![KEY.to_owned()], set)]),
    }
}
