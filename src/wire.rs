//! JSON-RPC with bodies as bytes.
//!
//! # Theory of operation
//!
//! A message is one line. `lines` cuts a stream into lines, and [`Message::parse`] parses the envelope: `id`, `method`,
//! `params`, `result` and `error` stay slices of the line. A body is never serialized again, so that nothing in it can
//! change; `raw` edits single members in place where a proxy has to. `output` writes frames in order and never waits.
//!
//! `peer` is one end of a connection and the same for both sides: it assigns ids, matches answers, enforces timeouts, and
//! cancels requests that are dropped. A client's cancellation passes from `front/session.rs` to `inbound`, which drops the
//! request's future, and so to `peer`, which cancels the request to the server. `call_options` has the options and errors
//! of one outgoing request, `open_calls` the requests that are not answered, `inbound` serves the requests of the other
//! side, and `batch` handles messages that come in one array. `malformed` says what is wrong with a line that is no
//! message, and `unfinished` joins a message that is written over several lines. `budget` limits the memory that the
//! messages of all connections take together. `stdio` opens the process's own stdin and stdout, and `log_text` makes text
//! of the other side safe for the log.

use bytes::{Buf, Bytes};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::io::IoSlice;

pub mod batch;
pub mod budget;
pub mod call_options;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod inbound;
pub mod incoming;
pub mod lines;
pub mod log_text;
pub mod malformed;
mod open_calls;
pub mod output;
pub mod peer;
pub mod percent;
#[cfg(unix)]
pub mod pipe_size;
pub mod raw;
pub mod stdio;
pub mod unfinished;

/// JSON text, usually a slice of the line it came in.
pub type Raw = Bytes;

/// The content of a response: its `result`, or its `error` object.
pub type Reply = Result<Raw, Raw>;

/// One JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A request, which has an id and gets an answer.
    Request(Request),
    /// A request without an id.
    Notification {
        /// The method's name.
        method: String,
        /// The params, if the notification has any; `null` is a value.
        params: Option<Raw>,
    },
    /// The answer to a request.
    Response {
        /// The id of the request, as the other side wrote it.
        id: Raw,
        /// What the answer says.
        reply: Reply,
    },
}

/// A request as it was received. Its answer repeats the id byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// A JSON string or number.
    pub id: Raw,
    /// The method's name.
    pub method: String,
    /// The params, if the request has any; `null` is a value.
    pub params: Option<Raw>,
}

/// Why a line is not a message that can be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageError {
    /// It is not JSON.
    NotJson,
    /// It is JSON, but neither a request, a notification nor a response.
    NotAMessage {
        /// Its id, if it has a valid one.
        id: Option<Raw>,
    },
    /// It is an array of messages, which only revision 2025-03-26 has.
    Batch,
    /// It is an empty array.
    EmptyBatch,
    /// It is an array of more messages than a batch may have.
    LargeBatch {
        /// The number of messages in it.
        messages: usize,
        /// The number of messages that a batch may have.
        limit: usize,
    },
    /// It exceeds the limit for one line.
    TooLong {
        /// Its id, if that could be found in the parts that were kept.
        id: Option<Raw>,
        /// Its length in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The memory for messages is used up.
    OverBudget {
        /// Its id, if that could be found in the parts that were kept.
        id: Option<Raw>,
        /// Its length in bytes.
        bytes: u64,
    },
}

/// The members of a message. `null` counts as a value, which serde's `Option` alone would not see. A member that is
/// given twice is rejected, because another reader of the message might choose the other value.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(d: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

impl Message {
    /// Parses one line.
    ///
    /// # Errors
    ///
    /// See [`MessageError`].
    pub fn parse(line: &Bytes) -> Result<Self, MessageError> {
        let text = line.trim_ascii_start();
        // serde would read the struct from an array, too.
        if text.first() == Some(&b'[') {
            return Err(MessageError::Batch);
        }
        let envelope: Envelope<'_> = serde_json::from_slice(text).map_err(|e| match e.classify() {
            serde_json::error::Category::Data => MessageError::NotAMessage { id: None },
            _ => MessageError::NotJson,
        })?;
        let own = |value: &RawValue| line.slice_ref(value.get().as_bytes());
        let id = envelope.id.map(own);
        let error = envelope.error.filter(|e| e.get() != "null" || envelope.result.is_none());
        let result = envelope.result.filter(|_| error.is_none());
        let method = envelope.method.map(|m| serde_json::from_str(m.get())).transpose();
        let Ok(method) = method else { return Err(MessageError::NotAMessage { id: id.filter(is_id) }) };
        match (method, id, result, error) {
            (Some(method), Some(id), None, None) if is_id(&id) => {
                Ok(Self::Request(Request { id, method, params: envelope.params.map(own) }))
            }
            (Some(method), None, None, None) => {
                Ok(Self::Notification { method, params: envelope.params.map(own) })
            }
            (None, Some(id), Some(result), None) => Ok(Self::Response { id, reply: Ok(own(result)) }),
            (None, Some(id), None, Some(error)) => Ok(Self::Response { id, reply: Err(own(error)) }),
            (_, id, ..) => Err(MessageError::NotAMessage { id: id.filter(is_id) }),
        }
    }
}

