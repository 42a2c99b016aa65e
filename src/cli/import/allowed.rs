//! Gemini CLI starts only the servers in `mcp.allowed`, where there is such a list, so that ours has to be in it.

use serde_json::{Value, json};

use super::apps::{ClientApp, OWN_NAME};
use super::edit::ObjectEdit;

/// The names in the list. `None`: there is none, or it is another client.
fn allowed(app: ClientApp, root: &Value) -> Option<&Vec<Value>> {
    root.pointer("/mcp/allowed").and_then(Value::as_array).filter(|_| app == ClientApp::Gemini)
}

fn set_allowed(names: Vec<Value>) -> ObjectEdit {
    let set = vec![("allowed".to_owned(), Value::Array(names))];
    ObjectEdit { keys: vec!["mcp".to_owned()], remove: Vec::new(), set }
}

fn is_own(name: &Value) -> bool {
    name == OWN_NAME
}

/// Adds our name to the list of a client's file, if that is needed.
pub(super) fn allow_own_entry(app: ClientApp, root: &Value) -> Option<ObjectEdit> {
    let names = allowed(app, root).filter(|names| !names.iter().any(is_own))?;
    Some(set_allowed(names.iter().cloned().chain([json!(OWN_NAME)]).collect()))
}

/// Removes our name from the list of a client's file, unless it was there before we changed it.
pub(super) fn disallow_own_entry(app: ClientApp, root: &Value, before: &Value) -> Option<ObjectEdit> {
    let was_there = allowed(app, before).is_some_and(|names| names.iter().any(is_own));
    let names = allowed(app, root).filter(|names| !was_there && names.iter().any(is_own))?;
    Some(set_allowed(names.iter().filter(|name| !is_own(name)).cloned().collect()))
}
