//! Closes an unused connection, and measures how much memory that frees.

use super::Task;
use crate::connection::{Connect, Connection, Grace};
use crate::lifecycle::Event;
use crate::stats::GroupStats;
use base::blocking;
use process::processes::ProcessTree;
use process::warden::StopTimeouts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long measuring the memory of a server may delay its end.
const MEASURE_TIMEOUT: Duration = Duration::from_millis(200);

impl<C: Connect> Task<C> {
    /// Begins to close the connection, unless it is in use again. `idle`: how long it was unused.
    pub(super) fn close_unused(&mut self, idle: Option<Duration>) {
        if !self.connection.as_ref().is_some_and(|c| c.live.close_if_unused()) {
            return;
        }
        let Some(connection) = self.connection.take() else { return };
        self.last_use = Some(connection.live.usage().last_activity);
        if let Some(idle) = idle {
            tracing::info!("Server {} idle for {}s, disconnecting...", self.name, idle.as_secs());
        }
        tracing::info!("Disconnected {} (lazy mode, will reconnect on use)", self.name);
        self.closing = Some(Box::pin(close(connection, self.stats.clone())));
        self.end_refresh();
        self.apply(Event::Closed);
    }
}

/// Closes a connection that nobody uses. First notes how much memory that frees, which takes `MEASURE_TIMEOUT` at most;
/// nothing is noted for a shared process. Notes whether it had to be killed.
async fn close(connection: Connection, stats: Arc<GroupStats>) {
    let process = connection.live.process().filter(|process| !process.is_shared);
    if let Some(pid) = process.map(|process| process.pid) {
        let memory = blocking::run(MEASURE_TIMEOUT, move || ProcessTree::read().memory(pid)).await;
        if let Ok(Some(bytes)) = memory {
            stats.note_closed_memory(bytes);
        }
    }
    let began = Instant::now();
    (connection.close)(Grace::Ordinary).await;
    if began.elapsed() >= StopTimeouts::ORDINARY.sigkill_after {
        stats.note_kill();
    }
}
