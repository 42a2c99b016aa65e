//! The `timeout` of a client's entry, in our form.

use serde_json::{Map, Value, json};

use super::client::TimeoutMeaning;

/// The limits of OpenCode, and ours.
const NAMES: [(&str, &str); 4] =
    [("startup", "initialize"), ("catalog", "list"), ("request", "tools"), ("execution", "tools")];

/// Returns our `timeout`. `None`: the client ignores what stands there.
pub(super) fn translate(meaning: TimeoutMeaning, value: &Value) -> Option<Value> {
    let limits: Map<String, Value> = match (meaning, value) {
        (TimeoutMeaning::Ours, value) => return Some(value.clone()),
        (TimeoutMeaning::Calls { unit, least }, number) => {
            limit("tools", number, unit, least).into_iter().collect()
        }
        (TimeoutMeaning::Everything, Value::Object(members)) => {
            let ours = |name: &String| NAMES.iter().find(|(theirs, _)| theirs == name).map(|(_, ours)| *ours);
            members.iter().filter_map(|(name, value)| limit(ours(name)?, value, 0.001, 1.0)).collect()
        }
        (TimeoutMeaning::Everything, number) => {
            let names = ["initialize", "list", "tools"];
            names.iter().filter_map(|name| limit(name, number, 0.001, 1.0)).collect()
        }
        (TimeoutMeaning::None, _) => Map::new(),
    };
    (!limits.is_empty()).then_some(Value::Object(limits))
}

/// Returns a limit in seconds. `None` if the client ignores such a value.
fn limit(name: &str, value: &Value, unit: f64, least: f64) -> Option<(String, Value)> {
    let seconds = value.as_f64().filter(|value| *value >= least)? * unit;
    let seconds = (seconds < 3.0e7).then_some(seconds)?;
    // A thousandth is not exact in binary.
    let seconds = (seconds * 1e6).round() / 1e6;
    Some((name.to_owned(), if seconds.fract() == 0.0 { json!(seconds as u64) } else { json!(seconds) }))
}
