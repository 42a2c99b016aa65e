//! The end of all upstreams, as our process sees it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Warden;
use super::handle::ClientCommand;
use super::owner_mark::OwnerId;
use super::stopped_wardens;
use crate::held_process::HeldProcess;
use crate::stop_timeouts::{StopTimeouts, exit_wait};
use base::blocking;

/// How much longer than [`exit_wait`] our shutdown waits for the end of the warden processes.
const EXIT_SLACK: Duration = Duration::from_millis(100);
/// How long it then takes to end warden processes that are stopped.
const STOPPED_TIMEOUT: Duration = Duration::from_millis(300);

impl Warden {
    /// Ends every upstream and every warden process. Every later spawn fails. Idempotent. Returns when all are ended, at
    /// the latest 100 ms after [`exit_wait`], or 400 ms if a warden process is stopped. The warden processes then go on
    /// without us, and read the output of the upstreams.
    ///
    /// The owner of each upstream closes its stdin at the same time.
    pub async fn shutdown(&self, timeouts: StopTimeouts) {
        let wait = exit_wait() + EXIT_SLACK;
        let (all, processes) = self.0.pool.lock().shut_down();
        stopped_wardens::resume(processes.iter().map(|(_, process)| process));
        for commands in &all {
            commands.try_send(ClientCommand::Shutdown { timeouts }).ok();
        }
        let closed = async {
            for commands in &all {
                commands.closed().await;
            }
        };
        let ended = async {
            if timeout(wait, closed).await.is_err() {
                tracing::debug!("the warden process ends the servers without us");
                end_stopped(processes).await;
            }
        };
        timeout(wait + STOPPED_TIMEOUT, ended).await.ok();
        // Without senders, the client tasks close their sockets.
        drop(all);
    }
}

/// Kills our warden processes that are stopped (SIGSTOP), and ends the processes that they leave behind. Takes
/// [`STOPPED_TIMEOUT`] at most. The others go on without us.
async fn end_stopped(mut processes: Vec<(u32, HeldProcess)>) {
    processes.retain(|(pid, process)| stopped_wardens::is_stopped(*pid, process));
    if processes.is_empty() {
        return;
    }
    tracing::warn!("the warden process was stopped; ending its servers without it");
    let wardens: Vec<HeldProcess> = processes.into_iter().map(|(_, process)| process).collect();
    let owner = OwnerId::of_process(std::process::id().cast_signed());
    let end = move || stopped_wardens::kill(&wardens, &owner, Instant::now() + STOPPED_TIMEOUT);
    blocking::run(STOPPED_TIMEOUT, end).await.ok();
}
