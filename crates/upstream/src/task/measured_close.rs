//! Closes an unused connection, and measures how much memory that frees.

use crate::connection::{Connection, Grace};
use crate::stats::GroupStats;
use base::blocking;
use process::processes::ProcessTree;
use std::sync::Arc;
use std::time::Duration;

/// How long measuring the memory of a server may delay its end.
const MEASURE_TIMEOUT: Duration = Duration::from_millis(200);

/// Closes a connection that nobody uses, and notes first how much memory that frees.
pub(super) async fn close(connection: Connection, stats: Arc<GroupStats>) {
    let process = connection.live.process().filter(|process| !process.is_shared);
    if let Some(pid) = process.map(|process| process.pid) {
        let memory = blocking::run(MEASURE_TIMEOUT, move || ProcessTree::read().memory(pid)).await;
        if let Ok(Some(bytes)) = memory {
            stats.note_closed_memory(bytes);
        }
    }
    (connection.close)(Grace::Ordinary).await;
}
