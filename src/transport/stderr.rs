//! What an upstream writes to stderr: kept for error messages, and logged under the group's name.
//!
//! The text is a stranger's: what could steer a terminal or forge a line of our log is removed
//! before anybody sees it.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};

/// Bytes of text that are kept; more than any stack trace.
const KEPT: usize = 64 << 10;

/// Bytes of one line; what is longer is data, not a message.
const LINE: usize = 8 << 10;

/// Lines that are logged in one `WINDOW`; a chatty upstream is not to drown the others.
const LINES: usize = 64;
const WINDOW: Duration = Duration::from_secs(1);

/// The end of an upstream's stderr. Clones share it.
#[derive(Clone, Default)]
pub struct Stderr(Arc<Mutex<Kept>>);

impl Stderr {
    /// The last `lines` lines, oldest first, with the one that is not ended yet.
    pub fn tail(&self, lines: usize) -> String {
        let kept = self.0.lock();
        let partial = clean(&kept.partial);
        let all = kept.lines.iter().map(String::as_str).chain((!partial.is_empty()).then_some(&*partial));
        let skipped = all.clone().count().saturating_sub(lines);
        all.skip(skipped).collect::<Vec<_>>().join("\n")
    }

    /// Reads `from` to its end, keeps its last lines and logs each of them as an event of the current
    /// span, which names the group.
    pub async fn follow(self, mut from: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 << 10];
        let mut log = Log::default();
        loop {
            let read = tokio::select! {
                read = from.read(&mut chunk) => read,
                () = sleep_until(log.reopens()), if log.left_out > 0 => {
                    log.report();
                    continue;
                }
            };
            let lines = match read {
                Ok(0) => break,
                Ok(length) => self.0.lock().feed(&chunk[..length]),
                Err(error) => {
                    debug!(%error, "cannot read stderr");
                    break;
                }
            };
            lines.iter().for_each(|line| log.line(line));
        }
        let last = self.0.lock().end_line();
        last.iter().for_each(|line| log.line(line));
        log.report();
    }
}

#[derive(Default)]
struct Kept {
    /// Cleaned, without their ends.
    lines: VecDeque<String>,
    /// Bytes of `lines`, each counted with an end.
    size: usize,
    /// The line that is being read, as it came, `LINE` bytes at most.
    partial: Vec<u8>,
}

impl Kept {
    /// Takes what was read and gives the lines that it ends. A carriage return ends one too: progress
    /// bars have nothing else. Blank ones are left out.
    fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_end = part.ends_with(b"\n") || part.ends_with(b"\r");
            let text = &part[..part.len() - usize::from(is_end)];
            let room = LINE - self.partial.len();
            self.partial.extend_from_slice(&text[..text.len().min(room)]);
            if is_end {
                ended.extend(self.end_line());
            }
        }
        ended
    }

    fn end_line(&mut self) -> Option<String> {
        let line = clean(&take(&mut self.partial));
        if line.trim().is_empty() {
            return None;
        }
        self.size += line.len() + 1;
        self.lines.push_back(line.clone());
        while self.size > KEPT {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.size -= oldest.len() + 1;
        }
        Some(line)
    }
}

/// Writes lines to our log, so many a second.
#[derive(Default)]
struct Log {
    /// When the first line of this window came.
    opened: Option<Instant>,
    /// Lines of this window.
    count: usize,
    /// Those of them that were not logged.
    left_out: usize,
}

impl Log {
    fn line(&mut self, line: &str) {
        if self.opened.is_none() || Instant::now() >= self.reopens() {
            self.report();
            *self = Self { opened: Some(Instant::now()), ..Self::default() };
        }
        self.count += 1;
        if self.count > LINES {
            self.left_out += 1;
        } else {
            info!(target: "upstream::stderr", "{line}");
        }
    }

    /// When the next window begins at the earliest.
    fn reopens(&self) -> Instant {
        self.opened.unwrap_or_else(Instant::now) + WINDOW
    }

    fn report(&mut self) {
        match take(&mut self.left_out) {
            0 => (),
            lines => info!(target: "upstream::stderr", "{lines} lines left out"),
        }
    }
}

/// Where in an escape sequence a character stands (ECMA-48).
#[derive(Clone, Copy)]
enum Place {
    Text,
    /// After ESC and any intermediate characters.
    Escape,
    /// In a control sequence: colours, cursor movements.
    Csi,
    /// In a control string: window titles, links, device strings.
    String,
}

/// A line without escape sequences and control characters, `LINE` bytes at most. A tab becomes two
/// blanks; bytes that are not UTF-8 become U+FFFD.
fn clean(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut place = Place::Text;
    for c in String::from_utf8_lossy(line).chars() {
        place = match (place, c) {
            (_, '\u{1b}') => Place::Escape,
            (_, '\u{9b}') | (Place::Escape, '[') => Place::Csi,
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => Place::String,
            (Place::Escape, ']' | 'P' | 'X' | '^' | '_') => Place::String,
            (Place::String, '\u{7}' | '\u{9c}') => Place::Text,
            (Place::String, _) => Place::String,
            (Place::Escape, ' '..='/') => Place::Escape,
            (Place::Escape, '0'..='~') | (Place::Csi, '@'..='~') => Place::Text,
            (Place::Csi, ' '..='?') => Place::Csi,
            (_, '\t') => {
                text.push_str("  ");
                Place::Text
            }
            (place, c) if c.is_control() => place,
            (_, c) => {
                text.push(c);
                Place::Text
            }
        };
    }
    while text.len() > LINE {
        // Replacements are longer than what they replace.
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests;
