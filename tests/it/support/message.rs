//! A line of the program's stdout, which must be a JSON-RPC message.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Keeps its bytes: what passes through may hold numbers that no `Value` does.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) line: String,
    members: BTreeMap<String, String>,
}

impl Message {
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
        assert!(is_message && members["jsonrpc"] == "\"2.0\"", "no JSON-RPC message: {line}");
        Self { members, line }
    }

    /// The bytes of a member.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(String::as_str)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.raw("id")
    }

    pub(crate) fn method(&self) -> Option<&str> {
        self.raw("method").map(|method| method.trim_matches('"'))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or_else(|error| panic!("{error}: {}", self.line))
    }

    /// The code of the error it carries.
    pub(crate) fn code(&self) -> Option<i64> {
        let error: BTreeMap<String, Box<RawValue>> = serde_json::from_str(self.raw("error")?).ok()?;
        error.get("code")?.get().parse().ok()
    }
}

/// The first text of a tool's result.
pub(crate) fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}
