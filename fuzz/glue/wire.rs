//! Fuzz targets: lines, envelopes, edits and batches.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::batch::Batches;
use super::body::Body;
use super::lines::LineReader;
use super::object::Object;
use super::params::Params;
use super::result_members::ResultMembers;
use super::{Frame, Message, MessageError, Raw, Reply, raw};
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// Runs a future that waits for nothing outside of this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}

/// Splits off the first byte, which chooses a variant of a run.
pub fn split_first_byte(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest))
}

/// A stream that arrives in chunks of at most this many bytes.
struct ChunkedStream {
    rest: Bytes,
    size: usize,
}

impl AsyncRead for ChunkedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = self.rest.len().min(self.size).min(buf.remaining());
        buf.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

fn read_lines(data: &[u8], size: usize, limit: usize) -> Vec<Result<Bytes, MessageError>> {
    block_on(async {
        let mut lines =
            LineReader::new(Box::new(ChunkedStream { rest: Bytes::copy_from_slice(data), size }), limit);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await {
            read.push(line);
        }
        read
    })
}

/// Returns what `LineReader` has to return: the lines that are not blank, or their length if they exceed the limit.
fn expected_lines(data: &[u8], limit: usize) -> Vec<Result<&[u8], u64>> {
    let lines = data.split(|byte| *byte == b'\n').filter_map(|line| {
        if line.len() > limit {
            return Some(Err(line.len() as u64));
        }
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        (!line.trim_ascii().is_empty()).then_some(Ok(line))
    });
    lines.collect()
}

/// A stream of lines: what is read does not depend on how the stream is cut, and every line is handled by
/// [`check_message`]. The first byte chooses the chunks and the limit.
pub fn wire(data: &[u8]) {
    let (variant, data) = split_first_byte(data);
    let limit = [1 << 20, 200, 20][variant % 3];
    let lines = read_lines(data, [1 << 20, 1, 7][variant / 3 % 3], limit);
    let lengths = |line: &Result<Bytes, MessageError>| match line {
        Ok(line) => Ok(line.clone()),
        Err(MessageError::TooLong { bytes, id, .. }) => {
            assert!(id.as_ref().is_none_or(|id| serde_json::from_slice::<IgnoredAny>(id).is_ok()));
            Err(*bytes)
        }
        Err(other) => panic!("{other:?}"),
    };
    let expected: Vec<_> =
        expected_lines(data, limit).into_iter().map(|line| line.map(Bytes::copy_from_slice)).collect();
    assert_eq!(lines.iter().map(lengths).collect::<Vec<_>>(), expected);
    lines.iter().flatten().for_each(check_message);
}

/// One line: serde_json agrees on whether it is JSON, its parts are slices of it, and a frame of them is the same
/// message.
fn check_message(line: &Bytes) {
    let members = serde_json::from_slice::<BTreeMap<String, &RawValue>>(line);
    let message = match Message::parse(line) {
        Ok(message) => message,
        Err(MessageError::NotJson) => return assert!(members.is_err(), "{line:?} is an object"),
        Err(MessageError::NotAMessage { id }) => {
            return assert!(id.is_none_or(|id| serde_json::from_slice::<IgnoredAny>(&id).is_ok()));
        }
        Err(_) => return assert!(line.trim_ascii_start().starts_with(b"["), "{line:?} is no batch"),
    };
    assert!(serde_json::from_slice::<IgnoredAny>(line).is_ok(), "{line:?} is not JSON");
    let again = match message.clone() {
        Message::Request(request) => {
            let answer = Frame::response(&request.id, Ok(Raw::from_static(b"{}")));
            let expected = Message::Response {
                id: request.id.clone(),
                reply: Ok(Raw::from_static(b"{}")),
                members: ResultMembers::default(),
            };
            assert_eq!(Message::parse(&line_of(&answer)), Ok(expected));
            let Ok(Message::Request(sent)) = Message::parse(&line_of(&Frame::request(
                7,
                &request.method,
                request.params.map(Body::from).as_ref(),
            ))) else {
                panic!("{line:?} is not sent as a request")
            };
            Message::Request(super::Request { id: request.id, ..sent })
        }
        Message::Notification { method, params } => {
            Message::parse(&line_of(&Frame::notification(&method, params))).expect("a notification")
        }
        Message::Response { id, reply, members } => {
            check_members(&reply, members);
            let frame = Frame::response(&id, reply);
            let Ok(Message::Response { id, reply, .. }) = Message::parse(&line_of(&frame)) else {
                panic!("{line:?} is not sent as a response")
            };
            Message::Response { id, reply, members }
        }
    };
    assert_eq!(again, message);
    match message {
        Message::Request(super::Request { params: Some(params), .. }) => {
            check_params(&params);
            check_edits(&params);
        }
        Message::Notification { params: Some(body), .. }
        | Message::Response { reply: Ok(body) | Err(body), .. } => check_edits(&body),
        _ => {}
    }
}

/// A response: no member was missed.
fn check_members(reply: &Reply, members: ResultMembers) {
    fn is_in(value: &Value, key: &str, wanted: fn(&Value) -> bool) -> bool {
        match value {
            Value::Object(members) => {
                members.get(key).is_some_and(wanted)
                    || members.values().any(|value| is_in(value, key, wanted))
            }
            Value::Array(elements) => elements.iter().any(|value| is_in(value, key, wanted)),
            _ => false,
        }
    }
    let (Ok(body) | Err(body)) = reply;
    if let Ok(body) = serde_json::from_slice(body) {
        assert!(members.uri || !is_in(&body, "uri", |_| true), "{body}");
        assert!(members.is_error || !is_in(&body, "isError", |value| *value == Value::Bool(true)), "{body}");
    }
}

