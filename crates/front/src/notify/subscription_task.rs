//! The subscriptions at one group. One task makes and ends them, one after the other, and makes them again on every new
//! connection.

use crate::ask::acquire::acquire;
use crate::errors;
use futures_util::future::{BoxFuture, join};
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use upstream::connection::list_subscription::SUBSCRIPTION_TIMEOUT;
use upstream::select::until;
use upstream::{GroupManager, Lease, Need, Upstream};
use wire::peer::{CallError, CallOptions};
use wire::protocol::methods::Method;
use wire::protocol::{Era, TASKS_EXTENSION, meta};
use wire::{Raw, Reply, raw};

/// The interval before a group that could not be connected is tried again. Each try is a whole round of attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The interval before a `subscriptions/listen` that failed is sent again. It may need a login.
const LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// How many requests of one group may be unanswered at the same time.
const MAX_CONCURRENT: usize = 64;
/// The limit for one subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// What can be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A resource, by the URI that its group uses.
    Resource(Arc<str>),
    /// A task, by the id that its group uses. Only stateless servers take such subscriptions.
    Task(Arc<str>),
}

impl Topic {
    /// Returns the member of the filter of `subscriptions/listen`.
    pub(crate) fn filter_member(&self) -> &'static str {
        match self {
            Self::Resource(_) => "resourceSubscriptions",
            Self::Task(_) => "taskIds",
        }
    }
}

/// On whose behalf a topic is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client of the handshake era, until it unsubscribes.
    Client,
    /// A `resources/subscribe` that is not answered, by a number of our own. Requests for the same topic that overlap
    /// hold it each for itself, so that one of them that fails takes nothing from the others.
    Subscribe(u64),
    /// One `subscriptions/listen`, by a number of our own, because clients may reuse a request id.
    Listen(u64),
}

impl Holder {
    /// Returns the number of a `subscriptions/listen`; 0 for a client of the handshake era.
    pub fn number(self) -> u64 {
        match self {
            Self::Client | Self::Subscribe(_) => 0,
            Self::Listen(number) => number,
        }
    }

    /// Returns whether the topics of `other` go when this holder lets go of them: a client that unsubscribes means its
    /// open `resources/subscribe` as well.
    fn covers(self, other: Self) -> bool {
        self == other || (self == Self::Client && matches!(other, Self::Subscribe(_)))
    }
}

/// The topics of one group and their holders.
#[derive(Debug, Clone, Default)]
pub struct Topics {
    /// The holders of each topic.
    holders: BTreeMap<Topic, BTreeSet<Holder>>,
    /// The params that a client's request had, for the request to the server.
    params: BTreeMap<Topic, Raw>,
    /// Grows with every change.
    pub version: u64,
}

impl Topics {
    /// Adds a holder to topics. `params`: those of the client's request, for the request to the server.
    pub fn hold(&mut self, topics: &[Topic], holder: Holder, params: Option<Raw>) {
        for topic in topics {
            self.holders.entry(topic.clone()).or_default().insert(holder);
            self.params.extend(params.clone().map(|params| (topic.clone(), params)));
        }
        self.version += 1;
    }

    /// Removes a holder from topics. A topic without a holder is no longer wanted. `params`: those of the client's
    /// request, for the request to the server.
    pub fn release(&mut self, topics: &[Topic], holder: Holder, params: Option<Raw>) {
        for topic in topics {
            self.params.extend(params.clone().map(|params| (topic.clone(), params)));
            if let Some(holders) = self.holders.get_mut(topic) {
                holders.retain(|other| !holder.covers(*other));
                if holders.is_empty() {
                    self.holders.remove(topic);
                }
            }
        }
        self.version += 1;
    }

    /// Passes topics on from one holder to another. Topics that the first one no longer holds stay as they are.
    pub(crate) fn pass_on(&mut self, topics: &[Topic], from: Holder, to: Holder) {
        for topic in topics {
            let Some(holders) = self.holders.get_mut(topic) else { continue };
            if holders.remove(&from) {
                holders.insert(to);
            }
        }
    }

    /// Returns whether a topic has a holder.
    pub fn contains(&self, topic: &Topic) -> bool {
        self.holders.contains_key(topic)
    }

