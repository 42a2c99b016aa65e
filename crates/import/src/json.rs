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
