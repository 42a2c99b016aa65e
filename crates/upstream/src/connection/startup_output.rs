//! What a process prints before it answers.
//!
//! An HTTP server that is run as a program prints where it listens, and never answers. If it prints that on stdout,
//! where an MCP server prints nothing but messages, the attempt is ended early, so that callers need not wait a minute
//! for the error. The server may also have a second port for people, and answer late. So only the first attempt of a
//! group is ended early. A line on stderr ends no attempt; `get_status` shows it.

use super::lease::LiveConnection;
use super::malformed_lines::SkippedText;
use crate::error::server_output::ServerOutput;
use crate::transport::TransportHandle;
use base::text::{quoted, shorten};
use parking_lot::Mutex;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// How long a process may take to answer after it printed where it listens.
const GRACE: Duration = Duration::from_secs(2);

/// What the process of a group's attempt in progress prints. Clones share it.
#[derive(Clone, Default)]
pub struct StartupOutput(Arc<SharedOutput>);

#[derive(Default)]
struct SharedOutput {
    /// The connection of the attempt in progress.
    current: Mutex<Option<(TransportHandle, Arc<LiveConnection>)>>,
    /// Whether an attempt was ended early.
    was_ended_early: AtomicBool,
}

impl StartupOutput {
    /// Awaits an attempt, and watches its connection until the attempt ends or is dropped. `is_shown`: whether clients may
    /// see what the process prints.
    pub(super) async fn watch<T>(
        &self,
        handle: &TransportHandle,
        live: &Arc<LiveConnection>,
        is_shown: bool,
        attempt: impl Future<Output = T>,
    ) -> T {
        *self.0.current.lock() = is_shown.then(|| (handle.clone(), live.clone()));
        let _guard = WatchGuard(self);
        attempt.await
    }

    /// Resolves when the attempt is to be ended early: `GRACE` after a line on stdout says where an HTTP server
    /// listens. Never resolves once an attempt of the group was ended early.
    pub(super) async fn ends_early(&self, skipped: &SkippedText) {
        if self.0.was_ended_early.load(Ordering::Relaxed) {
            return pending().await;
        }
        skipped.http_server().await;
        sleep(GRACE).await;
        self.0.was_ended_early.store(true, Ordering::Relaxed);
    }

    /// The last line that the process of the attempt in progress wrote to stderr, in quotes.
    pub(crate) fn last_line(&self) -> Option<String> {
        let handle = self.0.current.lock().as_ref()?.0.clone();
        let tail = handle.stderr_tail();
        let line = tail.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(quoted(&shorten(line, MAX_LINE)))
    }

    /// Warns that the process of the attempt in progress prints what HTTP servers print. `None` if it does not.
    pub fn hint(&self) -> Option<String> {
        let current = self.0.current.lock();
        let (handle, live) = current.as_ref()?;
        ServerOutput::new(handle.stderr_tail(), live.skipped.text()).http_server_hint()
    }
}

/// The longest line of stderr that is shown, in characters.
const MAX_LINE: usize = 200;

/// Ends the watch of an attempt.
struct WatchGuard<'a>(&'a StartupOutput);

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.current.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};
    use wire::Raw;

    #[tokio::test(start_paused = true)]
    async fn only_the_first_attempt_is_ended_early_and_only_after_the_grace() {
        let output = StartupOutput::default();
        let day = Duration::from_secs(24 * 3600);
        let quiet = SkippedText::default();
        quiet.add(&Raw::from_static(b"server running on stdio"));
        assert!(timeout(day, output.ends_early(&quiet)).await.is_err());
        let skipped = SkippedText::default();
        for _ in 0..20 {
            skipped.add(&Raw::from_static(b"*** banner ***"));
        }
        skipped.add(&Raw::from_static(b"Uvicorn running on http://127.0.0.1:8000"));
        let start = Instant::now();
        output.ends_early(&skipped).await;
        assert_eq!(start.elapsed(), GRACE);
        let shown = ServerOutput::new(String::new(), skipped.text()).to_string();
        assert!(shown.contains("so it is an HTTP server"), "{shown}");
        assert!(timeout(day, output.ends_early(&skipped)).await.is_err());
    }
}
