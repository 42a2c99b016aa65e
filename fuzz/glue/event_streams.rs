//! Fuzz target: event streams.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::event_stream::{EventStream, ReconnectState, StreamEnd};
use bytes::Bytes;
use futures_util::stream;
use http_client::response_body::SizeError;
use reqwest::{Body, Response};
use std::convert::Infallible;
pub use wire::fuzz::{block_on, split_first_byte};

/// Reads a stream that arrives in chunks of this many bytes. Returns the names and data of its events.
fn read_events(data: &[u8], chunk_size: usize, limit: usize) -> (Vec<(String, Bytes)>, ReconnectState) {
    let chunks: Vec<_> =
        data.chunks(chunk_size).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
    let response = Response::from(http::Response::new(Body::wrap_stream(stream::iter(chunks))));
    let (mut events, mut state) = (Vec::new(), ReconnectState::default());
    block_on(async {
        let mut stream = EventStream::new(response, limit, Default::default());
        loop {
            match stream.next().await {
                Ok(event) => {
                    state.record(&event);
                    events.push((event.name.clone().unwrap_or_default(), event.data.clone()));
                    let message = event.into_message();
                    assert!(message.is_none_or(|message| !message.is_empty()));
                }
                Err(StreamEnd::Closed | StreamEnd::Interrupted(_)) => return,
                Err(StreamEnd::Size(SizeError::TooLong(bytes))) => return assert!(bytes > limit as u64),
                Err(StreamEnd::Size(SizeError::OverBudget(_))) => unreachable!("a few bytes"),
            }
        }
    });
    (events, state)
}

/// An event stream: the events are those of the specification, however the stream is cut, and each is one line. The
/// first byte chooses the chunks.
pub fn sse(data: &[u8]) {
    let (variant, data) = split_first_byte(data);
    let (events, state) = read_events(data, 1 << 20, 1 << 20);
    for (_, data) in &events {
        assert!(!data.contains(&b'\n') && !data.contains(&b'\r'), "{data:?} is more than one line");
    }
    let id = state.last_event_id.map(|id| id.as_bytes().to_vec());
    assert!(id.is_none_or(|id| !id.is_empty()));
    if let Ok(text) = std::str::from_utf8(data) {
        assert_eq!(events, expected_events(text));
    }
    let (chunked, _) = read_events(data, [1, 2, 5][variant % 3], 1 << 20);
    assert_eq!(chunked, events, "in chunks");
    // A limit only ends a stream early.
    let (limited, _) = read_events(data, 8, 64);
    assert!(events.starts_with(&limited), "{limited:?}");
}

/// The events of a stream as the specification parses it (WHATWG HTML, "Interpreting an event stream"). An event
/// without data is dispatched here, too, if it has another field, because its id counts.
fn expected_events(text: &str) -> Vec<(String, Bytes)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut event) = (Vec::new(), (String::new(), None::<String>, false));
    // A line without an end is incomplete.
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for line in lines {
        if line.is_empty() {
            let (name, data, has_field) = std::mem::take(&mut event);
            if has_field {
                let data = data.unwrap_or_default().replace('\n', " ");
                events.push((name, Bytes::from(data)));
            }
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event.0 = value.to_owned(),
            "data" => match &mut event.1 {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => event.1 = Some(value.to_owned()),
            },
            "id" if value.contains('\0') => continue,
            "retry" if value.starts_with('+') || value.parse::<u64>().is_err() => continue,
            "id" | "retry" => {}
            _ => continue,
        }
        event.2 = true;
    }
    events
}
