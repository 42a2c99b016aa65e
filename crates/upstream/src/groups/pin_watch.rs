//! Keeps the pins in step with other processes: writes what was seen, and notices approvals.

use super::manager::GroupManager;
use crate::select::until;
use config::{Config, GroupName};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The interval between two looks for an approval, while a tool is refused.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long `get_status` waits while approvals are looked up.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);

impl GroupManager {
    /// Reads what is remembered of the groups of a config, unless it is known already. To be called before they are
    /// created. Waits up to `LOAD_TIMEOUT` of `pins`.
    pub async fn load_pins(&self, config: &Config) {
        let servers =
            config.servers.iter().filter_map(|(name, server)| Some((name, &**server.as_ref().ok()?)));
        self.environment.pins.load(servers).await;
    }

    /// Writes what was seen and notices approvals. Runs until it is dropped. Polls the files only while a tool is
    /// refused.
    pub(super) async fn follow_pins(&self) {
        let mut check_at = None;
        loop {
            tokio::select! {
                () = self.environment.pins.touched() => {}
                () = until(check_at) => {}
            }
            self.synchronize_pins().await;
            check_at = self.environment.pins.is_refusing().then(|| Instant::now() + CHECK_INTERVAL);
        }
    }

    /// Notices approvals now, for a caller that reports what is changed. Waits up to `STATUS_TIMEOUT`.
    pub async fn check_approvals(&self) {
        if timeout(STATUS_TIMEOUT, self.synchronize_pins()).await.is_err() {
            tracing::debug!(timeout = ?STATUS_TIMEOUT, "the look for approvals timed out");
        }
    }

    async fn synchronize_pins(&self) {
        let changed: Vec<GroupName> = self.environment.pins.synchronize().await;
        let config = self.config();
        for name in &changed {
            if let (Some(group), Some(Ok(server))) = (self.get(name), config.server(name)) {
                self.replace_surface(&group, server, false);
            }
        }
        self.lists_changed(!changed.is_empty());
    }
}
