//! The `timeout` of a client's entry, in our form.

use serde_json::{Map, Value, json};

use super::apps::ClientApp;
use super::known::TimeoutMeaning;

/// The limits of OpenCode, and ours.
const NAMES: [(&str, &str); 4] =
    [("startup", "initialize"), ("catalog", "list"), ("request", "tools"), ("execution", "tools")];

/// Returns our `timeout`, if there is any, and what the client's has beyond that: one line each.
pub(super) fn translate(app: ClientApp, value: &Value) -> (Option<Value>, Vec<String>) {
    let (mut limits, mut notes, mut unknown) = (Map::new(), Vec::new(), Vec::new());
    let mut limit = |names: &[&str], milliseconds: &Value| match seconds(app, milliseconds) {
        Some(seconds) => limits.extend(names.iter().map(|name| ((*name).to_owned(), seconds.clone()))),
        None => notes.push("`timeout` has a value that the client ignores".to_owned()),
    };
    match (app.timeout, value) {
        (TimeoutMeaning::Ours, value) => return (Some(value.clone()), Vec::new()),
        (TimeoutMeaning::Calls, Value::Number(_)) => limit(&["tools"], value),
        (TimeoutMeaning::Everything, Value::Number(_)) => limit(&["initialize", "list", "tools"], value),
        (TimeoutMeaning::Everything, Value::Object(members)) => {
            for (name, value) in members {
                match NAMES.iter().find(|(theirs, _)| theirs == name) {
                    Some((_, ours)) => limit(&[ours], value),
                    None => unknown.push(format!("`timeout.{name}` has no counterpart here")),
                }
            }
        }
        _ => unknown.push("`timeout` has no meaning to this client".to_owned()),
    }
    notes.append(&mut unknown);
    ((!limits.is_empty()).then_some(Value::Object(limits)), notes)
}

/// Returns the seconds of a number of milliseconds. `None` if the client ignores such a value.
fn seconds(app: ClientApp, milliseconds: &Value) -> Option<Value> {
    let limit = milliseconds.as_f64().filter(|limit| (1.0..3.0e10).contains(limit));
    let limit = limit.filter(|limit| app != ClientApp::ClaudeCode || *limit >= 1000.0)?;
    Some(if limit % 1000.0 == 0.0 { json!((limit / 1000.0) as u64) } else { json!(limit / 1000.0) })
}
