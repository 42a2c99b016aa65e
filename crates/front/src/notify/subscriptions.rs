//! The subscriptions of the clients of one instance, which outlive connections.
//!
//! Each group with subscriptions has one task (`subscription_task`) that subscribes and unsubscribes at its server, and
//! makes all subscriptions again on every later connection. It holds a lease, so the group stays connected. A request
//! of the client changes the set of topics and waits for the server's replies.

use super::subscription_task::{self, Holder, SubscriptionChannels, Topic, TopicReplies, Topics};
use crate::ask::acquire::acquire;
use crate::errors;
use crate::session::subscription_order::SubscriptionOrder;
use base::fair::Shares;
use config::GroupName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use upstream::{GroupManager, Need, Upstream};
use wire::peer::Progress;
use wire::protocol::capability;
use wire::{Raw, Reply};

/// The limit for the reply to a subscription. The task may be busy with several others, each within its own limit.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// How many topics all `subscriptions/listen` may hold together. A user has a share of them.
const MAX_LISTENED: usize = 10_000;
const EMPTY: Raw = Raw::from_static(b"{}");

/// The subscriptions of the clients of one instance.
pub struct Subscriptions {
    /// The groups of the instance.
    groups: Arc<GroupManager>,
    /// Notes which subscriptions were sent, if the instance has one client.
    order: Option<Arc<SubscriptionOrder>>,
    /// The tasks of the groups.
    state: Mutex<SubscriptionState>,
    /// The topics that `subscriptions/listen` hold, which users share.
    pub(crate) listened: Shares,
    /// Whether the instance serves no more.
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct SubscriptionState {
    /// The channels of each group's task.
    by_group: HashMap<GroupName, TaskChannels>,
    /// The tasks.
    tasks: JoinSet<()>,
    /// The number of requests so far that hold topics for themselves.
    requests: u64,
    /// The URIs of the open `resources/subscribe`. Dropping the sender ends the request.
    subscribing: Vec<(String, oneshot::Sender<()>)>,
}

/// The channels to and from the task of one group.
#[derive(Clone)]
struct TaskChannels {
    /// The topics that the task has to keep subscribed.
    topics: watch::Sender<Topics>,
    /// The outcome for each version of the topics.
    replies: watch::Receiver<TopicReplies>,
}

/// Holds topics until it is dropped.
pub struct TopicGuard {
    /// Where the topics are held.
    subscriptions: Weak<Subscriptions>,
    /// The group of the topics.
    group: GroupName,
    /// The topics.
    topics: Vec<Topic>,
    /// On whose behalf they are held.
    holder: Holder,
}

impl TopicGuard {
    /// Holds the topics for the client even after the guard is gone, unless it has unsubscribed from them meanwhile.
    pub fn keep(mut self) {
        let topics = std::mem::take(&mut self.topics);
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            subscriptions.pass_on(&self.group, &topics, self.holder, Holder::Client);
        }
    }
}

impl Drop for TopicGuard {
    fn drop(&mut self) {
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            drop(subscriptions.release(&self.group, &self.topics, self.holder, None));
        }
    }
}

/// The replies of a task, and the version of the topics to wait for.
type PendingReplies = (watch::Receiver<TopicReplies>, u64);

impl Subscriptions {
    /// Creates the subscriptions of an instance. There are none yet. `order`: notes which of its only client were sent.
    pub fn new(groups: Arc<GroupManager>, order: Option<Arc<SubscriptionOrder>>) -> Arc<Self> {
        let (state, listened) = (Mutex::default(), Shares::new(MAX_LISTENED));
        Arc::new(Self { groups, order, state, listened, closed: watch::Sender::new(false) })
    }

    /// Returns a new holder for a request: `kind` is the kind of holder.
    pub(crate) fn new_holder(&self, kind: fn(u64) -> Holder) -> Holder {
        let mut state = self.state.lock();
        state.requests += 1;
        kind(state.requests)
    }

    /// Begins a `resources/subscribe`. Returns its holder, and what resolves when the client unsubscribes from the URI.
    pub(crate) fn begin_subscribe(&self, uri: &str) -> (Holder, impl Future<Output = ()> + use<>) {
        let holder = self.new_holder(Holder::Subscribe);
        let (is_open, unsubscribed) = oneshot::channel();
        let mut state = self.state.lock();
        state.subscribing.retain(|(_, is_open)| !is_open.is_closed());
        state.subscribing.push((uri.to_owned(), is_open));
        (holder, async { drop(unsubscribed.await) })
    }

    /// Ends the open `resources/subscribe` with this URI. What they have subscribed to is released when they end.
    pub(crate) fn end_subscribes(&self, uri: &str) {
        self.state.lock().subscribing.retain(|(open, _)| open != uri);
    }

    /// Tells every `subscriptions/listen` to end, because nothing is served any more. Returns before they are answered.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Resolves when `close` is called.
    pub async fn closed(&self) {
        drop(self.closed.subscribe().wait_for(|closed| *closed).await);
    }

    /// Returns whether a topic of a group has a holder.
    pub fn contains(&self, group: &GroupName, topic: &Topic) -> bool {
        let state = self.state.lock();
        state.by_group.get(group).is_some_and(|task| task.topics.borrow().contains(topic))
    }

