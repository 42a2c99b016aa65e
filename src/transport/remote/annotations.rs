//! Arguments that a tool wants to be told in headers as well (`x-mcp-header` in its schema, 2026-07-28).

use crate::wire::{Raw, raw};
use parking_lot::Mutex;
use reqwest::header::HeaderName;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tokio::sync::watch;

const KEY: &str = "x-mcp-header";
/// Beyond these a JavaScript server reads another number.
const SAFE: i64 = (1 << 53) - 1;

/// The annotations of one server's tools, as far as its lists were read.
#[derive(Default)]
pub struct Annotations {
    of: Mutex<HashMap<String, Vec<Annotation>>>,
    /// Lists that were read to their end.
    read: watch::Sender<usize>,
}

/// One argument and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotation {
    path: Vec<String>,
    header: HeaderName,
}

impl Annotations {
    /// Takes note of what an answer to `tools/list` says; returns it without the tools that say it wrongly, which
    /// must not be used.
    pub fn learn(&self, result: &Raw) -> Raw {
        let kept = self.read_page(result);
        if raw::get_str(result, "nextCursor").is_none() {
            self.read.send_modify(|count| *count += 1);
        }
        kept
    }

    /// Resolves when a list that is read after this call has come to its end.
    pub fn next_read(&self) -> impl Future<Output = ()> + use<> {
        let mut read = self.read.subscribe();
        async move {
            // It is ours, and lives as long as who waits.
            drop(read.changed().await);
        }
    }

    fn read_page(&self, result: &Raw) -> Raw {
        let Some(tools) = raw::elements(result, "tools") else { return result.clone() };
        let mut kept = Vec::with_capacity(tools.len());
        for tool in &tools {
            let name = raw::get_str(tool, "name").unwrap_or_default();
            match read(tool) {
                Ok(annotations) => {
                    self.of.lock().insert(name, annotations);
                    kept.push(&tool[..]);
                }
                Err(why) => {
                    tracing::warn!(tool = %name, why, "left out a tool whose x-mcp-header is invalid");
                }
            }
        }
        if kept.len() == tools.len() {
            return result.clone();
        }
        raw::set(result, "tools", &[b"[", &kept.join(&b","[..])[..], b"]"].concat())
    }

    /// The headers of a call with these arguments.
    pub fn of(&self, tool: &str, arguments: &Raw) -> Vec<(HeaderName, String)> {
        let annotations = self.of.lock().get(tool).cloned();
        let annotations = annotations.unwrap_or_default();
        let said = annotations.into_iter().filter_map(|Annotation { path, header }| {
            let value = path.iter().try_fold(arguments.clone(), |object, key| raw::get(&object, key))?;
            Some((header, text(&value)?))
        });
        said.collect()
    }
}

/// A primitive value as text; numbers as they are written, which is what the body has.
fn text(value: &Raw) -> Option<String> {
    match value.first()? {
        b'"' => serde_json::from_slice(value).ok(),
        b'n' | b'{' | b'[' => None,
        _ => Some(String::from_utf8_lossy(value).into_owned()),
    }
}

fn read(tool: &Raw) -> Result<Vec<Annotation>, &'static str> {
    let Some(schema) = raw::get(tool, "inputSchema") else { return Ok(Vec::new()) };
    if memchr::memmem::find(&schema, KEY.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    // A schema that cannot be read as a value is no worse for what it may say of headers.
    let Ok(schema) = serde_json::from_slice::<Value>(&schema) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    properties(&schema, &mut Vec::new(), &mut found)?;
    if found.len() != count(&schema) {
        return Err("it stands where no argument is");
    }
    let mut names = HashSet::new();
    match found.iter().all(|annotation| names.insert(&annotation.header)) {
        true => Ok(found),
        false => Err("two arguments have the same header"),
    }
}

/// Those of the properties of an object, and of the objects among them.
fn properties(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<Annotation>,
) -> Result<(), &'static str> {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(KEY) {
            found.push(Annotation { path: path.clone(), header: header_of(property, header)? });
        }
        properties(property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn header_of(property: &Value, header: &Value) -> Result<HeaderName, &'static str> {
    let name = header.as_str().filter(|name| !name.is_empty()).ok_or("it is no name")?;
    if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err("its argument is no string, integer or boolean");
    }
    let limits = ["minimum", "maximum"].iter().filter_map(|limit| property.get(limit)?.as_i64());
    if limits.into_iter().any(|limit| limit.abs() > SAFE) {
        return Err("its argument may be a number that not every reader can hold");
    }
    HeaderName::try_from(format!("mcp-param-{name}")).map_err(|_| "it is no name of a header")
}

/// How often the annotation stands in a schema as a keyword. Properties may be named so, and examples may hold it.
fn count(schema: &Value) -> usize {
    let Some(object) = schema.as_object() else {
        return schema.as_array().into_iter().flatten().map(count).sum();
    };
    let inner = object.iter().map(|(key, value)| match (key.as_str(), value) {
        (KEY, _) => 1,
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(named),
        ) => named.values().map(count).sum(),
        ("const" | "default" | "enum" | "examples", _) => 0,
        (_, value) => count(value),
    });
    inner.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(schema: &str) -> Raw {
        format!(r#"{{"name":"t","inputSchema":{schema}}}"#).into()
    }

    fn called(schema: &str, arguments: &str) -> Vec<(String, String)> {
        let annotations = Annotations::default();
        let list = format!(r#"{{"tools":[{}]}}"#, String::from_utf8_lossy(&tool(schema)));
        annotations.learn(&list.into());
        let said = annotations.of("t", &Raw::copy_from_slice(arguments.as_bytes()));
        said.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    #[test]
    fn annotated_arguments_are_told_as_they_are_written() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string","x-mcp-header":"Region"},
            "b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"Count"}}},
            "d":{"type":"boolean","x-mcp-header":"Dry"},
            "x-mcp-header":{"type":"string"}}}"#;
        let all = called(schema, r#"{"a":"us \"w\"","b":{"c":42},"d":true}"#);
        let wanted = [("mcp-param-region", "us \"w\""), ("mcp-param-count", "42"), ("mcp-param-dry", "true")];
        assert_eq!(all, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(called(schema, r#"{"a":null,"x-mcp-header":"x"}"#), []);
    }

    #[test]
    fn a_tool_with_a_wrong_annotation_is_left_out_and_the_others_stay_as_they_are() {
        let property = |text: &str| format!(r#"{{"type":"object","properties":{{"a":{text}}}}}"#);
        for wrong in [
            property(r#"{"type":"number","x-mcp-header":"A"}"#),
            property(r#"{"type":"string","x-mcp-header":""}"#),
            property(r#"{"type":"string","x-mcp-header":"a b"}"#),
            property(r#"{"type":"string","x-mcp-header":"a\nb"}"#),
            property(r#"{"type":"string","x-mcp-header":7}"#),
            property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#),
            property(r#"{"type":"integer","maximum":9007199254740993,"x-mcp-header":"A"}"#),
            r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#.to_owned(),
            r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#.to_owned(),
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#
                .to_owned(),
        ] {
            assert!(read(&tool(&wrong)).is_err(), "{wrong}");
            let list = format!(
                r#"{{"tools":[{{"name":"u", "x":1e400}},{}],"y":2}}"#,
                String::from_utf8_lossy(&tool(&wrong))
            );
            assert_eq!(Annotations::default().learn(&list.into()), r#"{"tools":[{"name":"u", "x":1e400}],"y":2}"#);
        }
    }
}
