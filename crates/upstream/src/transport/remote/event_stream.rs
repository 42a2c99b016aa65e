//! Reads an SSE response (WHATWG HTML, "Server-sent events"), with a limit on the length of one event.

use super::message_reader::to_single_line;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_client::reqwest_error::root_cause;
use http_client::response_body::SizeError;
use parking_lot::Mutex;
use reqwest::Response;
use reqwest::header::HeaderValue;
use sse_stream::SseByteStream;
use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wire::Raw;
use wire::budget::Reservation;
use wire::malformed::log_replacement;

/// How long to wait before a lost stream is opened again, where the server sets no `retry`.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval, even if the server sets a shorter `retry`. It keeps a server that is down, or ends each stream at
/// once, from being asked in a busy loop.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The wait doubles with each failure in a row, this many times at most.
const MAX_BACKOFF_DOUBLINGS: u32 = 5;

type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An SSE response that is being read.
pub struct EventStream {
    events: SseByteStream<ByteStream>,
    unparsed: Arc<Mutex<UnparsedBytes>>,
}

/// What was read since the last event.
#[derive(Default)]
struct UnparsedBytes {
    /// The first bytes of a character whose other bytes have not come.
    undecoded: Vec<u8>,
    /// Its length in bytes.
    length: u64,
    /// Its part of the budget of all messages.
    reservation: Reservation,
    /// Why no more of it is read.
    refused: Option<SizeError>,
}

impl UnparsedBytes {
    /// Puts U+FFFD in the place of bytes that are no UTF-8, as event streams are decoded (WHATWG Encoding, "UTF-8 decode").
    fn decode(&mut self, chunk: Bytes, was_logged: &AtomicBool) -> Bytes {
        if self.undecoded.is_empty() && std::str::from_utf8(&chunk).is_ok() {
            return chunk;
        }
        let mut bytes = std::mem::take(&mut self.undecoded);
        bytes.extend_from_slice(&chunk);
        let last = bytes.utf8_chunks().last().map(|last| last.invalid().to_vec()).unwrap_or_default();
        if std::str::from_utf8(&last).is_err_and(|error| error.error_len().is_none()) {
            bytes.truncate(bytes.len() - last.len());
            self.undecoded = last;
        }
        let text = String::from_utf8_lossy(&bytes);
        if matches!(text, Cow::Owned(_)) {
            log_replacement(was_logged);
        }
        text.into_owned().into()
    }

    /// Adds a chunk. Waits for room in the budget.
    ///
    /// # Errors
    ///
    /// The bytes before this chunk exceed `limit`, or the budget has no room in time. `refused` has the reason.
    async fn add(unparsed: &Mutex<Self>, chunk: &Bytes, limit: u64) -> io::Result<()> {
        let (before, mut reservation) = {
            let mut unparsed = unparsed.lock();
            let before = unparsed.length;
            unparsed.length += chunk.len() as u64;
            (before, std::mem::take(&mut unparsed.reservation))
        };
        let length = before + chunk.len() as u64;
        let has_room = reservation.reserve(usize::try_from(length).unwrap_or(usize::MAX)).await;
        let mut unparsed = unparsed.lock();
        unparsed.reservation = reservation;
        // One chunk may exceed the limit. The next one is not kept.
        unparsed.refused = match has_room {
            _ if before > limit => Some(SizeError::TooLong(length)),
            false => Some(SizeError::OverBudget(length)),
            true => return Ok(()),
        };
        Err(io::ErrorKind::FileTooLarge.into())
    }
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
    /// The next event is too long.
    Size(SizeError),
}

impl ServerSentEvent {
    /// Returns the JSON-RPC message in the event; `None` if it has none. Some servers keep a stream alive with events
    /// of other names, and the first event of a stream may have an id and no data.
    pub(crate) fn into_message(self) -> Option<Raw> {
        let is_message = matches!(self.name.as_deref(), None | Some("" | "message"));
        (is_message && !self.data.is_empty()).then_some(self.data)
    }
}