    /// Returns whether no topic has a holder.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

/// The outcome for the topics of one version.
#[derive(Debug, Clone, Default)]
pub struct TopicReplies {
    /// The version of the topics.
    pub version: u64,
    /// The server's last reply for each topic that it was asked about.
    pub replies: BTreeMap<Topic, Reply>,
}

impl TopicReplies {
    fn update(&mut self, topics: &Topics, replies: BTreeMap<Topic, Reply>) {
        self.version = topics.version;
        self.replies.retain(|topic, _| topics.contains(topic));
        self.replies.extend(replies);
    }
}

/// Why a connection is no longer used.
enum Ended {
    /// The connection has ended.
    Connection,
    /// No topic is left.
    Topics,
}

/// The channels between the task of one group and the client's requests.
pub struct SubscriptionChannels {
    /// The topics to keep subscribed.
    pub topics: watch::Receiver<Topics>,
    /// Takes the server's replies.
    pub replies: watch::Sender<TopicReplies>,
    /// Called with a version of the topics when all its requests are sent.
    pub sent: Box<dyn Fn(u64) + Send + Sync>,
}

/// Keeps the topics of one group subscribed, and the group connected. A group that cannot be connected is tried again
/// every five seconds. Runs until no topic is left and `retire` returns true, which it does only if no topic can be
/// added any more.
pub async fn run(
    groups: Arc<GroupManager>,
    mut group: Upstream,
    mut channels: SubscriptionChannels,
    retire: impl Fn() -> bool,
) {
    loop {
        if channels.topics.borrow().is_empty() && retire() {
            return;
        }
        let Ok((connected, lease)) = acquire(&groups, &group, Need::Handshake, None).await else {
            // A group that is gone from the config may come back.
            group = groups.get(&group.name).unwrap_or(group);
            tokio::time::sleep(RETRY_INTERVAL).await;
            continue;
        };
        group = connected;
        let ended = match lease.era() {
            Era::Handshake => run_on_handshake(&group, &lease, &mut channels).await,
            Era::Stateless => run_on_stateless(&group, &lease, &mut channels).await,
        };
        if matches!(ended, Ended::Topics) && retire() {
            return;
        }
    }
}

/// Keeps the topics subscribed on a connection of the handshake era, with a request for each. Runs until the connection
/// has ended or no topic is left.
async fn run_on_handshake(group: &Upstream, lease: &Lease, channels: &mut SubscriptionChannels) -> Ended {
    let SubscriptionChannels { topics, replies, sent } = channels;
    let sent = &**sent;
    let mut subscribed = BTreeSet::new();
    loop {
        let wanted = topics.borrow_and_update().clone();
        let removed = subscribed.iter().filter(|topic| !wanted.contains(topic));
        let removed = removed.map(|topic: &Topic| (Method::ResourcesUnsubscribe, topic.clone()));
        let added = wanted.holders.keys().filter(|topic| !subscribed.contains(*topic));
        let added = added.map(|topic| (Method::ResourcesSubscribe, topic.clone()));
        let requests: Vec<_> = removed.chain(added).collect();
        if requests.is_empty() {
            sent(wanted.version);
        }
        let mut sending: Vec<BoxFuture<'_, Option<(Reply, bool)>>> = Vec::new();
        for (n, (method, topic)) in requests.iter().enumerate() {
            let request = send(group, lease, *method, topic, &wanted);
            let (is_last, version) = (n + 1 == requests.len(), wanted.version);
            // The first poll sends the request, and what it is joined with runs after that.
            let noted = async move { is_last.then(|| sent(version)) };
            sending.push(Box::pin(join(request, noted).map(|(reply, _)| reply)));
        }
        let outcomes: Vec<_> = stream::iter(sending).buffered(MAX_CONCURRENT).collect().await;
        let mut new_replies = BTreeMap::new();
        for ((method, topic), reply) in requests.into_iter().zip(outcomes) {
            let Some((reply, may_be_done)) = reply else { return Ended::Connection };
            if method == Method::ResourcesUnsubscribe {
                subscribed.remove(&topic);
            } else if may_be_done {
                subscribed.insert(topic.clone());
            }
            new_replies.insert(topic, reply);
        }
        replies.send_modify(|replies| replies.update(&wanted, new_replies));
        if wanted.is_empty() {
            return Ended::Topics;
        }
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            changed = topics.changed() => if changed.is_err() { return Ended::Topics },
        }
    }
}

/// Sends one request, and waits for its reply for ten seconds at most. Returns the reply, and whether the server may have
/// carried the request out. `None` if the connection has ended; everything is sent again on the next one then. A request
/// that is not answered in time, or is about a task, has an error as its reply.
async fn send(
    group: &Upstream,
    lease: &Lease,
    method: Method,
    topic: &Topic,
    topics: &Topics,
) -> Option<(Reply, bool)> {
    let Topic::Resource(uri) = topic else {
        let error = errors::lacks_capability(&group.name, "subscriptions to tasks");
        return Some((Err(error.into()), false));
    };
    let params = topics.params.get(topic).cloned();
    let params = params.unwrap_or_else(|| json!({ "uri": &**uri }).to_string().into());
    let options = CallOptions::within(SUBSCRIBE_TIMEOUT);
    match lease.call(method.name(), Some(&params.into()), Era::Handshake, &options).await {
        Ok(reply) => {
            let is_done = reply.is_ok();
            Some((reply, is_done))
        }
        Err(CallError::Closed { .. }) => None,
        Err(error) => Some((Err(errors::unanswered(&group.name, method.name(), &error, None).into()), true)),
    }
}

