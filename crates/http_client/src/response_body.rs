//! Reads the body of a response within a limit, and finds the message in the body of an error response.

use super::reqwest_error::root_cause;
use base::text::{quoted, shorten};
use bytes::Bytes;
use futures_util::future::ready;
use futures_util::{StreamExt, stream};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use sse_stream::SseByteStream;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use wire::budget::Reservation;
use wire::lines::BYTES_PER_TURN;
use wire::peer::call_options::CallError;
use wire::{Raw, raw};

/// How long the body of an error response is read.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of the body of an error response is read.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// How many characters of a server's error message are shown.
pub(crate) const MAX_ERROR_MESSAGE_CHARS: usize = 500;

/// The media type of a web page.
pub const HTML: &str = "text/html";
/// The media type of a JSON response.
pub const JSON: &str = "application/json";
/// The media type of an SSE response.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Why a message of the server is not read to its end. Each has the number of bytes that were read or announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It exceeds the limit for one message.
    #[error("the message is longer than the limit ({0} bytes)")]
    TooLong(u64),
    /// The memory for the messages of all connections is used up.
    #[error("there is no memory left for the message ({0} bytes)")]
    OverBudget(u64),
}

impl SizeError {
    /// Returns the error for the caller who waits for the message. `limit`: the limit for one message, in bytes.
    pub fn for_caller(self, limit: usize) -> CallError {
        match self {
            Self::TooLong(bytes) => CallError::TooLong { bytes, limit },
            Self::OverBudget(bytes) => CallError::OverBudget { bytes },
        }
    }
}

/// Why the body of a response was not read.
pub enum BodyError {
    /// It is too long.
    Size(SizeError),
    /// The connection was lost, for this reason.
    Interrupted(String),
}

/// Returns the media type of a response, in lower case and without its parameters; empty if it has none.
pub fn media_type(response: &Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads a whole body of at most `limit` bytes. The reservation is its part of the budget of all messages. The caller
/// limits the time.
///
/// # Errors
///
/// `Size` if the body is longer, which `Content-Length` may tell before it is read, or if the budget has no room in
/// time. `Interrupted` if the connection is lost.
pub async fn read_body(mut response: Response, limit: usize) -> Result<(Vec<u8>, Reservation), BodyError> {
    let limit = limit as u64;
    if let Some(length) = response.content_length().filter(|length| *length > limit) {
        return Err(BodyError::Size(SizeError::TooLong(length)));
    }
    let (mut body, mut reservation, mut next_turn) = (Vec::new(), Reservation::default(), BYTES_PER_TURN);
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok((body, reservation)),
            Err(error) => return Err(BodyError::Interrupted(root_cause(&error))),
        }
        if body.len() as u64 > limit {
            return Err(BodyError::Size(SizeError::TooLong(body.len() as u64)));
        }
        if !reservation.reserve(body.len()).await {
            return Err(BodyError::Size(SizeError::OverBudget(body.len() as u64)));
        }
        if body.len() >= next_turn {
            next_turn = body.len() + BYTES_PER_TURN;
            tokio::task::yield_now().await;
        }
    }
}

/// Reads the body of an error response, or the data of its first event. Returns an empty body if that has more than
/// `MAX_ERROR_BODY_BYTES`, does not arrive within `ERROR_BODY_TIMEOUT`, or cannot be read.
pub async fn read_error_body(response: Response) -> Raw {
    if media_type(&response) != EVENT_STREAM {
        let body = timeout(ERROR_BODY_TIMEOUT, read_body(response, MAX_ERROR_BODY_BYTES)).await;
        return body.ok().and_then(Result::ok).map(|(body, _)| body.into()).unwrap_or_default();
    }
    let mut left = MAX_ERROR_BODY_BYTES;
    // A server may leave the stream open.
    let chunks = response.bytes_stream().take_until(sleep(ERROR_BODY_TIMEOUT)).take_while(|chunk| {
        let rest = chunk.as_ref().ok().and_then(|chunk| left.checked_sub(chunk.len()));
        left = rest.unwrap_or_default();
        ready(rest.is_some())
    });
    // The end of the stream may have cut off the line that ends the event.
    let end = stream::once(ready(Ok(Bytes::from_static(b"\n\n"))));
    let events = SseByteStream::new(chunks.chain(end));
    let data = pin!(events.filter_map(|event| ready(event.ok().and_then(|event| event.data)))).next().await;
    data.map(Raw::from).unwrap_or_default()
}

/// Returns what the body of an error response says, quoted and cut to `MAX_ERROR_MESSAGE_CHARS`. The body may be a
/// JSON-RPC error, an OAuth error (RFC 6749), a problem (RFC 9457), another object that has a message, a web page, or
/// text, of which the first line counts. `None`: it is empty or has no message.
pub fn error_message(body: &Raw) -> Option<String> {
    let message = raw::get(body, "error").and_then(|error| raw::get_str(&error, "message"));
    let members = ["error_description", "message", "detail", "title", "error"];
    let message = message.or_else(|| members.into_iter().find_map(|member| raw::get_str(body, member)));
    if let Some(message) = message {
        return Some(quoted(&shorten(&message, MAX_ERROR_MESSAGE_CHARS)));
    }
    let text = std::str::from_utf8(body).ok()?.trim();
    match text.chars().next()? {
        '{' | '[' => None,
        '<' => page_title(body),
        _ => Some(quoted(&shorten(text.lines().next()?, MAX_ERROR_MESSAGE_CHARS))),
    }
}

/// Returns the title of a web page, quoted and cut to `MAX_ERROR_MESSAGE_CHARS`. `None`: it has none.
pub fn page_title(page: &Raw) -> Option<String> {
    let page = std::str::from_utf8(page).ok()?;
    // ASCII letters keep their length.
    let lower = page.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let title = page[start..start + lower[start..].find("</title")?].trim();
    (!title.is_empty()).then(|| quoted(&shorten(title, MAX_ERROR_MESSAGE_CHARS)))
}