/// Ids are strings and numbers (MCP, base protocol).
fn is_id(id: &Raw) -> bool {
    matches!(id.first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// An outgoing message. Its three parts (head, body, tail) are written without being joined or serialized again.
#[derive(Debug, Clone)]
pub struct Frame([Bytes; 3]);

impl Frame {
    /// A request.
    pub fn request(id: u64, method: &str, params: Option<Raw>) -> Self {
        Self::new(format_args!(",\"id\":{id},\"method\":{}", Quoted(method)), "params", params)
    }

    /// A notification.
    pub fn notification(method: &str, params: Option<Raw>) -> Self {
        Self::new(format_args!(",\"method\":{}", Quoted(method)), "params", params)
    }

    /// A response. `id` is written as it was received, `null` if the request had no readable id.
    pub fn response(id: &[u8], reply: Reply) -> Self {
        let id = String::from_utf8_lossy(id);
        match reply {
            Ok(result) => Self::new(format_args!(",\"id\":{id}"), "result", Some(result)),
            Err(error) => Self::new(format_args!(",\"id\":{id}"), "error", Some(error)),
        }
    }

    fn new(head: std::fmt::Arguments<'_>, name: &str, body: Option<Raw>) -> Self {
        Self(match body {
            Some(body) => {
                [format!("{{\"jsonrpc\":\"2.0\"{head},\"{name}\":").into(), body, Bytes::from_static(b"}\n")]
            }
            None => [format!("{{\"jsonrpc\":\"2.0\"{head}}}\n").into(), Bytes::new(), Bytes::new()],
        })
    }

    /// The number of bytes that are not written yet.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Returns whether all bytes are written.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    /// The parts that are not written yet.
    pub fn slices(&self) -> impl Iterator<Item = IoSlice<'_>> {
        self.0.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part))
    }

    /// Marks up to `n` bytes as written. Returns how many of them belong to later frames.
    pub fn advance(&mut self, mut n: usize) -> usize {
        for part in &mut self.0 {
            let step = n.min(part.len());
            part.advance(step);
            n -= step;
        }
        n
    }
}

/// Displays a string as JSON.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::Value::from(self.0).to_string())
    }
}

/// Builds a JSON-RPC error object.
pub fn error_object(code: i64, message: &str, data: Option<serde_json::Value>) -> Raw {
    let mut error = serde_json::json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Message, MessageError> {
        Message::parse(&Bytes::copy_from_slice(line.as_bytes()))
    }

    #[test]
    fn distinguishes_requests_notifications_and_responses() {
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(Message::Request(_))));
        assert!(matches!(parse(r#"{"method":"x","jsonrpc":"2.0"}"#), Ok(Message::Notification { .. })));
        assert!(matches!(parse(r#"{"id":"a","result":null}"#), Ok(Message::Response { reply: Ok(_), .. })));
        assert!(matches!(
            parse(r#"{"id":1,"error":{"code":1}}"#),
            Ok(Message::Response { reply: Err(_), .. })
        ));
    }

    #[test]
    fn a_null_result_or_error_beside_the_other_one_is_ignored() {
        for (line, ok) in
            [(r#"{"id":1,"result":{},"error":null}"#, true), (r#"{"id":1,"error":null}"#, false)]
        {
            let Ok(Message::Response { reply, .. }) = parse(line) else { panic!("{line}") };
            assert_eq!(reply.is_ok(), ok, "{line}");
        }
        let both = parse(r#"{"id":1,"result":null,"error":{"code":1}}"#);
        assert!(matches!(both, Ok(Message::Response { reply: Err(_), .. })));
    }

    #[test]
    fn keeps_bodies_and_ids_byte_for_byte() {
        let body =
            r#"{"a":1.0,"b":123456789012345678901234567890,"c":1e400,"d":-0.0,"e":"\ud83d\ude00 \u0000"}"#;
        for id in ["1", "\"s-1\"", "12345678901234567890", "1.5", "-3", "1e2", r#""init \u00e9""#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{body}}}"#);
            let Ok(Message::Request(request)) = parse(&line) else { panic!("{line}") };
            assert_eq!(request.id, id.as_bytes());
            assert_eq!(request.params.unwrap(), body.as_bytes());
        }
    }

    #[test]
    fn rejects_ambiguous_messages() {
        assert!(parse(r#"{"id":1,"result":{},"id":2}"#).is_err());
        assert!(parse(r#"{"id":1,"method":"a","result":{}}"#).is_err());
        assert_eq!(parse(r#"[{"id":1,"method":"ping"}]"#), Err(MessageError::Batch));
        assert_eq!(parse("hello"), Err(MessageError::NotJson));
        assert_eq!(parse("3"), Err(MessageError::NotAMessage { id: None }));
    }

    #[test]
    fn reports_the_id_of_an_invalid_message() {
        let id = |line: &str| match parse(line) {
            Err(MessageError::NotAMessage { id }) => id,
            other => panic!("{other:?}"),
        };
        assert_eq!(id(r#"{"id":7,"method":3}"#).unwrap(), "7");
        assert_eq!(id(r#"{"id":7}"#).unwrap(), "7");
        assert_eq!(id(r#"{"id":null,"method":"x"}"#), None);
        assert_eq!(id(r#"{"id":{},"method":"x"}"#), None);
    }

    #[test]
    fn a_frame_is_one_line_of_json() {
        let text = |frame: Frame| String::from_utf8(frame.0.concat()).unwrap();
        assert_eq!(
            text(Frame::request(3, "a\"b", Some(Raw::from_static(b"{\"x\":1.0}")))),
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\\\"b\",\"params\":{\"x\":1.0}}\n"
        );
        assert_eq!(text(Frame::notification("n", None)), "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
        assert_eq!(
            text(Frame::response(b"\"s\"", Err(error_object(-1, "no", None)))),
            "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"error\":{\"code\":-1,\"message\":\"no\"}}\n"
        );
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _outcome = Message::parse(&bytes.into());
        }
    }
}
