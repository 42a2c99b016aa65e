//! Reads an SSE response (WHATWG HTML, "Server-sent events"), with a limit on the length of one event.

use super::message_reader::to_single_line;
use super::reqwest_error::root_cause;
use crate::wire::Raw;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use reqwest::header::HeaderValue;
use sse_stream::SseByteStream;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long to wait before a lost stream is opened again, where the server sets no `retry`.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The wait doubles with each failure in a row, this many times at most.
const MAX_BACKOFF_DOUBLINGS: u32 = 5;

type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An SSE response that is being read.
pub struct EventStream {
    events: SseByteStream<ByteStream>,
    /// Bytes that were read since the last event.
    unparsed_bytes: Arc<AtomicU64>,
    /// The longest event, in bytes.
    limit: u64,
}

/// One event.
pub struct ServerSentEvent {
    /// The `event` field.
    pub name: Option<String>,
    /// The data, on one line.
    pub data: Raw,
    /// The `id` field.
    id: Option<String>,
    /// The `retry` field, in milliseconds.
    retry: Option<u64>,
}

/// Why a stream has no next event.
pub enum StreamEnd {
    /// The server ended the stream.
    Closed,
    /// The connection was lost, for this reason.
    Interrupted(String),
    /// The next event is longer than the limit: it has at least this many bytes.
    TooLong(u64),
}

impl ServerSentEvent {
    /// Returns the JSON-RPC message in the event. `None`: it carries none. Some servers keep a stream alive with events
    /// of other names, and the first event of a stream may have an id and no data.
    pub fn into_message(self) -> Option<Raw> {
        let is_message = matches!(self.name.as_deref(), None | Some("" | "message"));
        (is_message && !self.data.is_empty()).then_some(self.data)
    }
}

impl EventStream {
    /// Reads the body of `response`. `limit`: the longest event, in bytes.
    pub fn new(response: Response, limit: usize) -> Self {
        let (unparsed_bytes, limit) = (Arc::<AtomicU64>::default(), limit as u64);
        let counter = unparsed_bytes.clone();
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(root_cause(&error)))?;
            // One chunk may exceed the limit. The next one is not kept.
            match counter.fetch_add(chunk.len() as u64, Ordering::Relaxed) {
                before if before > limit => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
                _ => Ok(chunk),
            }
        });
        Self { events: SseByteStream::new(Box::pin(bytes)), unparsed_bytes, limit }
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Result<ServerSentEvent, StreamEnd> {
        match self.events.next().await {
            Some(Ok(event)) => {
                self.unparsed_bytes.store(0, Ordering::Relaxed);
                let data = to_single_line(event.data.unwrap_or_default().into_bytes());
                Ok(ServerSentEvent { name: event.event, data, id: event.id, retry: event.retry })
            }
            Some(Err(error)) => {
                let bytes = self.unparsed_bytes.load(Ordering::Relaxed);
                match error {
                    _ if bytes > self.limit => Err(StreamEnd::TooLong(bytes)),
                    sse_stream::Error::Body(error) => Err(StreamEnd::Interrupted(error.to_string())),
                    other => Err(StreamEnd::Interrupted(other.to_string())),
                }
            }
            None => Err(StreamEnd::Closed),
        }
    }
}

/// What a client needs to open a lost stream again: where to continue, and when.
#[derive(Default)]
pub struct ReconnectState {
    /// The id of the last event, for `Last-Event-ID`.
    pub last_event_id: Option<HeaderValue>,
    /// The interval that the server set with `retry`.
    retry_interval: Option<Duration>,
}

impl ReconnectState {
    /// Records the id and the `retry` of an event that was received.
    pub fn record(&mut self, event: &ServerSentEvent) {
        if let Some(id) = &event.id {
            // An id that is not a valid header value cannot be sent. An empty id resets it.
            self.last_event_id = HeaderValue::try_from(id.as_str()).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry_interval = Some(Duration::from_millis(retry));
        }
    }

    /// Waits until the stream may be opened again. `failures`: how many attempts have failed in a row.
    pub async fn wait(&self, failures: u32) {
        let interval = self.retry_interval.unwrap_or(DEFAULT_RETRY_INTERVAL);
        tokio::time::sleep(interval.saturating_mul(1 << failures.min(MAX_BACKOFF_DOUBLINGS))).await;
    }
}
