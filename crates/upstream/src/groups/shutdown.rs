//! The end of all groups.

use super::manager::{Environment, GroupManager};
use crate::connection::Grace;
use process::warden::{StopTimeouts, exit_wait};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// How much longer the whole shutdown may take than the wait for servers. OpenCode sends SIGTERM 2 s after it closed
/// stdin, other clients at once.
const SHUTDOWN_SLACK: Duration = Duration::from_millis(400);
/// How long writing catalogs may take, at the beginning and again at the end.
const CACHE_TIMEOUT: Duration = Duration::from_millis(400);

impl GroupManager {
    /// Closes all upstreams at the same time. Returns when all processes have ended or [`exit_wait`] is over, and new
    /// tokens are stored, or `SHUTDOWN_SLACK` later. The warden ends the remaining processes, with or without us.
    pub async fn shutdown(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
        // An answer to a request for tokens that was sent is stored all the same.
        drop(std::mem::take(&mut *self.login_tasks.lock()));
        let mut running = std::mem::take(&mut *self.tasks.lock());
        let Environment { transport, cache, pins, .. } = &self.environment;
        // A catalog that is not written in time is read again at the next start.
        let save = || async {
            tokio::join!(timeout(CACHE_TIMEOUT, cache.flush()), pins.synchronize(self.registry.lock().pins()))
        };
        let closing = async {
            for group in self.all() {
                group.stop(Grace::Shutdown).await;
            }
            let ended = async { while running.join_next().await.is_some() {} };
            // At the same time and with the same timetable, because a warden that is stopped ends no group.
            let warden = transport.warden.shutdown(StopTimeouts::SHUTDOWN);
            drop(tokio::join!(timeout(exit_wait(), ended), warden));
            // Catalogs may have been read while the connections were closed.
            drop(save().await);
        };
        let all = async { tokio::join!(closing, save()) };
        let limit = exit_wait() + SHUTDOWN_SLACK;
        let all = timeout(limit, all);
        // If a token request takes longer, the process waits for it once the client has its last answers.
        let logins = timeout(limit, transport.logins.flush());
        if tokio::join!(all, logins).0.is_err() {
            tracing::warn!("not everything ended in time");
        }
    }
}
