//! Keeps the pins in step with other processes: writes what was seen, and notices approvals.

use super::manager::GroupManager;
use crate::select::until;
use config::{Config, GroupName, ServerConfig};
use std::sync::Arc;
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
        let store = &self.environment.pins;
        let new = |(name, server): &(GroupName, Result<Arc<ServerConfig>, _>)| {
            let server = server.as_ref().ok()?;
            let known = self.registry.lock().entry(name).pins.clone();
            let is_known = known.is_some_and(|known| known.is_about(server));
            (!is_known).then(|| store.group(name, server))
        };
        let new: Vec<_> = config.servers.iter().filter_map(new).collect();
        store.load(&new).await;
        let mut registry = self.registry.lock();
        for pins in new {
            registry.entry(&pins.name).pins = Some(pins.clone());
        }
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
            let is_refusing = self.registry.lock().pins().iter().any(|pins| pins.is_refusing());
            check_at = is_refusing.then(|| Instant::now() + CHECK_INTERVAL);
        }
    }

    /// Notices approvals now, for a caller that reports what is changed. Waits up to `STATUS_TIMEOUT`.
    pub async fn check_approvals(&self) {
        if timeout(STATUS_TIMEOUT, self.synchronize_pins()).await.is_err() {
            tracing::debug!(timeout = ?STATUS_TIMEOUT, "the look for approvals timed out");
        }
    }

    async fn synchronize_pins(&self) {
        let pins = self.registry.lock().pins();
        let changed: Vec<GroupName> = self.environment.pins.synchronize(pins).await;
        let config = self.config();
        for name in &changed {
            if let (Some(group), Some(Ok(server))) = (self.get(name), config.server(name)) {
                self.replace_surface(&group, server, false);
            }
        }
        self.lists_changed(!changed.is_empty());
    }
}
