//! Tool arguments that are mirrored into `Mcp-Param-*` headers (revision 2026-07-28, "Custom Headers from Tool
//! Parameters"; SEP-2243).
//!
//! A tool declares such a header with `x-mcp-header` in its input schema. The declarations are read from the answers to
//! `tools/list` as they pass; a tool with an invalid declaration must not be used and is removed from the answer.

use parking_lot::Mutex;
use reqwest::header::HeaderName;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tokio::sync::watch;
use wire::{Raw, raw};

/// The keyword that declares a header.
const KEYWORD: &str = "x-mcp-header";
/// A larger schema declares no headers: its tool is in no list.
const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// The largest integer that JavaScript represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The parameter headers of one server's tools, as far as its tool lists were read.
#[derive(Default)]
pub struct ParamHeaders {
    /// The headers that each tool declares.
    by_tool: Mutex<HashMap<String, Vec<ParamHeader>>>,
    /// How many lists were read to their last page.
    complete_lists: watch::Sender<usize>,
}

/// A parameter and the header that mirrors it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    /// The property names that lead from the arguments to the value.
    path: Vec<String>,
    name: HeaderName,
}

impl ParamHeaders {
    /// Reads the declarations in one page of a tool list. Returns the page without the tools whose declarations are
    /// invalid.
    pub(crate) fn read_page(&self, result: &Raw) -> Raw {
        let valid = self.read_tools(result);
        if raw::get_str(result, "nextCursor").is_none() {
            self.complete_lists.send_modify(|count| *count += 1);
        }
        valid
    }

    /// Resolves when the last page of a list is read after this call.
    pub(crate) fn next_complete_list(&self) -> impl Future<Output = ()> + use<> {
        let mut complete_lists = self.complete_lists.subscribe();
        async move {
            // Fails only when the connection, which waits for this, is dropped.
            drop(complete_lists.changed().await);
        }
    }

    fn read_tools(&self, result: &Raw) -> Raw {
        let Some(tools) = raw::elements(result, "tools") else { return result.clone() };
        let mut valid = Vec::with_capacity(tools.len());
        for tool in &tools {
            let name = raw::get_str(tool, "name").unwrap_or_default();
            match declared_headers(tool) {
                Ok(headers) => {
                    let mut by_tool = self.by_tool.lock();
                    match headers.is_empty() {
                        true => drop(by_tool.remove(&name)),
                        false => drop(by_tool.insert(name, headers)),
                    }
                    valid.push(&tool[..]);
                }
                Err(reason) => {
                    tracing::warn!(tool = %name, reason, "removed a tool whose x-mcp-header is invalid");
                }
            }
        }
        if valid.len() == tools.len() {
            return result.clone();
        }
        raw::set(result, "tools", &raw::array(&valid))
    }

    /// Returns the headers of a call of `tool` with these arguments. An argument that is missing, or no string, number
    /// or boolean, has none.
    pub(crate) fn of_call(&self, tool: &str, arguments: &Raw) -> Vec<(HeaderName, String)> {
        let headers = self.by_tool.lock().get(tool).cloned().unwrap_or_default();
        headers
            .into_iter()
            .filter_map(|header| Some((header.name.clone(), header.value(arguments)?)))
            .collect()
    }
}

/// Returns the headers that a definition declares, each with its value for these arguments; `None` for an argument that is
/// missing or `null`. A definition whose declarations are invalid has none.
pub fn of_definition(definition: &Raw, arguments: &Raw) -> Vec<(HeaderName, Option<String>)> {
    let headers = declared_headers(definition).unwrap_or_default().into_iter();
    headers.map(|header| (header.name.clone(), header.value(arguments))).collect()
}

impl ParamHeader {
    /// Returns the value for these arguments. `None` if it is missing, or is no string, number or boolean.
    fn value(&self, arguments: &Raw) -> Option<String> {
        let value = self.path.iter().try_fold(arguments.clone(), |object, key| raw::get(&object, key))?;
        primitive_text(&value)
    }
}

/// A string, number or boolean as text. A number stays as it is written, which is how the body has it.
fn primitive_text(value: &Raw) -> Option<String> {
    match value.first()? {
        b'"' => serde_json::from_slice(value).ok(),
        b'n' | b'{' | b'[' => None,
        _ => Some(String::from_utf8_lossy(value).into_owned()),
    }
}

