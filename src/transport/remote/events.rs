//! Server-sent events of an answer, with a limit on their length, and where to go on when their connection broke.

use super::error::cause;
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

/// Before a stream is opened again, where the server does not say.
const RETRY: Duration = Duration::from_secs(1);

type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

pub struct Events {
    events: SseByteStream<ByteStream>,
    /// Bytes read since the last event.
    pending: Arc<AtomicU64>,
    limit: u64,
}

/// What is of interest of an event.
pub struct Event {
    pub name: Option<String>,
    pub data: Raw,
    id: Option<String>,
    retry: Option<u64>,
}

impl Event {
    /// What it carries, if that is a message. Some servers keep the stream alive by events of other names, and the
    /// first of a stream may have no data at all.
    pub fn message(self) -> Option<Raw> {
        let named = matches!(self.name.as_deref(), None | Some("" | "message"));
        (named && !self.data.is_empty()).then_some(self.data)
    }
}

/// Why there is no next event.
pub enum End {
    /// The server ended the stream.
    Closed,
    Broken(String),
    TooLong(u64),
}

impl Events {
    pub fn new(response: Response, limit: usize) -> Self {
        let (pending, limit) = (Arc::<AtomicU64>::default(), limit as u64);
        let counter = pending.clone();
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(cause(&error)))?;
            // What is longer than this is not kept to see where it ends.
            match counter.fetch_add(chunk.len() as u64, Ordering::Relaxed) {
                before if before > limit => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
                _ => Ok(chunk),
            }
        });
        Self { events: SseByteStream::new(Box::pin(bytes)), pending, limit }
    }

    pub async fn next(&mut self) -> Result<Event, End> {
        match self.events.next().await {
            Some(Ok(event)) => {
                self.pending.store(0, Ordering::Relaxed);
                let data = super::intake::one_line(event.data.unwrap_or_default().into_bytes());
                Ok(Event { name: event.event, data, id: event.id, retry: event.retry })
            }
            Some(Err(error)) => {
                let bytes = self.pending.load(Ordering::Relaxed);
                match error {
                    _ if bytes > self.limit => Err(End::TooLong(bytes)),
                    sse_stream::Error::Body(error) => Err(End::Broken(error.to_string())),
                    other => Err(End::Broken(other.to_string())),
                }
            }
            None => Err(End::Closed),
        }
    }
}

/// Where a stream is: what to ask for, and when, if its connection is gone.
#[derive(Default)]
pub struct Cursor {
    pub last: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl Cursor {
    pub fn pass(&mut self, event: &Event) {
        if let Some(id) = &event.id {
            // An id that no header can carry cannot be asked for; an empty one takes the last back.
            self.last = HeaderValue::try_from(id.as_str()).ok().filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Resolves when the stream may be opened again; later each time that this fails.
    pub async fn pause(&self, failures: u32) {
        let gap = self.retry.unwrap_or(RETRY);
        tokio::time::sleep(gap.saturating_mul(1 << failures.min(5))).await;
    }
}
