//! Messages on their way out.

use crate::block::skip_plain;
use crate::body::{Body, concat};
use crate::budget::UNCOUNTED_BYTES;
use bytes::{Buf, Bytes};
use std::cell::Cell;
use std::io::IoSlice;

/// The length up to which a message is copied into one piece, which is faster than writing several.
const MAX_COPIED: usize = 4 << 10;

/// The capacity up to which a buffer is kept for the next message.
const MAX_SPARE: usize = MAX_COPIED + 512;

thread_local! {
    /// The buffer of a message that was written, for the next one.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An outgoing message. A large body is written in its own parts, without being copied or serialized again.
#[derive(Debug, Clone)]
pub struct Frame {
    /// All of a small message, or the part of a large one before its body.
    head: Vec<u8>,
    /// How many bytes of `head` are written.
    written: usize,
    /// The body of a large message, and the part after it.
    rest: Vec<Bytes>,
    /// Whether it answers requests of the other side.
    pub(super) is_reply: bool,
}

impl Frame {
    /// Creates a request.
    pub fn request(id: u64, method: &str, params: Option<&Body>) -> Self {
        let mut digits = [0; 20];
        let start = write_digits(id, &mut digits);
        Self::new(Some(&digits[start..]), Some(method), b",\"params\":", params)
    }

    /// Creates a notification.
    pub fn notification(method: &str, params: Option<Bytes>) -> Self {
        Self::new(None, Some(method), b",\"params\":", params.map(Body::from).as_ref())
    }

    /// Creates a response. `id` is written as it was received, `null` if the request had no readable id.
    pub fn response(id: &Bytes, reply: Result<Bytes, Bytes>) -> Self {
        let (key, body): (&'static [u8], _) = match reply {
            Ok(result) => (b",\"result\":", Body::from(result)),
            Err(error) => (b",\"error\":", Body::from(error)),
        };
        let mut frame = if id.len() > UNCOUNTED_BYTES {
            // A copy would not count in the budget of all messages, as the request does of which this is a part.
            let mut rest = vec![id.clone(), Bytes::from_static(key)];
            rest.extend(body.parts());
            rest.push(Bytes::from_static(b"}\n"));
            Self { head: b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec(), written: 0, rest, is_reply: false }
        } else {
            Self::new(Some(id), None, key, Some(&body))
        };
        frame.is_reply = true;
        frame
    }

    /// Creates a batch of messages.
    pub fn batch(messages: &[Self]) -> Self {
        let texts = messages.iter().map(|message| message.text().trim_ascii_end().to_vec());
        let joined = texts.collect::<Vec<_>>().join(&b","[..]);
        let rest = vec![joined.into(), Bytes::from_static(b"]\n")];
        Self { head: b"[".to_vec(), written: 0, rest, is_reply: true }
    }

    /// `key`: the text before the body.
    fn new(id: Option<&[u8]>, method: Option<&str>, key: &[u8], body: Option<&Body>) -> Self {
        let body_len = body.map_or(0, Body::len);
        let copied = if body_len > MAX_COPIED { 0 } else { body_len };
        let given = id.map_or(0, <[u8]>::len) + method.map_or(0, str::len) + key.len();
        let mut head = buffer(given + copied + 64);
        match id {
            Some(id) => {
                head.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
                head.extend_from_slice(id);
            }
            None => head.extend_from_slice(b"{\"jsonrpc\":\"2.0\""),
        }
        if let Some(method) = method {
            head.extend_from_slice(b",\"method\":");
            write_string(method, &mut head);
        }
        let mut rest = Vec::new();
        if let Some(body) = body {
            head.extend_from_slice(key);
            if copied == body_len {
                body.write_to(&mut head);
            } else {
                rest = body.parts();
                rest.push(Bytes::from_static(b"}\n"));
            }
        }
        if rest.is_empty() {
            head.extend_from_slice(b"}\n");
        }
        Self { head, written: 0, rest, is_reply: false }
    }

    /// Returns the bytes that are not written yet, in one piece.
    pub(crate) fn text(&self) -> Bytes {
        concat(self.parts())
    }

    /// Returns the number of bytes that are not written yet.
    pub fn len(&self) -> usize {
        let head = self.head.len() - self.written;
        head + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Returns whether all bytes are written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the parts that are not written yet.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let rest = self.rest.iter().map(|part| &part[..]);
        std::iter::once(&self.head[self.written..]).chain(rest).filter(|part| !part.is_empty())
    }

    /// Takes the message in its parts, without the line end. The body of a large one is not copied.
    pub fn take_parts(&mut self) -> Vec<Bytes> {
        let head = Bytes::from(std::mem::take(&mut self.head)).split_off(std::mem::take(&mut self.written));
        let mut parts: Vec<_> = std::iter::once(head).chain(std::mem::take(&mut self.rest)).collect();
        if let Some(last) = parts.last_mut().filter(|last| last.ends_with(b"\n")) {
            last.truncate(last.len() - 1);
        }
        parts
    }

    /// Returns the bytes that are not written yet, if they are one part.
    pub(crate) fn one_piece(&self) -> Option<&[u8]> {
        self.rest.is_empty().then_some(&self.head[self.written..])
    }

    /// Returns the parts that are not written yet, to be written together.
    pub fn slices(&self) -> impl Iterator<Item = IoSlice<'_>> {
        self.parts().map(IoSlice::new)
    }

    /// Marks up to `n` bytes as written. Returns how many of them belong to later frames.
    pub fn advance(&mut self, mut n: usize) -> usize {
        let step = n.min(self.head.len() - self.written);
        self.written += step;
        n -= step;
        for part in &mut self.rest {
            let step = n.min(part.len());
            part.advance(step);
            n -= step;
        }
        n
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.head.capacity() <= MAX_SPARE {
            self.head.clear();
            // At the end of a thread there is no next message.
            let _kept = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.head)));
        }
    }
}

/// Returns an empty buffer for so many bytes.
fn buffer(needed: usize) -> Vec<u8> {
    let spare = SPARE.try_with(Cell::take).unwrap_or_default();
    // A queue is bounded by the length of its messages, so a small one must not keep a large buffer.
    match (needed..4 * needed).contains(&spare.capacity()) {
        true => spare,
        false => Vec::with_capacity(needed),
    }
}

/// Writes a number to the end of `digits`. Returns where it starts.
fn write_digits(mut number: u64, digits: &mut [u8; 20]) -> usize {
    for at in (0..digits.len()).rev() {
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
    0
}

/// Returns text as a JSON string.
pub fn json_string(text: &str) -> Bytes {
    let mut json = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut json);
    json.into()
}

/// Adds text as a JSON string.
fn write_string(text: &str, json: &mut Vec<u8>) {
    let (plain, _) = skip_plain(text.as_bytes(), 0);
    if plain == text.len() {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    } else {
        json.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }
}
