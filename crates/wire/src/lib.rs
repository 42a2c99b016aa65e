//! JSON-RPC with bodies as bytes.
//!
//! # Theory of operation
//!
//! A message is one line. `lines` cuts a stream into lines, and [`Message::parse`] checks a line in one pass (`scan`):
//! `id`, `method`, `params`, `result` and `error` stay slices of it. The same pass finds the members of a request's
//! params (`params`, `object`), so that no handler reads them again, and notes which members a result may have
//! (`result_members`).
//!
//! A body is never serialized again, so nothing in it can change. A member that a proxy has to replace becomes a part
//! of its own between slices of the line (`body`), or is replaced in a copy (`raw`). `output` queues the messages
//! (`frame`) in order and never waits. Messages that were read together are handled together (`connection`), and the
//! messages that this sends are written at once (`coalesce`); the output's writer writes everything else.
//!
//! `peer` is one end of a connection and the same type for both sides: it assigns ids, matches answers, enforces
//! timeouts, and cancels requests that are dropped. `call_options` has the options and errors of one outgoing request,
//! and `open_calls` the requests that are not answered. `inbound` serves the requests of the other side: a cancellation
//! drops the future of its request, and the peer of the other connection then cancels the request that the future was
//! waiting for, with the client's params (`cancellation`).
//!
//! - `batch` handles messages that come in one array. `malformed` describes the fault of a line that is no message,
//!   and `unfinished` joins a message that is written over several lines; both use `tokens`, which passes over text
//!   that may not be JSON.
//! - `budget` limits the memory that the messages of all connections take together.
//! - `stdio` opens the process's own stdin and stdout. `log_text` makes text of the other side safe for the log.
//! - `fold` compares keys as programs do that ignore case. `protocol` has the methods, revisions and keys of MCP.
//!
//! # Invariants
//!
//! - A line is checked once and completely, so every text that is passed on is JSON.
//! - `Output::send` never waits. A reader waits for `Output::ready` before it reads more.
//! - Every request of ours has a deadline, and every line, queue and batch a limit.
//!
//! ```no_run
//! # use wire::{Raw, call_options::CallOptions, output::Output, peer::Peer};
//! # async fn example(output: Output) {
//! let (peer, deadlines) = Peer::new(output);
//! tokio::spawn(deadlines.run());
//! let options = CallOptions::within(std::time::Duration::from_secs(10));
//! let reply = peer.call("tools/list", None::<Raw>, options).await;
//! # drop(reply);
//! # }
//! ```

use crate::protocol::methods::Method;
use crate::protocol::{Era, meta};
use bytes::{Buf, Bytes};
use params::Params;
use result_members::ResultMembers;
use scan::Scanner;
use std::ops::{Deref, Range};

pub use output::frame::{Frame, json_string};

pub mod batch;
pub mod block;
pub mod body;
pub mod budget;
pub mod connection;
pub mod fold;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/wire.rs"]
pub mod fuzz;
pub mod inbound;
pub mod lines;
pub mod log_text;
pub mod malformed;
pub mod object;
pub mod output;
pub mod params;
pub mod peer;
pub mod percent;
pub mod protocol;
pub mod raw;
pub mod result_members;
pub mod scan;
pub mod stdio;
pub mod tokens;
pub mod unfinished;

/// JSON text, usually a slice of the line it came in.
pub type Raw = Bytes;

/// The content of a response: its `result`, or its `error` object.
pub type Reply = Result<Raw, Raw>;

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReply {
    /// The result or the error.
    pub reply: Reply,
    /// The rare members that it may have.
    pub members: ResultMembers,
}

impl From<Reply> for CallReply {
    fn from(reply: Reply) -> Self {
        Self { reply, members: ResultMembers::ANY }
    }
}

/// The name of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodName {
    /// That of a method of MCP.
    Known(Method),
    /// Any other.
    Other(String),
}

impl MethodName {
    /// Returns the method of MCP that has this name.
    pub fn known(&self) -> Option<Method> {
        match self {
            Self::Known(method) => Some(*method),
            Self::Other(_) => None,
        }
    }
}

impl From<&str> for MethodName {
    fn from(name: &str) -> Self {
        Method::parse(name).map_or_else(|| Self::Other(name.to_owned()), Self::Known)
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Known(method) => method.name(),
            Self::Other(name) => name,
        }
    }
}

