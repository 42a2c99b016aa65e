//! A group's state at one moment, as its task publishes it.

use super::catalog::Catalog;
use super::lease::{Lease, LiveConnection};
use super::lifecycle::State;
use crate::config::{Mode, ServerConfig};
use crate::rules::Rules;
use crate::transport::ServerProcess;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A group's state at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The group's configuration. `None`: its entry in the config is invalid.
    pub server: Option<Arc<ServerConfig>>,
    /// The config's rules for the group's tools.
    pub rules: Arc<Rules>,
    /// The state of the lifecycle.
    pub state: State,
    /// When the attempt in progress began.
    pub connecting: Option<Instant>,
    /// When the next attempt is due without a request.
    pub next_attempt: Option<Instant>,
    /// Whether an attempt has ended, in success or failure.
    pub attempted: bool,
    /// What is known of the server. It outlives failures, so that a failed group can still be described.
    pub catalog: Option<Arc<Catalog>>,
    /// The live connection, if there is one.
    pub(super) live: Option<Arc<LiveConnection>>,
}

impl Snapshot {
    /// The group's mode. A group whose entry is invalid counts as pure: it never connects.
    pub fn mode(&self) -> Mode {
        self.server.as_ref().map_or(Mode::Pure, |server| server.mode)
    }

    /// How long a caller waits for a connection.
    pub fn wait(&self) -> Duration {
        self.server.as_ref().map_or(Duration::ZERO, |server| server.timeout.wait)
    }

    /// How long the connection has been unused; `None` while it is in use, or if there is none.
    pub fn idle(&self) -> Option<Duration> {
        let usage = self.live.as_ref()?.usage();
        (usage.leases == 0).then(|| usage.last_activity.elapsed())
    }

    /// The server's process, while it is connected and on this machine.
    pub fn process(&self) -> Option<ServerProcess> {
        self.live.as_ref()?.process()
    }

    /// Returns a lease on the live connection, if there is one.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.live.as_ref()?.lease()
    }

    /// Returns whether the two differ in nothing that an observer could see.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same_state = match (&self.state, &other.state) {
            (State::Failed(a), State::Failed(b)) => a.at == b.at && a.attempts == b.attempts,
            (a, b) => a.name() == b.name(),
        };
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            a.map(Arc::as_ptr) == b.map(Arc::as_ptr)
        }
        same_state
            && self.connecting == other.connecting
            && self.next_attempt == other.next_attempt
            && self.attempted == other.attempted
            && same(self.server.as_ref(), other.server.as_ref())
            && same(self.catalog.as_ref(), other.catalog.as_ref())
            && same(self.live.as_ref(), other.live.as_ref())
    }
}
