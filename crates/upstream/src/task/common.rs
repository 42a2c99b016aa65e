//! What the tasks of all groups share: slots for connecting at start, and the set of changed groups.

use config::GroupName;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// How long an attempt that nobody waits for may hold its slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the tasks of all groups share. Cheap to clone.
#[derive(Clone)]
pub struct SharedState {
    /// Limits how many groups connect at the same time without a request.
    pub(crate) slots: Arc<Semaphore>,
    /// Lets one group at a time connect for a call that is expected.
    pub(crate) prefetch_slot: Arc<Semaphore>,
    /// Notified after each publication of a snapshot.
    pub changes: Arc<ChangedGroups>,
}

impl SharedState {
    /// Makes the shared state. `slots` is how many groups may connect at the same time without a request.
    pub fn new(slots: usize) -> Self {
        let [slots, prefetch_slot] = [slots, 1].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { slots, prefetch_slot, changes: Arc::default() }
    }
}

/// Makes an attempt that no caller waits for. It begins when a slot is free, or when `urgent` is notified because a
/// caller waits now. An attempt that takes longer than `SLOT_TIMEOUT` returns its slot and continues, so that servers
/// that hang do not delay others.
pub(crate) async fn in_slot<T>(
    slots: Arc<Semaphore>,
    urgent: &Notify,
    mut attempt: BoxFuture<'static, T>,
) -> T {
    let slot = tokio::select! {
        slot = slots.acquire_owned() => slot.ok(),
        () = urgent.notified() => None,
    };
    tokio::select! {
        outcome = &mut attempt => return outcome,
        () = tokio::time::sleep(SLOT_TIMEOUT) => drop(slot),
    }
    attempt.await
}

/// The groups whose snapshot changed since the last look. A queue of names beside the registry, because a task reports a
/// change without the registry's lock, and each group is to be looked at once.
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

    /// Waits until there are changed groups, and takes them. The set may be empty, if the last call took a group that
    /// was just being added. One task may wait. Cancel-safe.
    pub async fn take(&self) -> BTreeSet<GroupName> {
        self.added.notified().await;
        std::mem::take(&mut *self.groups.lock())
    }
}