/// Returns the only line of a frame, without its end.
fn line_of(frame: &Frame) -> Bytes {
    let bytes: Vec<u8> = frame.slices().flat_map(|slice| slice.to_vec()).collect();
    let line = bytes.strip_suffix(b"\n").expect("a line end");
    assert!(!line.contains(&b'\n'), "{bytes:?} is more than one line");
    Bytes::copy_from_slice(line)
}

/// Params: what was found in the pass over the line is what a search finds in their text.
fn check_params(params: &Params) {
    let inner = |key: &str| raw::get(params, key).and_then(|value| Object::parse(&value));
    let text = |object: Option<&Object>| object.map(|object| object.text().clone());
    assert_eq!(text(params.meta().as_deref()), text(inner("_meta").as_ref()));
    assert_eq!(text(params.arguments().as_deref()), text(inner("arguments").as_ref()));
    for key in ["_meta", "arguments", "name", "k"] {
        assert_eq!(params.get(key), raw::get(params, key));
        let value = || (key, Raw::from_static(b"[1e400]"));
        assert_eq!(params.with([value()]).join(), raw::set(params, key, b"[1e400]"));
        let twice = params.with([value(), (key, Raw::from_static(b"0"))]).join();
        // The first value counts, unless both are added.
        assert!(!params.has(key) || twice == raw::set(params, key, b"[1e400]"));
    }
}

/// Edits of a body: only the member that is set or removed changes.
fn check_edits(body: &Raw) {
    let Some(entries) = raw::entries(body) else {
        // An object may have a key that is no text, such as half of a surrogate pair.
        assert!(body.trim_ascii_start().starts_with(b"{") || raw::set(body, "k", b"1") == body);
        return;
    };
    let value = |key: &str| entries.iter().rfind(|(name, _)| name == key).map(|(_, value)| value.clone());
    let keys = entries.iter().map(|(key, _)| key.as_str()).take(8).chain(["_meta"]);
    for key in keys {
        assert_eq!(raw::get(body, key), value(key));
        let set = raw::set(body, key, b"[1e400]");
        let removed = raw::remove(body, key);
        assert_eq!(raw::get(&set, key).as_deref(), Some(&b"[1e400]"[..]));
        assert_eq!(raw::get(&removed, key), None);
        for (other, _) in entries.iter().filter(|(other, _)| other != key) {
            assert_eq!((raw::get(&set, other), raw::get(&removed, other)), (value(other), value(other)));
        }
    }
}

/// A batch: its messages are the ones that serde_json finds, and each request gets one answer, in arrays, in whichever
/// order the requests are answered. The first byte of the data has the order.
pub fn batches(data: &[u8]) {
    let (order, data) = split_first_byte(data);
    let line = Bytes::copy_from_slice(data);
    let elements = serde_json::from_slice::<Vec<&RawValue>>(&line);
    let mut batches = Batches::default();
    assert_eq!(batches.split_array(&line), Err(MessageError::Batch), "not accepted");
    batches.accepted = true;
    let taken = batches.split_array(&line);
    assert_eq!(taken.is_ok(), elements.as_ref().is_ok_and(|all| (1..=1000).contains(&all.len())));
    let (Ok(()), Ok(elements)) = (taken, elements) else {
        return assert!(batches.next_unread().is_none() && batches.end_reading().is_none());
    };
    let mut sent = Vec::new();
    let mut expected: Vec<Raw> = Vec::new();
    let mut waiting = Vec::new();
    for (n, element) in elements.iter().enumerate() {
        let message = batches.next_unread().expect("a message");
        assert_eq!(message, element.get().as_bytes());
        match Message::parse(&message) {
            Ok(Message::Request(request)) => {
                batches.expect(&request.id);
                expected.push(request.id.clone());
                if (order >> (n % 8)) & 1 == 1 {
                    sent.extend(batches.hold(&request.id, Ok(Raw::from_static(b"{}"))).expect("held"));
                } else {
                    waiting.push(request.id);
                }
            }
            Ok(_) => {}
            Err(_) => {
                let error = super::error_object(-32600, "no", None);
                sent.extend(batches.hold_error(&Raw::from_static(b"null"), error).expect("held"));
                expected.push(Raw::from_static(b"null"));
            }
        }
    }
    assert!(batches.next_unread().is_none());
    sent.extend(batches.end_reading());
    if order & 1 == 0 {
        waiting.reverse();
    }
    for id in waiting {
        sent.extend(batches.hold(&id, Ok(Raw::from_static(b"{}"))).expect("held"));
    }
    assert!(batches.hold(&Raw::from_static(b"7"), Ok(Raw::new())).is_err(), "no batch is left");
    let mut answered: Vec<Raw> = Vec::new();
    for frame in &sent {
        let line = line_of(frame);
        let answers: Vec<&RawValue> = serde_json::from_slice(&line).expect("an array");
        assert!(!answers.is_empty());
        answered.extend(answers.iter().map(|answer| {
            let answer = Bytes::copy_from_slice(answer.get().as_bytes());
            raw::get(&answer, "id").expect("an id")
        }));
    }
    answered.sort();
    expected.sort();
    assert_eq!(answered, expected);
}