/// How messages begin that most SDKs write.
const USUAL_START: &[u8] = b"{\"jsonrpc\":\"2.0\",";

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
        /// The result or the error.
        reply: Reply,
        /// The rare members that it may have.
        members: ResultMembers,
    },
}

/// A request as it was received. Its answer repeats the id byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// A JSON string or number.
    pub id: Raw,
    /// The method's name.
    pub method: MethodName,
    /// The params, if the request has any; `null` is a value.
    pub params: Option<Params>,
}

impl Request {
    /// Returns the era in which the request was made. `server/discover` exists only in the stateless era.
    pub fn era(&self) -> Era {
        let meta = self.params.as_ref().and_then(Params::meta);
        let has_version = meta.is_some_and(|meta| meta.get(meta::VERSION).is_some());
        match has_version || self.method == MethodName::Known(Method::ServerDiscover) {
            true => Era::Stateless,
            false => Era::Handshake,
        }
    }
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

impl Message {
    /// Parses one line.
    ///
    /// # Errors
    ///
    /// See [`MessageError`].
    pub fn parse(line: &Bytes) -> Result<Self, MessageError> {
        Self::parse_line(line.clone()).map_err(|(error, _)| error)
    }

    /// Parses a line like [`Message::parse`], and takes it: the parts of the message are slices of it.
    ///
    /// # Errors
    ///
    /// Returns the line with the error.
    pub fn parse_line(line: Bytes) -> Result<Self, (MessageError, Bytes)> {
        let envelope = match Envelope::of(&line) {
            Ok(envelope) => envelope,
            Err(error) => return Err((error, line)),
        };
        let Envelope { id, method, params, result, error, noted: members, .. } = envelope;
        let error = error.filter(|error| &line[error.clone()] != b"null" || result.is_none());
        let result = result.filter(|_| error.is_none());
        let not_a_message = |line: Bytes, id: Option<Range<usize>>| {
            let id = id.map(|id| line.slice(id)).filter(|id| is_id(id));
            (MessageError::NotAMessage { id }, line)
        };
        let name = match method.map(|method| method_name(&line[method])) {
            Some(None) => return Err(not_a_message(line, id)),
            name => name.flatten(),
        };
        match (name, id, result, error) {
            (Some(method), Some(id), None, None) if is_id(&line[id.clone()]) => {
                Ok(Self::Request(Request { id: part(line, id), method, params }))
            }
            (Some(method), None, None, None) => Ok(Self::Notification {
                method: (*method).to_owned(),
                params: params.map(|params| Raw::clone(&params)),
            }),
            (None, Some(id), Some(result), None) => {
                Ok(Self::Response { id: line.slice(id), reply: Ok(part(line, result)), members })
            }
            (None, Some(id), None, Some(error)) => {
                Ok(Self::Response { id: line.slice(id), reply: Err(part(line, error)), members })
            }
            (_, id, ..) => Err(not_a_message(line, id)),
        }
    }
}

/// Returns a part of a line that is not needed any more, which costs less than a slice.
fn part(mut line: Bytes, range: Range<usize>) -> Bytes {
    line.truncate(range.end);
    line.advance(range.start);
    line
}

/// The members of a message, as offsets in its line. `null` counts as a value. A member that is given twice makes the
/// message invalid, because another reader of it might choose the other value.
#[derive(Default)]
struct Envelope {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Params>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    /// Whether a member is given twice.
    repeats: bool,
    /// The rare members that may be in any of its objects.
    noted: ResultMembers,
}

impl Envelope {
    /// Finds the members of a message.
    ///
    /// # Errors
    ///
    /// `Batch` for an array, `NotJson`, or `NotAMessage` for any other value than an object and for an object that has
    /// a member twice.
    fn of(line: &Bytes) -> Result<Self, MessageError> {
        let mut scanner = Scanner::new(line);
        match scanner.peek() {
            Some(b'{') => {}
            Some(b'[') => return Err(MessageError::Batch),
            _ => {
                let is_json = scanner.value().is_some() && scanner.end().is_some();
                return Err(if is_json {
                    MessageError::NotAMessage { id: None }
                } else {
                    MessageError::NotJson
                });
            }
        }
        let envelope = Self::scan(scanner, line).ok_or(MessageError::NotJson)?;
        match envelope.repeats {
            true => Err(MessageError::NotAMessage { id: None }),
            false => Ok(envelope),
        }
    }

