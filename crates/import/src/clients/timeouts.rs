//! The `timeout` of a client's entry, in our form.

use serde_json::{Map, Value, json};

use super::apps::{ClientApp, TimeoutMeaning};

/// Returns our `timeout`, if there is any, and what the client's has beyond that: one line each.
pub(super) fn translate(app: ClientApp, value: &Value) -> (Option<Value>, Vec<String>) {
    let mut out = TranslatedTimeout { app, limits: Map::new(), notes: Vec::new() };
    match (app.timeout(), value) {
        (TimeoutMeaning::Ours, value) => return (Some(value.clone()), Vec::new()),
        (TimeoutMeaning::Calls, Value::Number(_)) => out.limit(&["tools"], value),
        (TimeoutMeaning::Everything, Value::Number(_)) => out.limit(&["initialize", "list", "tools"], value),
        (TimeoutMeaning::Everything, Value::Object(members)) => {
            for (name, value) in members {
                match name.as_str() {
                    "startup" => out.limit(&["initialize"], value),
                    "catalog" => out.limit(&["list"], value),
                    "request" | "execution" => out.limit(&["tools"], value),
                    _ => out.notes.push(format!("`timeout.{name}` has no counterpart here")),
                }
            }
        }
        _ => out.notes.push("`timeout` has no meaning to this client".to_owned()),
    }
    (Some(Value::Object(out.limits)).filter(|limits| *limits != json!({})), out.notes)
}

struct TranslatedTimeout {
    app: ClientApp,
    /// The limits in seconds.
    limits: Map<String, Value>,
    notes: Vec<String>,
}

impl TranslatedTimeout {
    /// Sets limits to a number of milliseconds.
    fn limit(&mut self, names: &[&str], milliseconds: &Value) {
        let limit = milliseconds.as_f64().filter(|limit| (1.0..3.0e10).contains(limit));
        let is_ignored = self.app == ClientApp::ClaudeCode && limit.is_some_and(|limit| limit < 1000.0);
        let Some(limit) = limit.filter(|_| !is_ignored) else {
            return self.notes.push("`timeout` has a value that the client ignores".to_owned());
        };
        let seconds =
            if limit % 1000.0 == 0.0 { json!((limit / 1000.0) as u64) } else { json!(limit / 1000.0) };
        for name in names {
            self.limits.insert((*name).to_owned(), seconds.clone());
        }
    }
}