impl EventStream {
    /// Reads the body of `response`. `limit`: the longest event, in bytes. `was_logged`: whether the log has said that the
    /// server sends bytes that are no UTF-8.
    pub fn new(response: Response, limit: usize, was_logged: Arc<AtomicBool>) -> Self {
        let (unparsed, limit) = (Arc::<Mutex<UnparsedBytes>>::default(), limit as u64);
        let shared = unparsed.clone();
        let bytes = response.bytes_stream().then(move |chunk| {
            let (shared, was_logged) = (shared.clone(), was_logged.clone());
            async move {
                let chunk = chunk.map_err(|error| io::Error::other(root_cause(&error)))?;
                UnparsedBytes::add(&shared, &chunk, limit).await?;
                // A server that sends without a pause stops nobody else.
                tokio::task::yield_now().await;
                Ok(shared.lock().decode(chunk, &was_logged))
            }
        });
        Self { events: SseByteStream::new(Box::pin(bytes)), unparsed }
    }

    /// Returns the next event. The caller limits the time.
    ///
    /// # Errors
    ///
    /// See [`StreamEnd`].
    pub async fn next(&mut self) -> Result<ServerSentEvent, StreamEnd> {
        match self.events.next().await {
            Some(Ok(event)) => {
                let reservation = {
                    let mut unparsed = self.unparsed.lock();
                    let undecoded = std::mem::take(&mut unparsed.undecoded);
                    std::mem::replace(&mut *unparsed, UnparsedBytes { undecoded, ..Default::default() })
                        .reservation
                };
                let data = reservation.hold(to_single_line(event.data.unwrap_or_default().into_bytes()));
                Ok(ServerSentEvent { name: event.event, data, id: event.id, retry: event.retry })
            }
            Some(Err(error)) => {
                if let Some(error) = self.unparsed.lock().refused {
                    return Err(StreamEnd::Size(error));
                }
                match error {
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
pub(crate) struct ReconnectState {
    /// The id of the last event, for `Last-Event-ID`.
    pub(crate) last_event_id: Option<HeaderValue>,
    /// The interval that the server set with `retry`, at least `MIN_RETRY_INTERVAL`.
    retry_interval: Option<Duration>,
}

impl ReconnectState {
    /// Records the id and the `retry` of an event that was received.
    pub(crate) fn record(&mut self, event: &ServerSentEvent) {
        if let Some(id) = &event.id {
            // An id that is not a valid header value cannot be sent. An empty id resets it.
            self.last_event_id = HeaderValue::try_from(id.as_str()).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry_interval = Some(Duration::from_millis(retry).max(MIN_RETRY_INTERVAL));
        }
    }

    /// Waits until the stream may be opened again: for the interval that the server set, or `DEFAULT_RETRY_INTERVAL`.
    /// It doubles with each failure, up to `MAX_BACKOFF_DOUBLINGS` times. `failures`: how many attempts have failed in
    /// a row.
    pub(crate) async fn wait(&self, failures: u32) {
        let interval = self.retry_interval.unwrap_or(DEFAULT_RETRY_INTERVAL);
        tokio::time::sleep(interval.saturating_mul(1 << failures.min(MAX_BACKOFF_DOUBLINGS))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn bytes_that_are_no_utf8_are_replaced_whatever_the_chunks() {
        let text = b"data: caf\xe9 \xe2\x82\xac\xff \xf0\x9f\x98\x80\xe2\x82 x";
        for size in 1..=text.len() {
            let (mut state, was_logged) = (UnparsedBytes::default(), AtomicBool::new(false));
            let decoded: Vec<u8> = text
                .chunks(size)
                .flat_map(|chunk| state.decode(Bytes::copy_from_slice(chunk), &was_logged))
                .collect();
            assert_eq!(
                String::from_utf8(decoded).unwrap(),
                String::from_utf8_lossy(text),
                "chunks of {size}"
            );
            assert!(was_logged.into_inner());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_follows_retry_doubles_and_is_never_zero() {
        let mut state = ReconnectState::default();
        for (retry, waits_ms) in [(None, [1000, 2000]), (Some(300), [300, 600]), (Some(0), [100, 200])] {
            state.record(&ServerSentEvent { name: None, data: Raw::new(), id: None, retry });
            for (failures, wait_ms) in (0..).zip(waits_ms) {
                let started = Instant::now();
                state.wait(failures).await;
                assert_eq!(started.elapsed(), Duration::from_millis(wait_ms), "retry {retry:?}");
            }
        }
    }
}
