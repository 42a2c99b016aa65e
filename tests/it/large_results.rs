//! Results that are too large for a client: `select`, and `store_above`.

use serde_json::{Value, json};

use crate::support::{InputRecord, Proxy, merged, pure_config, scripted_upstream, text_of};

mod routes;
mod select;
// Signals, and files that are found in /proc.
#[cfg(target_os = "linux")]
mod sessions;
mod stored;

/// Tools whose arguments are their result: `verbatim`, and one with the parameter `select`, which returns its arguments.
const DEFINITIONS: &str = r#"{"name":"verbatim","description":"d","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},{"name":"selects","description":"d","inputSchema":{"type":"object","properties":{"select":{"type":"string"}}}},{"name":"selects_not","description":"d","inputSchema":{"type":"object","properties":{"a":{}}}}"#;

/// The entry of an upstream with these tools.
fn upstream() -> Value {
    scripted_upstream(&["--definitions", DEFINITIONS])
}

/// A config with the group `g`, whose entry has these members.
fn config(members: Value) -> Value {
    pure_config([("g", merged(upstream(), members))])
}

/// A proxy whose results above this size are stored.
fn storing(store_above: impl Into<Value>) -> Proxy {
    Proxy::new(&config(json!({"store_above": store_above.into()})))
}

/// A proxy without that, and the record of what its upstream receives.
fn recorded(members: Value) -> (Proxy, InputRecord) {
    let record = InputRecord::new();
    let entry = merged(record.attached_to(upstream()), members);
    (Proxy::new(&pure_config([("g", entry)])), record)
}

/// Calls `verbatim` with this result and this program.
fn select(proxy: &mut Proxy, result: &Value, program: &str) -> Value {
    let arguments = json!({"group": "g", "name": "verbatim", "args": result, "select": program});
    proxy.call_meta_tool("call_dynamic_tool", arguments)
}

/// Reads a part of a stored result.
fn read(proxy: &mut Proxy, id: &str, part: Value) -> Value {
    let args = merged(json!({"id": id}), part);
    proxy.call_meta_tool(
        "call_dynamic_tool_readonly",
        json!({"group": "dynamic-mcp", "name": "result", "args": args}),
    )
}

fn read_text(proxy: &mut Proxy, id: &str, part: Value) -> String {
    let result = read(proxy, id, part);
    assert_ne!(result["isError"], true, "{result}");
    text_of(&result).to_owned()
}

fn read_failure(proxy: &mut Proxy, id: &str, part: Value) -> String {
    let result = read(proxy, id, part);
    assert_eq!(result["isError"], true, "{result}");
    text_of(&result).to_owned()
}

/// The text of the block at `index`.
fn block(result: &Value, index: usize) -> &str {
    result["content"][index]["text"].as_str().unwrap_or_else(|| panic!("no text {index}: {result}"))
}

/// The last text of a result, which is our own.
fn note(result: &Value) -> &str {
    block(result, result["content"].as_array().unwrap().len() - 1)
}

/// The id of the stored result that a text names.
fn id_in(text: &str) -> String {
    let start = text.find(r#""id":""#).unwrap_or_else(|| panic!("no id: {text}")) + 6;
    text[start..start + 32].to_owned()
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