/// An open `subscriptions/listen`. It resolves when it has ended.
type OpenListen<'a> = BoxFuture<'a, Result<Reply, CallError>>;

/// Keeps the topics subscribed on a stateless connection, where one open request covers all of them. When they change,
/// a new request is opened before the old one ends. Runs until the connection has ended or no topic is left.
async fn run_on_stateless(group: &Upstream, lease: &Lease, channels: &mut SubscriptionChannels) -> Ended {
    let SubscriptionChannels { topics, replies, sent } = channels;
    let mut open: Option<OpenListen<'_>> = None;
    loop {
        let wanted = topics.borrow_and_update().clone();
        if wanted.is_empty() {
            sent(wanted.version);
            replies.send_modify(|replies| replies.update(&wanted, BTreeMap::new()));
            return Ended::Topics;
        }
        let (on_acknowledged, mut acknowledged) = watch::channel(None);
        let options = CallOptions {
            on_acknowledged: Some(on_acknowledged),
            ..CallOptions::within(SUBSCRIPTION_TIMEOUT)
        };
        let method = Method::SubscriptionsListen.name();
        let params = listen_params(&wanted).into();
        let mut next: OpenListen<'_> =
            Box::pin(async move { lease.call(method, Some(&params), Era::Handshake, &options).await });
        let acknowledged = async {
            // The request was sent by the first poll of its call, which comes before this one.
            sent(wanted.version);
            timeout(SUBSCRIBE_TIMEOUT, acknowledged.wait_for(Option::is_some)).await.ok()?.ok()?.clone()
        };
        let (accepted, retry_at) = tokio::select! {
            biased;
            outcome = &mut next => match outcome {
                Err(CallError::Closed { .. }) => return Ended::Connection,
                Ok(Err(refusal)) => (Err(refusal), None),
                _ => {
                    let error = errors::lacks_capability(&group.name, "subscriptions").into();
                    (Err(error), Some(Instant::now() + LISTEN_RETRY_INTERVAL))
                }
            },
            params = acknowledged => (Ok(params), None),
        };
        let reply = |topic: &Topic| match &accepted {
            Err(refusal) => Err(refusal.clone()),
            Ok(Some(accepted)) if acknowledges(accepted, topic) => Ok(Raw::from_static(b"{}")),
            Ok(_) => Err(errors::lacks_capability(&group.name, "this subscription").into()),
        };
        let new_replies = wanted.holders.keys().map(|topic| (topic.clone(), reply(topic))).collect();
        replies.send_modify(|replies| replies.update(&wanted, new_replies));
        // This drops the previous request, now that its successor is acknowledged. Without one, the previous one stays.
        if accepted.is_ok() {
            open = Some(next);
        }
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            changed = topics.changed() => if changed.is_err() { return Ended::Topics },
            () = until(retry_at) => {}
            outcome = ended(open.as_mut()) => match outcome {
                Err(CallError::Closed { .. }) => return Ended::Connection,
                // The server ended the subscription; it is made again.
                _ => {
                    open = None;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            },
        }
    }
}

async fn ended(open: Option<&mut OpenListen<'_>>) -> Result<Reply, CallError> {
    match open {
        Some(open) => open.await,
        None => std::future::pending().await,
    }
}

/// Returns the params of a `subscriptions/listen` for all topics.
fn listen_params(topics: &Topics) -> Raw {
    let (mut uris, mut tasks) = (Vec::new(), Vec::new());
    for topic in topics.holders.keys() {
        match topic {
            Topic::Resource(uri) => uris.push(&**uri),
            Topic::Task(id) => tasks.push(&**id),
        }
    }
    let mut params = json!({ "notifications": { "resourceSubscriptions": uris } });
    if !tasks.is_empty() {
        params["notifications"]["taskIds"] = json!(tasks);
        params["_meta"] = json!({ meta::CAPABILITIES: { "extensions": { TASKS_EXTENSION: {} } } });
    }
    params.to_string().into()
}

/// Returns whether the params of an acknowledgement have this topic.
fn acknowledges(params: &Raw, topic: &Topic) -> bool {
    let (Topic::Resource(name) | Topic::Task(name)) = topic;
    let filter = raw::get(params, "notifications");
    let names = filter.and_then(|filter| raw::get(&filter, topic.filter_member()));
    let names: Vec<String> = names.and_then(|names| serde_json::from_slice(&names).ok()).unwrap_or_default();
    names.iter().any(|accepted| **accepted == **name)
}
