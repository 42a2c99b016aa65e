//! Whether a definition is one that clients take: many drop a whole list for one entry that is not by MCP's schema.

use crate::wire::Raw;
use serde_json::{Map, Value};

/// What is wrong with a tool's definition by the MCP schema, if anything is.
pub fn problem(definition: &Raw) -> Option<String> {
    let Ok(Value::Object(tool)) = serde_json::from_slice(definition) else {
        return Some("it cannot be read by every client".to_owned());
    };
    let text = |key: &str| match tool.get(key) {
        None | Some(Value::String(_)) => None,
        Some(_) => Some(format!("`{key}` is no string")),
    };
    let object = |key: &str| match tool.get(key) {
        None | Some(Value::Object(_)) => None,
        Some(_) => Some(format!("`{key}` is no object")),
    };
    text("name")
        .or_else(|| text("title"))
        .or_else(|| text("description"))
        .or_else(|| object("_meta"))
        .or_else(|| object("annotations"))
        .or_else(|| object("execution"))
        .or_else(|| tool.get("annotations").and_then(Value::as_object).and_then(annotations))
        .or_else(|| match tool.get("icons") {
            None => None,
            Some(Value::Array(icons)) if icons.iter().all(|icon| icon["src"].is_string()) => None,
            Some(_) => Some("`icons` is no list of icons".to_owned()),
        })
        .or_else(|| schema(tool.get("inputSchema"), "inputSchema"))
        .or_else(|| tool.get("outputSchema").and_then(|output| schema(Some(output), "outputSchema")))
}

fn annotations(annotations: &Map<String, Value>) -> Option<String> {
    const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let wrong = |(key, value): (&String, &Value)| {
        let fine = match key.as_str() {
            "title" => value.is_string(),
            key if HINTS.contains(&key) => value.is_boolean(),
            _ => true,
        };
        (!fine).then(|| format!("`annotations.{key}` is of another type"))
    };
    annotations.iter().find_map(wrong)
}

fn schema(schema: Option<&Value>, key: &str) -> Option<String> {
    let Some(Value::Object(schema)) = schema else { return Some(format!("`{key}` is no object")) };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Some(format!("`{key}.type` is not \"object\""));
    }
    match schema.get("properties") {
        None => {}
        // Revisions before 2026-07-28 know no `true` and `false` here.
        Some(Value::Object(properties)) if properties.values().all(Value::is_object) => {}
        Some(_) => return Some(format!("`{key}.properties` has a member that is no object")),
    }
    match schema.get("required") {
        None => None,
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => None,
        Some(_) => Some(format!("`{key}.required` is no list of names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_schema_of_mcp_allows_is_fine_and_everything_else_is_named() {
        let with = |key: &str, value: Value| {
            let mut tool = json!({"name": "t", "inputSchema": {"type": "object"}, "x-unknown": 1});
            tool[key] = value;
            problem(&tool.to_string().into())
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
            assert_eq!(with(key, value.clone()), None, "{key} {value}");
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
            let said = with(key, value.clone());
            assert!(said.as_ref().is_some_and(|said| said.contains(key)), "{key} {value}: {said:?}");
        }
        assert!(problem(&r#"{"name":"t","parameters":{"type":"object"}}"#.into()).is_some());
    }
}
