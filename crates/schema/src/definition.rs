//! What lists have in place of a tool's definition that MCP's schema does not allow: many clients drop a whole list for
//! one such definition.

use serde_json::{Map, Value};
use wire::{Raw, raw};

/// The members that a definition may lack.
const OPTIONAL: [&str; 7] =
    ["title", "description", "annotations", "icons", "_meta", "execution", "outputSchema"];

/// Returns a tool's definition as lists have it. One that the MCP schema of `Tool` does not allow gets the `"type":
/// "object"` that its schemas lack, and loses the annotations and the optional members that are invalid.
///
/// # Errors
///
/// The definition is invalid even then. The text says which member is wrong.
pub fn listable(definition: &Raw) -> Result<Raw, String> {
    match validate(definition) {
        Ok(()) => Ok(definition.clone()),
        Err(_) => {
            let mended = mend(definition);
            validate(&mended).map(|()| mended)
        }
    }
}

fn mend(definition: &Raw) -> Raw {
    let mut mended = definition.clone();
    for key in ["inputSchema", "outputSchema"] {
        let schema = raw::get(&mended, key).filter(|schema| &schema[..] != b"null");
        match schema {
            None if key == "inputSchema" => mended = raw::set(&mended, key, br#"{"type":"object"}"#),
            Some(schema) if raw::get(&schema, "type").is_none() && raw::entries(&schema).is_some() => {
                mended = raw::set_in(&mended, key, "type", br#""object""#);
            }
            _ => {}
        }
    }
    if let Some(annotations) = raw::get(&mended, "annotations")
        && let Ok(members) = serde_json::from_slice::<Map<String, Value>>(&annotations)
    {
        let invalid = members.iter().filter(|(key, value)| expected_annotation(key, value).is_some());
        let valid = invalid.fold(annotations.clone(), |annotations, (key, _)| raw::remove(&annotations, key));
        mended = raw::set(&mended, "annotations", &valid);
    }
    let invalid = OPTIONAL.into_iter().filter(|key| {
        let alone = raw::get(&mended, key)
            .map(|value| raw::set(&Raw::from_static(br#"{"inputSchema":{"type":"object"}}"#), key, &value));
        alone.is_some_and(|alone| validate(&alone).is_err())
    });
    let invalid: Vec<_> = invalid.collect();
    invalid.into_iter().fold(mended, |definition, key| raw::remove(&definition, key))
}

/// Validates a tool's definition by the MCP schema of `Tool`.
///
/// # Errors
///
/// The definition is no JSON object, or a member is invalid. The text says which one.
fn validate(definition: &Raw) -> Result<(), String> {
    let Ok(Value::Object(tool)) = serde_json::from_slice(definition) else {
        return Err("it is not a JSON object that every client can read".to_owned());
    };
    for key in ["name", "title", "description"] {
        validate_member(&tool, key, Value::is_string, "a string")?;
    }
    for key in ["_meta", "annotations", "execution"] {
        validate_member(&tool, key, Value::is_object, "an object")?;
    }
    for (key, value) in tool.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if let Some(expected) = expected_annotation(key, value) {
            return Err(format!("`annotations.{key}` is not {expected}"));
        }
    }
    let are_icons = |value: &Value| {
        value.as_array().is_some_and(|icons| icons.iter().all(|icon| icon["src"].is_string()))
    };
    validate_member(&tool, "icons", are_icons, "a list of icons")?;
    validate_schema(tool.get("inputSchema"), "inputSchema")?;
    tool.get("outputSchema").map_or(Ok(()), |schema| validate_schema(Some(schema), "outputSchema"))
}

/// Checks a member if there is one.
fn validate_member(
    tool: &Map<String, Value>,
    key: &str,
    is_valid: fn(&Value) -> bool,
    expected: &str,
) -> Result<(), String> {
    match tool.get(key).is_none_or(is_valid) {
        true => Ok(()),
        false => Err(format!("`{key}` is not {expected}")),
    }
}

/// Returns what an annotation has to be; `None` if its value is valid.
fn expected_annotation(key: &str, value: &Value) -> Option<&'static str> {
    match key {
        "title" if !value.is_string() => Some("a string"),
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" if !value.is_boolean() => {
            Some("true or false")
        }
        _ => None,
    }
}

fn validate_schema(schema: Option<&Value>, key: &str) -> Result<(), String> {
    let Some(Value::Object(schema)) = schema else { return Err(format!("`{key}` is not an object")) };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("`{key}.type` is not \"object\""));
    }
    match schema.get("properties") {
        None => {}
        // Revisions before 2026-07-28 do not allow `true` and `false` here.
        Some(Value::Object(properties)) if properties.values().all(Value::is_object) => {}
        Some(_) => return Err(format!("`{key}.properties` has a member that is not an object")),
    }
    match schema.get("required") {
        None => Ok(()),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err(format!("`{key}.required` is not a list of names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn accepts_what_the_mcp_schema_allows_and_names_the_member_that_it_does_not() {
        let validate_with = |key: &str, value: Value| {
            let mut tool = json!({"name": "t", "inputSchema": {"type": "object"}, "x-unknown": 1});
            tool[key] = value;
            validate(&tool.to_string().into())
        };
        for (key, value) in [
            ("title", json!("T")),
            ("annotations", json!({"readOnlyHint": true, "title": "x", "z": 3})),
            ("icons", json!([{"src": "data:"}])),
            (
                "inputSchema",
                json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "oneOf": []}),
            ),
            ("outputSchema", json!({"type": "object"})),
            ("_meta", json!({})),
        ] {
            assert_eq!(validate_with(key, value.clone()), Ok(()), "{key} {value}");
        }
        for (key, value) in [
            ("name", json!(3)),
            ("title", json!(null)),
            ("description", json!(["d"])),
            ("annotations", json!([])),
            ("annotations", json!({"readOnlyHint": "yes"})),
            ("annotations", json!({"title": null})),
            ("icons", json!([{"src": 1}])),
            ("inputSchema", json!(null)),
            ("inputSchema", json!({})),
            ("inputSchema", json!({"type": "string"})),
            ("inputSchema", json!({"type": ["object"]})),
            ("inputSchema", json!({"type": "object", "properties": []})),
            ("inputSchema", json!({"type": "object", "properties": {"a": true}})),
            ("inputSchema", json!({"type": "object", "required": true})),
            ("outputSchema", json!({"type": "array"})),
            ("_meta", json!("x")),
        ] {
            let error = validate_with(key, value.clone()).unwrap_err();
            assert!(error.contains(key), "{key} {value}: {error}");
        }
        assert!(validate(&r#"{"name":"t","parameters":{"type":"object"}}"#.into()).is_err());
    }

    #[test]
    fn lists_get_what_can_be_mended() {
        for (definition, mended) in [
            (r#"{"name":"t","inputSchema":{}}"#, r#"{"name":"t","inputSchema":{"type":"object"}}"#),
            (
                r#"{"name":"t","parameters":1}"#,
                r#"{"name":"t","parameters":1,"inputSchema":{"type":"object"}}"#,
            ),
            (r#"{"name":"t","inputSchema":null}"#, r#"{"name":"t","inputSchema":{"type":"object"}}"#),
            (
                r#"{"name":"t","inputSchema":{"required":["b"],"x":2.50},"outputSchema":{"x":1}}"#,
                r#"{"name":"t","inputSchema":{"required":["b"],"x":2.50,"type":"object"},"outputSchema":{"x":1,"type":"object"}}"#,
            ),
            (
                r#"{"name":"t","title":null,"icons":3,"inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#,
                r#"{"name":"t","inputSchema":{"type":"object"}}"#,
            ),
            (
                r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":null,"x":1}}"#,
                r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"x":1}}"#,
            ),
        ] {
            let listed = listable(&definition.into()).unwrap();
            assert_eq!(String::from_utf8_lossy(&listed), mended);
        }
        for definition in [
            r#"{"name":"t","inputSchema":{"type":"string"}}"#,
            r#"{"name":"t","inputSchema":[]}"#,
            r#"{"name":3,"inputSchema":{"type":"object"}}"#,
        ] {
            assert!(listable(&definition.into()).is_err(), "{definition}");
        }
    }
}
