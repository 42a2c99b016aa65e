//! Lines of one upstream that are not messages.
//!
//! If a line is an unreadable answer to a known call, that call fails at once. The lines of a message that was written
//! over several lines are joined. A broken message that names no call is kept for `get_status`; no call is guessed.
//! Other lines, such as lines of a log, are skipped.

use crate::error::server_output::is_http_server;
use base::text::{shorten, visible};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::lines::LineReader;
use wire::log_text::LogText;
use wire::malformed::{Outline, defect, outlines, repaired};
use wire::peer::{CallError, Peer};
use wire::protocol::code;
use wire::unfinished::{Continuation, UnfinishedMessage};
use wire::{MessageError, Raw, error_object};

/// The unreadable messages of one connection that belong to no call.
#[derive(Debug, Default)]
pub(crate) struct UnreadableMessages(Mutex<Option<LastUnreadable>>);

/// The last unreadable message that belongs to no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUnreadable {
    /// The number of such messages so far.
    pub count: u64,
    /// The defect of the last message, and its beginning, on one line.
    pub what: String,
    /// When it came.
    pub at: Instant,
}

impl UnreadableMessages {
    /// The last one; `None` if there was none.
    pub(crate) fn last(&self) -> Option<LastUnreadable> {
        self.0.lock().clone()
    }

    /// Adds one. `what` is one line and bounded.
    pub(super) fn add(&self, what: String) {
        let mut last = self.0.lock();
        let count = last.as_ref().map_or(0, |last| last.count) + 1;
        *last = Some(LastUnreadable { count, what, at: Instant::now() });
    }
}

/// The first lines of one connection that are not meant as messages, such as lines of a log. If the server never speaks
/// MCP, they say why.
#[derive(Debug, Default)]
pub(crate) struct SkippedText {
    /// The lines, each with hidden characters made visible.
    lines: Mutex<Vec<String>>,
    /// Whether a line says where an HTTP server listens.
    has_http_server: AtomicBool,
    /// Notified when a line says where an HTTP server listens.
    http_server: Notify,
}

impl SkippedText {
    /// The lines, each with hidden characters made visible.
    pub(super) fn text(&self) -> String {
        self.lines.lock().join("\n")
    }

    /// Resolves when a line says where an HTTP server listens. One caller may wait.
    pub(super) async fn http_server(&self) {
        if !self.has_http_server.load(Ordering::Acquire) {
            self.http_server.notified().await;
        }
    }

    /// Adds a line, cut to `MAX_SKIPPED_CHARS`. Only the first `MAX_SKIPPED_LINES` are kept, and the first one that
    /// says where an HTTP server listens.
    pub(super) fn add(&self, line: &Raw) {
        let line = shorten(&visible(&String::from_utf8_lossy(line)), MAX_SKIPPED_CHARS);
        // The banner above that line may be long.
        let is_first = is_http_server(&line) && !self.has_http_server.swap(true, Ordering::AcqRel);
        let mut lines = self.lines.lock();
        if is_first || lines.len() < MAX_SKIPPED_LINES {
            lines.push(line);
        }
        if is_first {
            self.http_server.notify_one();
        }
    }
}

/// How many lines are kept that are not meant as messages.
const MAX_SKIPPED_LINES: usize = 10;
/// How many characters of each are kept.
const MAX_SKIPPED_CHARS: usize = 300;

/// Handles the lines of one connection that are not messages.
pub(super) struct MalformedLines {
    /// The connection's peer, which has the open calls.
    peer: Arc<Peer>,
    /// Where messages are kept that belong to no call.
    unreadable: Arc<UnreadableMessages>,
    /// Where the first other lines are kept.
    skipped: Arc<SkippedText>,
    /// A message whose lines are being joined.
    unfinished: Option<UnfinishedMessage>,
    /// Whether bytes that are no UTF-8 were reported already.
    warned_of_bytes: AtomicBool,
    /// Whether a line of a log was reported as a warning already.
    warned_of_line: bool,
    /// Whether an unreadable message was reported as a warning already.
    warned_of_message: bool,
}

