//! A JSON-RPC message on its way to a server, and which messages answer it.

use super::headers;
use super::param_headers::ParamHeaders;
use reqwest::header::HeaderMap;
use std::time::Duration;
use wire::malformed::{Outline, outlines};
use wire::peer::own_ids::own_id;
use wire::protocol::code;
use wire::protocol::methods::Method;
use wire::{Message, Raw, raw};

/// A message to send by POST.
#[derive(Clone)]
pub(crate) struct OutgoingMessage {
    /// The id of a request.
    pub id: Option<Raw>,
    /// Empty for a response.
    pub method: String,
    /// The whole message.
    pub line: Raw,
    /// Headers that depend on the message.
    pub headers: HeaderMap,
}

impl OutgoingMessage {
    /// Creates a `ping`. Its id is none of the peer's, which are numbers.
    pub(crate) fn ping() -> Self {
        let line = Raw::from_static(br#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#);
        let (id, method) = (raw::get(&line, "id"), Method::Ping.name().to_owned());
        Self { id, method, line, headers: HeaderMap::new() }
    }

    /// Whether it is a first request of a connection.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }

    /// Returns the headers of the message for a stateless server, with the parameter headers that are known now.
    pub(crate) fn stateless_headers(&self, param_headers: &ParamHeaders) -> HeaderMap {
        headers::stateless(&self.method, raw::get(&self.line, "params").as_ref(), param_headers)
    }

    /// Whether this error response says that the server no longer accepts the revision that it once accepted.
    pub(crate) fn revision_was_withdrawn(&self, response: &Raw) -> bool {
        !self.is_handshake() && error_code(response) == code::UNSUPPORTED_REVISION
    }

    /// The longest `Retry-After` that is waited for. It leaves time for the answer within the timeouts of the caller.
    pub(crate) fn max_retry_after(&self) -> Duration {
        match self.method.as_str() {
            "tools/call" | "resources/read" | "prompts/get" => Duration::from_secs(10),
            // The group's own retries wait for it.
            _ if self.is_handshake() => Duration::ZERO,
            _ => Duration::from_secs(3),
        }
    }

    /// Whether `message` is the response to it. Some servers return a number in another form.
    pub(crate) fn is_answered_by(&self, message: &Message) -> bool {
        matches!(message, Message::Response { id, .. } if self.has_id(id))
    }

    /// Whether a message that cannot be read was meant as the response to it.
    pub(crate) fn is_answered_by_malformed(&self, line: &Raw) -> bool {
        outlines(line).iter().filter_map(Outline::answered_id).any(|id| self.has_id(id))
    }

    fn has_id(&self, id: &Raw) -> bool {
        self.id
            .as_ref()
            .is_some_and(|own| own == id || own_id(own).is_some_and(|own| own_id(id) == Some(own)))
    }

    /// Returns a body that is a JSON-RPC error as the response to it. Servers that did not read its id leave the id
    /// out or set it to null.
    pub(crate) fn error_response(&self, body: &Raw) -> Option<Raw> {
        raw::get(body, "error").filter(|error| error.first() == Some(&b'{'))?;
        let response = raw::set(body, "id", self.id.as_ref()?);
        matches!(Message::parse(&response), Ok(Message::Response { reply: Err(_), .. })).then_some(response)
    }
}

/// Whether a response is an error.
pub(crate) fn is_error(response: &Message) -> bool {
    matches!(response, Message::Response { reply: Err(_), .. })
}

/// The code of a JSON-RPC error response; 0 if it has none.
pub fn error_code(response: &Raw) -> i64 {
    raw::get(response, "error").and_then(|error| raw::error_code(&error)).unwrap_or_default()
}
