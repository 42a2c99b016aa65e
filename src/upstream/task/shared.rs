//! What the tasks of all groups share: slots to start in, and whom to tell of changes.

use crate::config::GroupName;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

/// What the tasks of all groups share.
#[derive(Clone)]
pub struct Shared {
    /// Start-up connects at most so many at a time.
    pub slots: Arc<Semaphore>,
    /// Told after each publication of a snapshot.
    pub changes: Arc<Changes>,
}

impl Shared {
    /// `slots`: how many groups may start at once, unasked.
    pub fn new(slots: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), changes: Arc::default() }
    }
}

/// The groups whose snapshots are others than when they were last looked at.
#[derive(Default)]
pub struct Changes {
    groups: Mutex<BTreeSet<GroupName>>,
    told: Notify,
}

impl Changes {
    pub fn tell(&self, group: &GroupName) {
        self.groups.lock().insert(group.clone());
        self.told.notify_one();
    }

    /// Those since the last time, once there are any. Cancel-safe.
    pub async fn next(&self) -> BTreeSet<GroupName> {
        self.told.notified().await;
        std::mem::take(&mut *self.groups.lock())
    }
}
