//! A message that is to be sent, and which of the lines that come back answer it.

use super::annotations::Annotations;
use super::headers;
use crate::protocol::code;
use crate::wire::{Message, Raw, raw};
use reqwest::header::HeaderMap;
use std::time::Duration;

/// A message to send.
#[derive(Clone)]
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

    /// The headers that it has by these annotations, to a stateless server.
    pub fn headers_by(&self, annotations: &Annotations) -> HeaderMap {
        headers::of(&self.method, raw::get(&self.line, "params").as_ref(), annotations)
    }

    /// Whether it is refused because the server has given up the revision that it was found to speak.
    pub fn meets_another_revision(&self, refusal: &Raw) -> bool {
        !self.introduces() && error_code(refusal) == code::UNSUPPORTED_REVISION
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
