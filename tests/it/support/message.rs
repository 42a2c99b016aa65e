//! A JSON-RPC message on a line of its own.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// A message or a batch. It keeps its bytes, because a `Value` cannot represent every number that a test sends.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The whole line.
    pub(crate) line: String,
    /// The members of a single message as bytes; empty for a batch.
    members: BTreeMap<String, String>,
}

impl Message {
    /// Asserts that the line is a JSON-RPC message or a batch of them.
    pub(crate) fn parse(line: String) -> Self {
        if line.starts_with('[') {
            let batch: Vec<Box<RawValue>> =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(!batch.is_empty(), "an empty batch");
            batch.into_iter().for_each(|message| drop(Self::parse(message.get().to_owned())));
            return Self { members: BTreeMap::new(), line };
        }
        let members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let members: BTreeMap<String, String> =
            members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
        let names: Vec<&str> = members.keys().map(String::as_str).collect();
        let is_message = matches!(
            names[..],
            ["id", "jsonrpc", "result"]
                | ["error", "id", "jsonrpc"]
                | ["id", "jsonrpc", "method"]
                | ["id", "jsonrpc", "method", "params"]
                | ["jsonrpc", "method"]
                | ["jsonrpc", "method", "params"]
        );
        assert!(is_message && members["jsonrpc"] == "\"2.0\"", "not a JSON-RPC message: {line}");
        Self { members, line }
    }

    /// The bytes of a member.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(String::as_str)
    }

    /// The bytes of the id.
    pub(crate) fn id(&self) -> Option<&str> {
        self.raw("id")
    }

    pub(crate) fn method(&self) -> Option<&str> {
        self.raw("method").map(|method| method.trim_matches('"'))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or_else(|error| panic!("{error}: {}", self.line))
    }

    /// The code of its error.
    pub(crate) fn error_code(&self) -> Option<i64> {
        let error: BTreeMap<String, Box<RawValue>> = serde_json::from_str(self.raw("error")?).ok()?;
        error.get("code")?.get().parse().ok()
    }
}

/// The text of a tool result's first content block.
pub(crate) fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}
