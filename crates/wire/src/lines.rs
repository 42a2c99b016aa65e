//! Cuts a stream into lines of limited length, one message each.

use super::budget::{Reservation, UNCOUNTED_BYTES};
use super::{MessageError, Raw};
use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr, memmem};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A stream that lines are read from. The type is erased, so that the code that reads it is compiled once.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;

/// The first size of a buffer in bytes. A buffer doubles while a message needs it, so that idle connections stay small.
const MIN_BUFFER: usize = 8 << 10;
/// The smallest room in bytes for which a read is worth its cost. A buffer with more room is used on, although lines of
/// it are still in use.
const MIN_ROOM: usize = 2 << 10;
/// The length in bytes above which the next line is expected to be as long as the last one: a full pipe.
const LARGE: usize = 64 << 10;
/// The length in bytes above which no line is expected, because room that is not filled yet is not counted.
const MAX_EXPECTED: usize = 4 << 20;
/// How many bytes one read takes at most: so many may be there before they are reserved in the budget of all messages.
const MAX_READ: usize = 256 << 10;
/// How many bytes of one stream are read or handled until other tasks run.
pub const BYTES_PER_TURN: usize = 64 << 10;
/// How many bytes of each end of an oversized message are kept, to find its id in them.
const KEPT_ENDS: usize = 4 << 10;
/// How many bytes are read ahead while the owner takes no lines, to notice the end of the stream.
const READ_AHEAD: usize = 64 << 10;
/// The limit for a stream of our own messages, which do not count against the budget again.
pub const UNLIMITED: usize = usize::MAX;
/// The byte order mark of UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads lines. A line that exceeds the limit, or finds no room in the budget of all messages, is read to its end and
/// reported, but not kept.
pub struct LineReader {
    /// The stream.
    reader: Input,
    /// The bytes that were read and not returned yet.
    buffer: BytesMut,
    /// How many bytes at the start of `buffer` are known to have no line end.
    searched: usize,
    /// Whether the buffer is larger than `MIN_BUFFER`.
    grown: bool,
    /// The length of the last line in bytes, unless it was a large one. Often the next one is as long.
    last: usize,
    /// The length of the last large line in bytes.
    last_large: usize,
    /// The limit for one line, in bytes.
    limit: usize,
    /// The part of the budget that the incomplete line in `buffer` takes.
    reservation: Reservation,
    /// The line that is being skipped.
    oversized: Option<OversizedLine>,
    /// The line that `put_back` returned.
    returned: Option<Result<Bytes, MessageError>>,
    /// Whether the end of the stream was reached.
    at_end: bool,
    /// How many bytes were read since other tasks have run.
    of_turn: usize,
}

/// The ends of a line that is skipped.
struct OversizedLine {
    /// Its first bytes.
    head: Bytes,
    /// Its last bytes so far.
    tail: Vec<u8>,
    /// Its length so far, in bytes.
    bytes: u64,
    /// Whether it is skipped for lack of room, and not because it exceeds the limit.
    is_over_budget: bool,
}

impl LineReader {
    /// Reads lines of at most `limit` bytes.
    pub fn new(reader: Input, limit: usize) -> Self {
        let (buffer, reservation) = (BytesMut::new(), Reservation::default());
        Self {
            reader,
            buffer,
            searched: 0,
            grown: false,
            last: 0,
            last_large: 0,
            limit,
            reservation,
            oversized: None,
            returned: None,
            at_end: false,
            of_turn: 0,
        }
    }

    /// Sets the limit for one line, in bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Makes `line` the next one. It takes the place of one that was put back and not read yet.
    pub fn put_back(&mut self, line: Result<Bytes, MessageError>) {
        self.returned = Some(line);
    }

    /// Reads the next line that is not blank, without its line end. Returns `None` at the end of the stream, or when
    /// reading fails. The last line needs no line end. Also waits for room in the budget of all messages. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`MessageError::TooLong`] for a line that exceeds the limit, [`MessageError::OverBudget`] for one that finds no
    /// room; the next call reads the line after it.
    pub async fn next(&mut self) -> Option<Result<Bytes, MessageError>> {
        if let Some(line) = self.returned.take() {
            return Some(line);
        }
        loop {
            while let Some(end) = self.line_end() {
                if let Some(line) = self.take_line(end) {
                    return Some(line);
                }
            }
            if self.buffer.len() > self.limit || self.oversized.is_some() {
                self.skip(false);
            } else if self.limit != UNLIMITED && !self.reservation.reserve(self.buffer.len()).await {
                self.skip(true);
            }
            self.make_room();
            if self.of_turn >= BYTES_PER_TURN {
                self.of_turn = 0;
                tokio::task::yield_now().await;
            }
            let mut room = (&mut self.buffer).limit(MAX_READ);
            let read = self.reader.read_buf(&mut room).await.unwrap_or(0);
            self.of_turn += read;
            if read == 0 {
                let last = self.buffer.split().freeze();
                self.searched = 0;
                self.at_end = true;
                return self.finish(last);
            }
        }
    }

    /// Returns the next line if all of it was read already and it has at most `max` bytes. Any other line, and one that
    /// was put back, is left to `next`.
    ///
    /// # Errors
    ///
    /// Those of `next`.
    pub(crate) fn next_buffered(&mut self, max: usize) -> Option<Result<Bytes, MessageError>> {
        while self.returned.is_none() && self.oversized.is_none() {
            let end = self.line_end()?;
            if end > max {
                self.searched = end;
                return None;
            }
            if let Some(line) = self.take_line(end) {
                return Some(line);
            }
        }
        None
    }

