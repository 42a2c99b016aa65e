//! Values of JSON that may be absent, or of another type.

use serde_json::{Map, Value};

/// Returns the members of an object. Anything else has none.
pub(crate) fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Takes the members of an object. Anything else has none.
pub(crate) fn into_members(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Returns the strings in a list. Anything else has none.
pub(crate) fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the value with each string in it replaced.
pub(crate) fn map_strings(value: &Value, replace: &mut impl FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) => replace(text).into(),
        Value::Array(list) => list.iter().map(|value| map_strings(value, replace)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), map_strings(value, replace))).collect()
        }
        other => other.clone(),
    }
}

/// Returns every string in a value.
pub(crate) fn all_strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().flat_map(all_strings).collect(),
        Value::Object(members) => members.values().flat_map(all_strings).collect(),
        _ => Vec::new(),
    }
}
