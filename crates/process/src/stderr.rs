//! The stderr of an upstream process: its tail is kept for error messages, and its lines are logged.
//!
//! The text comes from another program, so escape sequences and control characters, which could control a terminal or
//! forge a line of our log, are removed from all of it.

use super::server_log::ServerLog;
use base::redact;
use parking_lot::Mutex;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};

/// Bytes of a line that are kept. A longer line is data, not a message.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Lines that are logged within one [`LOG_WINDOW`], so that a chatty upstream does not drown the others.
const MAX_LOGGED_LINES: usize = 64;
const LOG_WINDOW: Duration = Duration::from_secs(1);

/// The last lines that an upstream wrote to stderr. Clones share them.
#[derive(Clone, Default)]
pub struct StderrTail(Arc<Mutex<LineBuffer>>);

impl StderrTail {
    /// Returns the last `lines` lines, oldest first, including a last line without a line ending. Blank lines are not
    /// kept, and no more than 64 KiB in all. Without the secrets in them.
    pub fn last_lines(&self, lines: usize) -> String {
        let buffer = self.0.lock();
        let mut all = buffer.lines.after(None).lines;
        all.extend(Some(sanitize(&buffer.partial)).filter(|partial| !partial.is_empty()));
        // Errors show them.
        redact::text(&all[all.len().saturating_sub(lines)..].join("\n"))
    }

    /// Reads `stderr` to its end and keeps its last lines, also in `kept`, which outlives the process. Logs each line
    /// as an event of the current span, which names the group, but no more than 64 lines in a second. A line is cut
    /// after 8 KiB. Blank lines are left out.
    pub async fn follow(self, mut stderr: impl AsyncRead + Unpin, kept: ServerLog) {
        let mut chunk = vec![0; 8 << 10];
        let write = |log: &mut RateLimitedLog, line: String| {
            log.write(&line);
            kept.push(line);
        };
        let mut log = RateLimitedLog::default();
        loop {
            let read = tokio::select! {
                read = stderr.read(&mut chunk) => read,
                () = sleep_until(log.window_end()), if log.suppressed > 0 => {
                    log.report_suppressed();
                    continue;
                }
            };
            let lines = match read {
                Ok(0) => break,
                Ok(length) => self.0.lock().push(&chunk[..length]),
                Err(error) => {
                    debug!(%error, "failed to read stderr");
                    break;
                }
            };
            lines.into_iter().for_each(|line| write(&mut log, line));
        }
        let last = self.0.lock().end_line();
        last.into_iter().for_each(|line| write(&mut log, line));
        log.report_suppressed();
    }
}

/// Splits bytes into sanitized lines and keeps the last ones.
#[derive(Default)]
struct LineBuffer {
    /// Sanitized lines without their line endings.
    lines: ServerLog,
    /// The raw bytes of the line that is not ended yet, at most [`MAX_LINE_BYTES`].
    partial: Vec<u8>,
}

impl LineBuffer {
    /// Appends `bytes` and returns the lines that they end, without blank ones.
    ///
    /// A carriage return ends a line too, because progress bars write nothing else.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_end = part.ends_with(b"\n") || part.ends_with(b"\r");
            let text = &part[..part.len() - usize::from(is_end)];
            let room = MAX_LINE_BYTES - self.partial.len();
            self.partial.extend_from_slice(&text[..text.len().min(room)]);
            if is_end {
                ended.extend(self.end_line());
            }
        }
        ended
    }

    /// Ends the current line. Returns it unless it is blank.
    fn end_line(&mut self) -> Option<String> {
        let line = sanitize(&take(&mut self.partial));
        if line.trim().is_empty() {
            return None;
        }
        self.lines.push(line.clone());
        Some(line)
    }
}

/// Writes at most [`MAX_LOGGED_LINES`] lines per [`LOG_WINDOW`] to our log.
#[derive(Default)]
struct RateLimitedLog {
    /// When the first line of the current window came.
    window_start: Option<Instant>,
    /// Lines of the current window.
    count: usize,
    /// Lines of the current window that were not logged, and not reported yet.
    suppressed: usize,
}

impl RateLimitedLog {
    fn write(&mut self, line: &str) {
        if self.window_start.is_none() || Instant::now() >= self.window_end() {
            self.report_suppressed();
            *self = Self { window_start: Some(Instant::now()), ..Self::default() };
        }
        self.count += 1;
        if self.count > MAX_LOGGED_LINES {
            self.suppressed += 1;
        } else {
            info!(target: "upstream::stderr", "{line}");
        }
    }

    /// Returns the earliest start of the next window.
    fn window_end(&self) -> Instant {
        self.window_start.unwrap_or_else(Instant::now) + LOG_WINDOW
    }

    fn report_suppressed(&mut self) {
        match take(&mut self.suppressed) {
            0 => (),
            lines => info!(target: "upstream::stderr", "{lines} lines were not logged"),
        }
    }
}

/// The state of the parser of escape sequences (ECMA-48).
#[derive(Clone, Copy)]
enum EscapeState {
    /// Outside of any escape sequence.
    Text,
    /// After ESC and any intermediate characters.
    Escape,
    /// In a control sequence, such as a colour or a cursor movement.
    ControlSequence,
    /// In a control string, such as a window title, a link or a device string.
    ControlString,
}

/// Returns at most [`MAX_LINE_BYTES`] of a line without escape sequences and control characters.
///
/// A tab becomes two spaces. Bytes that are not UTF-8 become U+FFFD.
fn sanitize(line: &[u8]) -> String {
    use EscapeState::{ControlSequence, ControlString, Escape, Text};
    let mut text = String::with_capacity(line.len());
    let mut state = Text;
    for c in String::from_utf8_lossy(line).chars() {
        state = match (state, c) {
            (_, '\u{1b}') => Escape,
            (_, '\u{9b}') | (Escape, '[') => ControlSequence,
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => ControlString,
            (Escape, ']' | 'P' | 'X' | '^' | '_') => ControlString,
            (ControlString, '\u{7}' | '\u{9c}') => Text,
            (ControlString, _) => ControlString,
            (Escape, ' '..='/') => Escape,
            (Escape, '0'..='~') | (ControlSequence, '@'..='~') => Text,
            (ControlSequence, ' '..='?') => ControlSequence,
            (_, '\t') => {
                text.push_str("  ");
                Text
            }
            (state, c) if c.is_control() => state,
            (_, c) => {
                text.push(c);
                Text
            }
        };
    }
    while text.len() > MAX_LINE_BYTES {
        // U+FFFD is longer than the byte that it replaces.
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests;