    /// Holds topics of a group, connecting it if there is no connection. Returns the server's reply for each topic, in
    /// their order: an error if none came within 20 s. The topics are held until the guard is dropped, whatever the
    /// replies say.
    ///
    /// # Errors
    ///
    /// The group could not be connected, or has no resources.
    pub async fn hold(
        self: &Arc<Self>,
        group: &Upstream,
        topics: Vec<Topic>,
        holder: Holder,
        params: Option<Raw>,
        progress: Option<&Progress>,
    ) -> Result<(TopicGuard, Vec<Reply>), Raw> {
        let acquired = acquire(&self.groups, group, Need::Tools, progress).await;
        let (group, _connected) =
            acquired.map_err(|unavailable| Raw::from(errors::RpcError::from(unavailable)))?;
        let has_resources = topics.iter().any(|topic| matches!(topic, Topic::Resource(_)));
        let catalog = group.snapshot().catalog.clone();
        let is_offered = catalog.is_none_or(|catalog| catalog.info.may_have(capability::RESOURCES));
        if has_resources && !is_offered {
            return Err(errors::lacks_capability(&group.name, capability::RESOURCES).into());
        }
        let pending = self.add(&group, &topics, holder, params);
        let guard = TopicGuard {
            subscriptions: Arc::downgrade(self),
            group: group.name.clone(),
            topics: topics.clone(),
            holder,
        };
        Ok((guard, replies(pending, &topics).await))
    }

    /// Releases a topic that the client held, and returns the server's reply, or an error if none came within 20 s.
    /// Returns `None` if the group has no task.
    pub(crate) async fn release_topic(&self, group: &GroupName, topic: Topic, params: Raw) -> Option<Reply> {
        let topics = [topic];
        let pending = self.release(group, &topics, Holder::Client, Some(params))?;
        replies(pending, &topics).await.pop()
    }

    /// Releases a topic that the client held, of a group that the config no longer has. Nobody is told.
    pub(crate) fn forget(&self, group: &GroupName, topic: Topic) {
        drop(self.release(group, &[topic], Holder::Client, None));
    }

    /// Notes that this version of a group's topics is to be sent.
    fn begin(&self, group: &GroupName, version: u64) {
        if let Some(order) = &self.order {
            order.begin(group, version);
        }
    }

    fn add(
        self: &Arc<Self>,
        group: &Upstream,
        topics: &[Topic],
        holder: Holder,
        params: Option<Raw>,
    ) -> PendingReplies {
        let mut state = self.state.lock();
        while state.tasks.try_join_next().is_some() {}
        let task = state.by_group.get(&group.name).cloned();
        let task = task.unwrap_or_else(|| self.start_task(&mut state, group));
        task.topics.send_modify(|all| all.hold(topics, holder, params));
        let version = task.topics.borrow().version;
        self.begin(&group.name, version);
        (task.replies, version)
    }

    fn start_task(self: &Arc<Self>, state: &mut SubscriptionState, group: &Upstream) -> TaskChannels {
        let (topics, wanted) = watch::channel(Topics::default());
        let (replies_sender, replies) = watch::channel(TopicReplies::default());
        let task = TaskChannels { topics, replies };
        state.by_group.insert(group.name.clone(), task.clone());
        let (subscriptions, name) = (Arc::downgrade(self), group.name.clone());
        let retire = move || subscriptions.upgrade().is_none_or(|subscriptions| subscriptions.retire(&name));
        let (order, name) = (self.order.clone(), group.name.clone());
        let sent = move |version| {
            if let Some(order) = &order {
                order.sent(&name, version);
            }
        };
        let channels = SubscriptionChannels { topics: wanted, replies: replies_sender, sent: Box::new(sent) };
        state.tasks.spawn(subscription_task::run(self.groups.clone(), group.clone(), channels, retire));
        task
    }

    fn release(
        &self,
        group: &GroupName,
        topics: &[Topic],
        holder: Holder,
        params: Option<Raw>,
    ) -> Option<PendingReplies> {
        let state = self.state.lock();
        let task = state.by_group.get(group).filter(|_| !topics.is_empty())?;
        task.topics.send_modify(|all| all.release(topics, holder, params));
        let version = task.topics.borrow().version;
        self.begin(group, version);
        Some((task.replies.clone(), version))
    }

    /// Passes topics on to another holder. Nothing is sent to the server for that.
    fn pass_on(&self, group: &GroupName, topics: &[Topic], from: Holder, to: Holder) {
        if let Some(task) = self.state.lock().by_group.get(group) {
            task.topics.send_if_modified(|all| {
                all.pass_on(topics, from, to);
                false
            });
        }
    }

    /// Forgets the task of a group that has no topics, so that the next topic starts another one. Returns whether it
    /// did.
    fn retire(&self, group: &GroupName) -> bool {
        let mut state = self.state.lock();
        let is_idle = state.by_group.get(group).is_none_or(|task| task.topics.borrow().is_empty());
        if is_idle {
            state.by_group.remove(group);
            self.order.iter().for_each(|order| order.forget(group));
        }
        is_idle
    }
}

/// Waits for the server's reply for each topic, for 20 s at most. A topic without a reply in time has an error. One that
/// was released before the server was asked has an empty reply.
async fn replies((mut replies, version): PendingReplies, topics: &[Topic]) -> Vec<Reply> {
    let replies = timeout(REPLY_TIMEOUT, replies.wait_for(|replies| replies.version >= version)).await;
    let reply = |topic: &Topic| match &replies {
        Ok(Ok(replies)) => replies.replies.get(topic).cloned().unwrap_or(Ok(EMPTY)),
        // The task ends when no topic is left.
        Ok(Err(_)) => Ok(EMPTY),
        Err(_) => Err(errors::subscription_timed_out().into()),
    };
    topics.iter().map(reply).collect()
}
