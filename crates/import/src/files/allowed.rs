//! Where a client's file lists the only servers that the client starts, ours has to be in that list.

use serde_json::{Value, json};

use super::edit::ObjectEdit;
use crate::clients::client::KnownClient;

/// Returns the names in the list. `None`: there is none.
fn allowed<'v>(client: &KnownClient, root: &'v Value) -> Option<&'v Vec<Value>> {
    let keys = Some(client.allowed_list).filter(|keys| !keys.is_empty())?;
    keys.iter().try_fold(root, |value, key| value.get(key))?.as_array()
}

fn set_allowed(client: &KnownClient, names: Vec<Value>) -> Option<ObjectEdit> {
    let (name, keys) = client.allowed_list.split_last()?;
    let keys = keys.iter().map(|&key| key.to_owned()).collect();
    Some(ObjectEdit::set(keys, vec![((*name).to_owned(), Value::Array(names))]))
}

/// Returns the edit that adds the name of our entry to the list of a client's file. `None` if that is not needed.
pub(crate) fn allow_own_entry(client: &KnownClient, root: &Value, own: &str) -> Option<ObjectEdit> {
    let names = allowed(client, root).filter(|names| !names.iter().any(|name| name == own))?;
    set_allowed(client, names.iter().cloned().chain([json!(own)]).collect())
}

/// Returns the edit that removes these names of our entries from the list of a client's file, but for those that were
/// there before we changed it. `None` if there are none to remove. `root` is the content of the file now, `before` the
/// old one.
pub(crate) fn disallow_own_entries(
    client: &KnownClient,
    root: &Value,
    before: &Value,
    own: &[String],
) -> Option<ObjectEdit> {
    let was_there = |name: &Value| allowed(client, before).is_some_and(|names| names.contains(name));
    let is_removed = |name: &Value| own.iter().any(|own| name == own) && !was_there(name);
    let names = allowed(client, root).filter(|names| names.iter().any(is_removed))?;
    set_allowed(client, names.iter().filter(|name| !is_removed(name)).cloned().collect())
}