/// The headers that a tool declares. A schema of more than `MAX_SCHEMA_BYTES`, or one that cannot be read, declares
/// none.
///
/// # Errors
///
/// Returns why a declaration is invalid.
fn declared_headers(tool: &Raw) -> Result<Vec<ParamHeader>, &'static str> {
    let Some(schema) = raw::get(tool, "inputSchema") else { return Ok(Vec::new()) };
    if schema.len() > MAX_SCHEMA_BYTES || memchr::memmem::find(&schema, KEYWORD.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    // A schema that serde_json cannot represent is not rejected because of its headers.
    let Ok(schema) = serde_json::from_slice::<Value>(&schema) else { return Ok(Vec::new()) };
    let mut headers = Vec::new();
    collect_headers(&schema, &mut Vec::new(), &mut headers)?;
    if headers.len() != count_keyword(&schema) {
        return Err("it is declared outside the properties of the arguments");
    }
    let mut names = HashSet::new();
    match headers.iter().all(|header| names.insert(&header.name)) {
        true => Ok(headers),
        false => Err("two parameters have the same header name"),
    }
}

/// Collects the headers that the properties of `schema` declare, and the properties of objects among them.
///
/// # Errors
///
/// Returns why a declaration is invalid. `path` and `headers` are of no use then.
fn collect_headers(
    schema: &Value,
    path: &mut Vec<String>,
    headers: &mut Vec<ParamHeader>,
) -> Result<(), &'static str> {
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(key.clone());
        if let Some(declared) = property.get(KEYWORD) {
            headers.push(ParamHeader { path: path.clone(), name: header_name(property, declared)? });
        }
        collect_headers(property, path, headers)?;
        path.pop();
    }
    Ok(())
}

fn header_name(property: &Value, declared: &Value) -> Result<HeaderName, &'static str> {
    let name = declared.as_str().filter(|name| !name.is_empty()).ok_or("it is not a non-empty string")?;
    if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err("its parameter is not a string, integer or boolean");
    }
    let limits = ["minimum", "maximum"].iter().filter_map(|limit| property.get(limit)?.as_i64());
    if limits.into_iter().any(|limit| limit.abs() > MAX_SAFE_INTEGER) {
        return Err(
            "its parameter allows integers beyond 2^53 - 1, which not every reader represents exactly",
        );
    }
    HeaderName::try_from(format!("mcp-param-{name}")).map_err(|_| "it is not a valid header name")
}

/// How often a schema has the keyword. Properties of that name, and values such as examples, do not count.
fn count_keyword(schema: &Value) -> usize {
    let Some(object) = schema.as_object() else {
        return schema.as_array().into_iter().flatten().map(count_keyword).sum();
    };
    let inner = object.iter().map(|(key, value)| match (key.as_str(), value) {
        (KEYWORD, _) => 1,
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(named),
        ) => named.values().map(count_keyword).sum(),
        ("const" | "default" | "enum" | "examples", _) => 0,
        (_, value) => count_keyword(value),
    });
    inner.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(schema: &str) -> Raw {
        format!(r#"{{"name":"t","inputSchema":{schema}}}"#).into()
    }

    /// Returns the headers of a call of a tool with this schema.
    fn call_headers(schema: &str, arguments: &str) -> Vec<(String, String)> {
        let headers = ParamHeaders::default();
        let list = format!(r#"{{"tools":[{}]}}"#, String::from_utf8_lossy(&tool(schema)));
        headers.read_page(&list.into());
        let headers = headers.of_call("t", &Raw::copy_from_slice(arguments.as_bytes()));
        headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    #[test]
    fn declared_arguments_are_mirrored_as_they_are_written() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string","x-mcp-header":"Region"},
            "b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"Count"}}},
            "d":{"type":"boolean","x-mcp-header":"Dry"},
            "x-mcp-header":{"type":"string"}}}"#;
        let headers = call_headers(schema, r#"{"a":"us \"w\"","b":{"c":42},"d":true}"#);
        let expected =
            [("mcp-param-region", "us \"w\""), ("mcp-param-count", "42"), ("mcp-param-dry", "true")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(call_headers(schema, r#"{"a":null,"x-mcp-header":"x"}"#), []);
    }

    #[test]
    fn a_tool_with_an_invalid_declaration_is_removed_and_the_rest_is_unchanged() {
        let property = |text: &str| format!(r#"{{"type":"object","properties":{{"a":{text}}}}}"#);
        for invalid in [
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
            assert!(declared_headers(&tool(&invalid)).is_err(), "{invalid}");
            let list = format!(
                r#"{{"tools":[{{"name":"u", "x":1e400}},{}],"y":2}}"#,
                String::from_utf8_lossy(&tool(&invalid))
            );
            assert_eq!(ParamHeaders::default().read_page(&list.into()), r#"{"tools":[{"name":"u", "x":1e400}],"y":2}"#);
        }
    }
}
