//! Keeps the order of a subscription and the later requests of the client to the same group. A task of its own sends the
//! subscription, so later requests wait until it is sent. They do not wait for the server's reply.

use config::GroupName;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a request waits at most. The order is lost if the task is busy for longer, for example with a connection
/// that failed.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Which changes of one client's subscriptions were sent to the groups.
#[derive(Default)]
pub struct SubscriptionOrder {
    /// The last version of each group's topics, and the last one that was sent. Empty before the first subscription.
    versions: OnceLock<Mutex<HashMap<GroupName, SentVersions>>>,
    /// Wakes the requests that wait.
    changed: Notify,
}

#[derive(Default)]
struct SentVersions {
    wanted: u64,
    sent: u64,
}

impl SubscriptionOrder {
    /// Returns whether there was a subscription, after which requests may have to wait.
    pub fn is_used(&self) -> bool {
        self.versions.get().is_some()
    }

    fn versions(&self) -> MutexGuard<'_, HashMap<GroupName, SentVersions>> {
        self.versions.get_or_init(Mutex::default).lock()
    }

    /// Notes that a version of a group's topics is to be sent.
    pub fn begin(&self, group: &GroupName, version: u64) {
        self.versions().entry(group.clone()).or_default().wanted = version;
    }

    /// Notes that everything up to a version was sent.
    pub fn sent(&self, group: &GroupName, version: u64) {
        if let Some(versions) = self.versions().get_mut(group) {
            versions.sent = version;
        }
        self.changed.notify_waiters();
    }

    /// Forgets a group whose task has ended; its versions begin again.
    pub fn forget(&self, group: &GroupName) {
        self.versions().remove(group);
        self.changed.notify_waiters();
    }

    /// Waits until the changes so far were sent to `group`, for `MAX_WAIT` at most. Requests that wait go on in the order
    /// in which they came.
    pub async fn wait(&self, group: &GroupName) {
        let sent = async {
            loop {
                let changed = self.changed.notified();
                if self.versions().get(group).is_none_or(|versions| versions.sent >= versions.wanted) {
                    return;
                }
                changed.await;
            }
        };
        drop(timeout(MAX_WAIT, sent).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::Arc;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn only_requests_to_the_group_wait_and_they_keep_their_order() {
        let (g, h) = (GroupName::new("g"), GroupName::new("h"));
        let order = Arc::<SubscriptionOrder>::default();
        assert!(order.wait(&g).now_or_never().is_some(), "there is no subscription");
        order.begin(&g, 1);
        order.begin(&g, 2);
        assert!(order.wait(&h).now_or_never().is_some(), "another group");
        let (sender, mut finished) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..5 {
            let (order, g, sender) = (order.clone(), g.clone(), sender.clone());
            tokio::spawn(async move {
                order.wait(&g).await;
                sender.send(n).unwrap();
            });
        }
        tokio::task::yield_now().await;
        order.sent(&g, 1);
        tokio::task::yield_now().await;
        assert!(finished.try_recv().is_err(), "the second change was not sent");
        order.sent(&g, 2);
        for n in 0..5 {
            assert_eq!(finished.recv().await, Some(n));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_sends_nothing_delays_a_request_by_a_second_at_most() {
        let g = GroupName::new("g");
        let order = SubscriptionOrder::default();
        order.begin(&g, 1);
        let start = Instant::now();
        order.wait(&g).await;
        assert_eq!(start.elapsed(), MAX_WAIT);
        order.forget(&g);
        assert!(order.wait(&g).now_or_never().is_some());
    }
}