impl MalformedLines {
    /// Creates the state of a new connection.
    pub(super) fn new(
        peer: Arc<Peer>,
        unreadable: Arc<UnreadableMessages>,
        skipped: Arc<SkippedText>,
    ) -> Self {
        Self {
            peer,
            unreadable,
            skipped,
            unfinished: None,
            warned_of_bytes: AtomicBool::new(false),
            warned_of_line: false,
            warned_of_message: false,
        }
    }

    /// When `expire` is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.unfinished.as_ref().map(UnfinishedMessage::deadline)
    }

    /// Gives up joining the lines of a message, because its next line did not come in time or another message came.
    pub(super) fn expire(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            self.reject(&MessageError::NotJson, &unfinished.into_text());
        }
    }

    /// Handles a line that is not a message. A message that the line completes is put back into `lines`, and so is one
    /// with bytes that are no UTF-8, without them. At the end of `lines`, a message that was cut off is ignored.
    pub(super) fn add(&mut self, error: &MessageError, line: &Raw, lines: &mut LineReader) {
        if *error == MessageError::NotJson
            && let Some(line) = repaired(line, &self.warned_of_bytes)
        {
            return lines.put_back(Ok(line));
        }
        if lines.at_end() {
            // The connection ends next, and its end says more than the message that was cut off.
            if !line.starts_with(b"{") && !line.starts_with(b"[") {
                self.skipped.add(line);
            }
            return;
        }
        let is_whole = !matches!(error, MessageError::TooLong { .. });
        if let Some(unfinished) = self.unfinished.as_mut().filter(|_| is_whole) {
            match unfinished.add(line) {
                Continuation::Incomplete => return,
                Continuation::Complete(message) => {
                    self.unfinished = None;
                    return lines.put_back(Ok(message));
                }
                Continuation::Foreign => {}
            }
        }
        self.expire();
        self.unfinished = UnfinishedMessage::begin(line, lines.limit());
        if self.unfinished.is_none() {
            self.reject(error, line);
        }
    }

    /// Fails the call that the line was to answer, and reports the line.
    fn reject(&mut self, error: &MessageError, line: &Raw) {
        let what = defect(error, line);
        let outlines = outlines(line);
        let mut is_known = false;
        for id in outlines.iter().filter_map(Outline::answered_id).filter(|id| self.peer.is_open(id)) {
            is_known = true;
            self.peer.fail(id, CallError::Malformed(what.clone()));
        }
        for id in outlines.iter().filter_map(Outline::request_id) {
            is_known = true;
            let message = format!("the request is {what}");
            self.peer.reply(id, Err(error_object(code::PARSE_ERROR, &message, None)));
        }
        let is_message = matches!(error, MessageError::TooLong { .. } | MessageError::LargeBatch { .. })
            || outlines.iter().any(Outline::is_message);
        if !is_message {
            return self.skip(error, line);
        }
        if !is_known {
            self.unreadable.add(format!("{what}: {}", LogText(line)));
        }
        let line = LogText(line);
        if std::mem::replace(&mut self.warned_of_message, true) {
            tracing::debug!(%what, %line, "the server sent a message that cannot be read");
        } else {
            tracing::warn!(
                %what, %line,
                "the server sent a message that cannot be read (further ones are logged at debug level)"
            );
        }
    }

    fn skip(&mut self, error: &MessageError, line: &Raw) {
        self.skipped.add(line);
        let line = LogText(line);
        if std::mem::replace(&mut self.warned_of_line, true) {
            tracing::debug!(?error, %line, "skipped a line that is not an MCP message");
        } else {
            tracing::warn!(
                %line,
                "skipped a line that is not an MCP message (further ones are logged at debug level)"
            );
        }
    }
}

#[cfg(test)]
mod tests;