    /// Reads the only pass over a line that checks it. `None` if it is not JSON.
    fn scan(mut scanner: Scanner<'_>, line: &Bytes) -> Option<Self> {
        let mut found = Self::default();
        let known = if scanner.starts_with(USUAL_START) { USUAL_START.len() } else { 1 };
        scanner.members_after(known, |scanner, key, escaped| {
            let decoded: String;
            let mut name = &line[key.clone()];
            if escaped {
                decoded = serde_json::from_slice(&line[key.start - 1..key.end + 1]).unwrap_or_default();
                name = decoded.as_bytes();
            }
            let member = match name {
                b"id" => &mut found.id,
                b"method" => &mut found.method,
                b"result" => &mut found.result,
                b"error" => &mut found.error,
                b"params" => {
                    found.repeats |= found.params.is_some();
                    found.params = Some(Params::scan(scanner, line)?);
                    return Some(());
                }
                _ => return scanner.value().map(drop),
            };
            found.repeats |= member.is_some();
            *member = Some(scanner.value()?);
            Some(())
        })?;
        found.noted = scanner.noted;
        scanner.end()?;
        Some(found)
    }
}

/// Reads the name of a method. `None` if it is not a string, or has half of a surrogate pair.
fn method_name(text: &[u8]) -> Option<MethodName> {
    if let [b'"', name @ .., b'"'] = text
        && let Some(method) = Method::of_bytes(name)
    {
        return Some(MethodName::Known(method));
    }
    Some(MethodName::from(&*object::str(text)?))
}

/// Ids are strings and numbers (MCP, base protocol).
fn is_id(id: &[u8]) -> bool {
    matches!(id.first(), Some(b'"' | b'-' | b'0'..=b'9'))
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
            assert_eq!(&request.params.unwrap()[..], body.as_bytes());
        }
    }

    #[test]
    fn rejects_ambiguous_messages() {
        assert!(parse(r#"{"id":1,"result":{},"id":2}"#).is_err());
        assert!(parse(r#"{"id":1,"method":"a","result":{}}"#).is_err());
        assert_eq!(parse(r#"[{"id":1,"method":"ping"}]"#), Err(MessageError::Batch));
        assert_eq!(parse("hello"), Err(MessageError::NotJson));
        assert_eq!(parse(r#"{"jsonrpc":"2.0",}"#), Err(MessageError::NotJson));
        assert_eq!(parse(r#"{"jsonrpc":"2.0","#), Err(MessageError::NotJson));
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
        let text = |frame: Frame| String::from_utf8(frame.text().to_vec()).unwrap();
        assert_eq!(
            text(Frame::request(3, "a\"b", Some(&Raw::from_static(b"{\"x\":1.0}").into()))),
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\\\"b\",\"params\":{\"x\":1.0}}\n"
        );
        assert_eq!(text(Frame::notification("n", None)), "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
        assert_eq!(
            text(Frame::response(&Raw::from_static(b"\"s\""), Err(error_object(-1, "no", None)))),
            "{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"error\":{\"code\":-1,\"message\":\"no\"}}\n"
        );
    }

    #[test]
    fn a_response_says_which_members_it_may_have() {
        let members = |result: &str| match parse(&format!(r#"{{"id":1,"result":{result}}}"#)) {
            Ok(Message::Response { members, .. }) => (members.is_error, members.uri),
            other => panic!("{other:?}"),
        };
        for (result, expected) in [
            (
                r#"{"content":[{"type":"text","text":"\"uri\": \"isError\":true"}],"isError":false}"#,
                (false, false),
            ),
            (r#"{"content":[],"isError" : true}"#, (true, false)),
            (r#"{"content":[{"type":"resource","resource":{"uri":"x://1"}}]}"#, (false, true)),
            (r#"{"is\u0045rror":true}"#, (true, true)),
            (r#"[[{"isError":true}]]"#, (true, false)),
        ] {
            assert_eq!(members(result), expected, "{result}");
        }
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _outcome = Message::parse(&bytes.into());
        }
    }
}