    /// Returns whether the stream has ended, so that the line that was read last may be incomplete.
    pub fn at_end(&self) -> bool {
        self.at_end
    }

    /// Returns the limit for one line, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Resolves at the end of the stream. Never does if more than `READ_AHEAD` bytes, or the limit for one line, come
    /// before it. The bytes that it reads are kept for `next`. It is for an owner that takes no lines at the moment. Cancel-safe.
    pub async fn ended(&mut self) {
        while self.buffer.len() < READ_AHEAD.min(self.limit) {
            self.buffer.reserve(MIN_BUFFER);
            if self.reader.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Makes room for a line as long as the last one; doubles the buffer if a message does not fit, and shrinks it after
    /// a longer one.
    fn make_room(&mut self) {
        let read = self.buffer.len();
        let wanted = read.max(MIN_BUFFER);
        // A large line is expected only once a part of it is there.
        let line = if read > LARGE / 2 { self.last_large } else { self.last };
        let expected = (line + MIN_ROOM).saturating_sub(read);
        if self.grown && wanted.max(expected) == MIN_BUFFER {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        self.grown = wanted.max(expected) > MIN_BUFFER;
        if self.buffer.capacity() - read < expected.max(MIN_ROOM) {
            self.buffer.reserve(wanted.max(expected));
        }
    }

    /// Takes the line that ends at `end`. `None` if it is blank.
    ///
    /// # Errors
    ///
    /// Those of `next`.
    fn take_line(&mut self, end: usize) -> Option<Result<Bytes, MessageError>> {
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        self.searched = 0;
        if end > MAX_EXPECTED {
            // The rest of the buffer would keep all of it, uncounted, when the line is dropped.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        match end > LARGE {
            true => self.last_large = end.min(MAX_EXPECTED),
            false => self.last = end,
        }
        self.finish(line.freeze())
    }

    fn line_end(&mut self) -> Option<usize> {
        if self.searched == self.buffer.len() {
            return None;
        }
        let found = memchr(b'\n', &self.buffer[self.searched..]).map(|n| self.searched + n);
        self.searched = self.buffer.len();
        found
    }

    /// Drops the bytes of a line that is not kept, except for its ends.
    fn skip(&mut self, is_over_budget: bool) {
        self.reservation = Reservation::default();
        let part = self.buffer.split().freeze();
        self.searched = 0;
        self.oversized.get_or_insert_with(|| OversizedLine::begin(&part, is_over_budget)).add(&part);
    }

    fn finish(&mut self, line: Bytes) -> Option<Result<Bytes, MessageError>> {
        if self.oversized.is_none() && line.len() > self.limit {
            self.oversized = Some(OversizedLine::begin(&line, false));
        }
        if let Some(mut skipped) = self.oversized.take() {
            skipped.add(&line);
            let (id, bytes) = (find_id(&skipped.head, &skipped.tail), skipped.bytes);
            return Some(Err(match skipped.is_over_budget {
                true => MessageError::OverBudget { id, bytes },
                false => MessageError::TooLong { id, bytes, limit: self.limit },
            }));
        }
        let line = match line.len() > UNCOUNTED_BYTES {
            true => std::mem::take(&mut self.reservation).hold(line),
            false => line,
        };
        // Nearly all lines begin so.
        if line.first() == Some(&b'{') {
            return Some(Ok(line));
        }
        let line = if line.starts_with(BOM) { line.slice(BOM.len()..) } else { line };
        let blank = line.trim_ascii().is_empty();
        (!blank).then_some(Ok(line))
    }
}

impl OversizedLine {
    /// Keeps the first bytes of a line that begins with `part`.
    fn begin(part: &[u8], is_over_budget: bool) -> Self {
        let head = Bytes::copy_from_slice(&part[..KEPT_ENDS.min(part.len())]);
        Self { head, tail: Vec::new(), bytes: 0, is_over_budget }
    }

    fn add(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.tail.extend_from_slice(part);
        let surplus = self.tail.len().saturating_sub(KEPT_ENDS);
        self.tail.drain(..surplus);
    }
}

/// Finds the id of a message whose first and last bytes alone are known. SDKs write it either first or last. Nothing in
/// the middle is considered, because a wrong id would fail another call.
fn find_id(head: &[u8], tail: &[u8]) -> Option<Raw> {
    let first = || {
        let before_body = memmem::find(head, b"\"result\"").or_else(|| memmem::find(head, b"\"error\""));
        let before_params = || memmem::find(head, b"\"params\"");
        let head = &head[..before_body.or_else(before_params).unwrap_or(0)];
        scalar(&head[memmem::rfind(head, b"\"id\"")? + 4..]).map(|(id, _)| id)
    };
    let last = || {
        let (id, rest) = scalar(&tail[memmem::rfind(tail, b"\"id\"")? + 4..])?;
        let rest: Vec<u8> = rest.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
        matches!(&rest[..], b"}" | br#","jsonrpc":"2.0"}"#).then_some(id)
    };
    first().or_else(last)
}

/// Reads `: VALUE` at the start of `text`, where VALUE is a number or a string without escapes. Returns it and the
/// rest.
pub(super) fn scalar(text: &[u8]) -> Option<(Raw, &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = match text.first()? {
        b'"' => memchr(b'"', &text[1..])? + 2,
        _ => text.iter().position(|b| !b.is_ascii_digit() && *b != b'-')?,
    };
    let value = &text[..end];
    serde_json::from_slice::<serde_json::Value>(value).ok()?;
    Some((Raw::copy_from_slice(value), &text[end..]))
}

#[cfg(test)]
mod tests;
