//! Whether the values of a client's entry have the types that they must have. The client refuses an entry with others, or
//! ignores them, so it is named and stays where it is.

use serde_json::{Map, Value};

use config::fields;
use config::file::ServerEntry;
use config::load::{URL_ERROR, is_http_url};
use config::notation::literal;

/// Checks the fields of an entry that are translated. A field that is null counts as absent.
///
/// # Errors
///
/// Says which field has another type.
pub(crate) fn check(entry: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        let known = fields::find(ServerEntry::FIELDS, name).map(|field| field.name);
        match known {
            Some("command") if value.is_array() => strings(name, value)?,
            Some("command" | "url" | "httpUrl" | "type" | "cwd" | "env_file") => {
                expect(value.is_string(), name, "a string", value)?;
            }
            Some("args" | "includeTools" | "excludeTools") => strings(name, value)?,
            Some("env" | "headers") => texts(name, value)?,
            Some("enabled" | "disabled") => expect(value.is_boolean(), name, "true or false", value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks the command or the URL of an entry in our form. What has variables may be anything.
///
/// # Errors
///
/// Says why it can start or reach no server.
pub(crate) fn check_destination(entry: &Map<String, Value>) -> Result<(), String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).and_then(literal);
    if text("command").is_some_and(|command| command.is_empty()) {
        return Err("`command` is empty".to_owned());
    }
    match text("url") {
        Some(url) if !is_http_url(&url) => Err(URL_ERROR.to_owned()),
        _ => Ok(()),
    }
}

/// Returns the members of a value that must be an object.
///
/// # Errors
///
/// Says what else the value is.
pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("expected an object, found {}", json_type(value)))
}

fn strings(name: &str, value: &Value) -> Result<(), String> {
    let list = value.as_array().ok_or_else(|| mismatch(name, "a list", value))?;
    let mut elements = list.iter().enumerate();
    elements.try_for_each(|(at, element)| {
        expect(element.is_string(), &format!("{name}[{at}]"), "a string", element)
    })
}

/// Checks an object of texts. Clients write numbers and booleans in `env`, too, and null.
///
/// # Errors
///
/// Says what has another type.
fn texts(name: &str, value: &Value) -> Result<(), String> {
    let members = value.as_object().ok_or_else(|| mismatch(name, "an object", value))?;
    for (member, value) in members {
        let is_text = !value.is_array() && !value.is_object();
        expect(is_text, &format!("{name}.{member}"), "a string", value)?;
    }
    Ok(())
}

fn expect(is_right: bool, name: &str, expected: &str, value: &Value) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(mismatch(name, expected, value)) }
}

fn mismatch(name: &str, expected: &str, value: &Value) -> String {
    format!("`{name}`: expected {expected}, found {}", json_type(value))
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_of_another_type_is_named() {
        for (entry, wrong) in [
            (json!({"command": "x", "args": "oops"}), "`args`: expected a list, found a string"),
            (json!({"command": ["x", 1]}), "`command[1]`: expected a string, found a number"),
            (json!({"command": {}}), "`command`: expected a string, found an object"),
            (json!({"command": "x", "environment": []}), "`environment`: expected an object, found a list"),
            (json!({"command": "x", "env": {"A": {}}}), "`env.A`: expected a string, found an object"),
            (json!({"url": "x", "disabled": "no"}), "`disabled`: expected true or false, found a string"),
            (json!({"url": "x", "headers": "A: b"}), "`headers`: expected an object, found a string"),
        ] {
            assert_eq!(check(entry.as_object().unwrap()), Err(wrong.to_owned()), "{entry}");
        }
        for entry in [
            json!({"command": ["x"], "args": null, "env": {"A": 1, "B": true, "C": null}, "enabled": true}),
            json!({"url": "x", "headers": {}, "unknown": [], "timeout": "x"}),
        ] {
            assert_eq!(check(entry.as_object().unwrap()), Ok(()), "{entry}");
        }
    }
}
