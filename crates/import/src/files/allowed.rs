//! Gemini CLI starts only the servers in `mcp.allowed`, where there is such a list, so that ours has to be in it.

use serde_json::{Value, json};

use super::edit::ObjectEdit;
use crate::clients::apps::ClientApp;

/// The names in the list. `None`: there is none, or it is another client.
fn allowed(app: ClientApp, root: &Value) -> Option<&Vec<Value>> {
    root.pointer("/mcp/allowed").and_then(Value::as_array).filter(|_| app == ClientApp::Gemini)
}

fn set_allowed(names: Vec<Value>) -> ObjectEdit {
    ObjectEdit::set(vec!["mcp".to_owned()], vec![("allowed".to_owned(), Value::Array(names))])
}

/// Returns the edit that adds the name of our entry to the list of a client's file. `None` if that is not needed.
pub(crate) fn allow_own_entry(app: ClientApp, root: &Value, own: &str) -> Option<ObjectEdit> {
    let names = allowed(app, root).filter(|names| !names.iter().any(|name| name == own))?;
    Some(set_allowed(names.iter().cloned().chain([json!(own)]).collect()))
}

/// Returns the edit that removes these names of our entries from the list of a client's file, but for those that were
/// there before we changed it. `None` if there are none to remove. `root` is the content of the file now, `before` the
/// old one.
pub(crate) fn disallow_own_entries(
    app: ClientApp,
    root: &Value,
    before: &Value,
    own: &[String],
) -> Option<ObjectEdit> {
    let was_there = |name: &Value| allowed(app, before).is_some_and(|names| names.contains(name));
    let is_removed = |name: &Value| own.iter().any(|own| name == own) && !was_there(name);
    let names = allowed(app, root).filter(|names| names.iter().any(is_removed))?;
    Some(set_allowed(names.iter().filter(|name| !is_removed(name)).cloned().collect()))
}
