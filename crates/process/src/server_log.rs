//! The last lines of a server's log, for `dynamic-mcp logs`: its stderr, and what it sends that belongs to no session.
//!
//! A reader comes back with the cursor that it got, and gets the lines since then.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The request by which an instance reads the log of a shared server, `{after}`, which the host answers with a
/// [`LogPage`].
pub const READ_LOG: &str = "dynamic-mcp/log";
/// The bytes that are kept.
const MAX_BYTES: usize = 64 << 10;

/// The last lines. Clones share them.
#[derive(Clone)]
pub struct ServerLog(Arc<Mutex<LogRing>>);

struct LogRing {
    /// Tells this log from others, such as the log of the next process of a shared server.
    id: u64,
    lines: VecDeque<String>,
    /// The bytes of `lines`, each counted with a line ending.
    bytes: usize,
    /// The number of lines that were ever added.
    added: u64,
}

/// Up to where a reader has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// The log.
    id: u64,
    /// The number of lines.
    read: u64,
}

/// The lines after a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// The lines, oldest first.
    pub lines: Vec<String>,
    /// How many lines came after the cursor and are not kept any more.
    pub missed: u64,
    /// Where to go on.
    pub cursor: LogCursor,
}

impl Default for ServerLog {
    fn default() -> Self {
        let id = RandomState::new().hash_one(0);
        Self(Arc::new(Mutex::new(LogRing { id, lines: VecDeque::new(), bytes: 0, added: 0 })))
    }
}

impl ServerLog {
    /// Adds a line, which comes without its ending. Removes the oldest lines if all have more than 64 KiB.
    pub fn push(&self, line: String) {
        let mut ring = self.0.lock();
        ring.bytes += line.len() + 1;
        ring.lines.push_back(line);
        ring.added += 1;
        while ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.lines.pop_front() else { break };
            ring.bytes -= oldest.len() + 1;
        }
    }

    /// Returns the lines after a cursor; all of them without one, or with that of another log.
    pub fn after(&self, cursor: Option<LogCursor>) -> LogPage {
        let ring = self.0.lock();
        let kept = ring.lines.len() as u64;
        let read = cursor.filter(|cursor| cursor.id == ring.id).map(|cursor| cursor.read.min(ring.added));
        let unread = read.map_or(kept, |read| ring.added - read);
        let skipped = usize::try_from(kept.saturating_sub(unread)).unwrap_or(usize::MAX);
        LogPage {
            lines: ring.lines.iter().skip(skipped).cloned().collect(),
            missed: unread.saturating_sub(kept),
            cursor: LogCursor { id: ring.id, read: ring.added },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_came_since_its_last_page() {
        let log = ServerLog::default();
        log.push("a".to_owned());
        let first = log.after(None);
        assert_eq!((first.lines, first.missed), (vec!["a".to_owned()], 0));
        assert_eq!(log.after(Some(first.cursor)).lines.len(), 0);
        log.push("b".to_owned());
        let second = log.after(Some(first.cursor));
        assert_eq!((second.lines, second.missed), (vec!["b".to_owned()], 0));
        // The log of another process is new.
        let other = ServerLog::default();
        other.push("c".to_owned());
        assert_eq!(other.after(Some(second.cursor)).lines, ["c"]);
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_counted() {
        let log = ServerLog::default();
        let cursor = log.after(None).cursor;
        for _ in 0..100 {
            log.push("x".repeat(1023));
        }
        let page = log.after(Some(cursor));
        assert_eq!((page.lines.len(), page.missed), (64, 36));
        assert_eq!(log.after(None).missed, 0);
    }
}
