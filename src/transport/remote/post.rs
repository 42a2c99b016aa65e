//! A message that is to be sent, and which of the lines that come back answer it.

use crate::wire::{Message, Raw, raw};
use reqwest::header::HeaderMap;
use std::time::Duration;

/// A message to send.
pub struct Post {
    /// Of a request.
    pub id: Option<Raw>,
    /// Empty for an answer of ours.
    pub method: String,
    pub line: Raw,
    pub headers: HeaderMap,
}

impl Post {
    /// Whether it is the first word on a connection.
    pub fn introduces(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    /// How long a server that is busy is waited for: within the time that its answer has.
    pub fn patience(&self) -> Duration {
        match self.method.as_str() {
            "tools/call" | "resources/read" | "prompts/get" => Duration::from_secs(10),
            // The group is tried again when it wants.
            _ if self.introduces() => Duration::ZERO,
            _ => Duration::from_secs(3),
        }
    }

    /// Whether this message answers it. Some servers return numbers as strings.
    pub fn is_answered_by(&self, message: &Message) -> bool {
        let Message::Response { id, .. } = message else { return false };
        let bare = id.strip_prefix(b"\"").and_then(|id| id.strip_suffix(b"\""));
        self.id.as_ref().is_some_and(|own| own == id || bare.is_some_and(|id| id == own))
    }

    /// An error of JSON-RPC as the answer to it; servers that did not read its id leave it out.
    pub fn error(&self, line: &Raw) -> Option<Raw> {
        raw::get(line, "error").filter(|error| error.first() == Some(&b'{'))?;
        let line = raw::set(line, "id", self.id.as_ref()?);
        matches!(Message::parse(&line), Ok(Message::Response { reply: Err(_), .. })).then_some(line)
    }
}

/// Of an error of JSON-RPC.
pub fn error_code(line: &Raw) -> i64 {
    let code = raw::get(line, "error").and_then(|error| raw::get(&error, "code"));
    code.and_then(|code| serde_json::from_slice(&code).ok()).unwrap_or_default()
}
