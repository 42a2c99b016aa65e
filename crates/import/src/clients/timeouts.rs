//! The `timeout` of a client's entry, in our form.

use serde_json::{Map, Value, json};

use super::client::TimeoutMeaning;

/// The limits of OpenCode, and ours.
const NAMES: [(&str, &str); 4] =
    [("startup", "initialize"), ("catalog", "list"), ("request", "tools"), ("execution", "tools")];

/// Returns our `timeout`. `None`: the client ignores what stands there.
pub(super) fn translate(meaning: TimeoutMeaning, value: &Value) -> Option<Value> {
    let TimeoutMeaning::Limits { names, unit, least } = meaning else {
        return (meaning == TimeoutMeaning::Ours).then(|| value.clone());
    };
    let ours = |name: &str| NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    let limits: Map<String, Value> = match value {
        Value::Object(members) => {
            members.iter().filter_map(|(name, value)| limit(ours(name)?, value, unit, least)).collect()
        }
        number => names.iter().filter_map(|name| limit(name, number, unit, least)).collect(),
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
