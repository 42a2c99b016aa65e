//! What the tasks of all groups share: slots for connecting at start, and the set of changed groups.

use config::GroupName;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

/// What the tasks of all groups share. Cheap to clone.
#[derive(Clone)]
pub struct SharedState {
    /// Limits how many groups connect at the same time without a request.
    pub slots: Arc<Semaphore>,
    /// Notified after each publication of a snapshot.
    pub changes: Arc<ChangedGroups>,
}

impl SharedState {
    /// Makes the shared state. `slots` is how many groups may connect at the same time without a request.
    pub fn new(slots: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), changes: Arc::default() }
    }
}

/// The groups whose snapshot changed since the last look.
#[derive(Default)]
pub struct ChangedGroups {
    /// The changed groups that `take` has not returned yet.
    groups: Mutex<BTreeSet<GroupName>>,
    /// Notified when a group was added.
    added: Notify,
}

impl ChangedGroups {
    /// Adds a group.
    pub fn add(&self, group: &GroupName) {
        self.groups.lock().insert(group.clone());
        self.added.notify_one();
    }

    /// Waits until there are changed groups, and takes them. Cancel-safe.
    pub async fn take(&self) -> BTreeSet<GroupName> {
        self.added.notified().await;
        std::mem::take(&mut *self.groups.lock())
    }
}
