//! Subscriptions that outlive connections: a group that has any is kept connected, and whoever lost its connection gets
//! them back with the next one. They are made in the way that the group's server speaks, whichever the client's is.

use super::relay::{Asked, Passed, pass};
use super::{errors, reach, resources};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::protocol::{Era, TASKS_EXTENSION, meta};
use crate::upstream::audience::client::Client;
use crate::upstream::listening::FOR_GOOD;
use crate::upstream::{Lease, Upstream};
use crate::wire::peer::CallOptions;
use crate::wire::{Raw, Reply, raw};
use futures_util::FutureExt;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Before a group that could not be connected is tried again; each try is a whole round.
const AGAIN: Duration = Duration::from_secs(5);
/// For one subscription that is given back.
const ANSWER: Duration = Duration::from_secs(10);
/// The holder of what a client with a handshake subscribes to; others are the ids of their requests.
const HANDSHAKE: Raw = Raw::from_static(b"");
const DONE: Raw = Raw::from_static(b"{}");

/// What can be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// By its URI at its group.
    Resource(String),
    /// By its id at its group; only servers of the stateless era tell of those they are asked for.
    Task(String),
}

/// What is subscribed to at one group, and who holds it.
#[derive(Debug, Clone, Default)]
struct Topics {
    held: BTreeMap<Topic, BTreeSet<Raw>>,
    /// Counts the changes.
    version: u64,
}

impl Topics {
    fn hold(&mut self, topic: &Topic, holder: &Raw) {
        self.held.entry(topic.clone()).or_default().insert(holder.clone());
        self.version += 1;
    }

    fn release(&mut self, topic: &Topic, holder: &Raw) {
        if let Some(holders) = self.held.get_mut(topic) {
            holders.remove(holder);
        }
        self.held.retain(|_, holders| !holders.is_empty());
        self.version += 1;
    }
}

/// What the task that keeps the subscriptions of one group is told, and what it says.
#[derive(Clone)]
struct Keeper {
    topics: watch::Sender<Topics>,
    /// The version of the topics that the server was asked for.
    asked: watch::Receiver<u64>,
}

/// The subscriptions of one client.
pub struct Subscriptions {
    groups: Arc<GroupManager>,
    client: Arc<Client>,
    kept: Mutex<Kept>,
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Kept {
    keepers: HashMap<GroupName, Keeper>,
    tasks: JoinSet<()>,
}

impl Subscriptions {
    pub fn new(groups: Arc<GroupManager>, client: Arc<Client>) -> Arc<Self> {
        Arc::new(Self { groups, client, kept: Mutex::default(), closed: watch::Sender::new(false) })
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The client gets no more notifications.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Resolves then.
    pub async fn closed(&self) {
        drop(self.closed.subscribe().wait_for(|closed| *closed).await);
    }

    pub async fn subscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let known_as = asked.text("uri")?;
        if let Some((group, uri)) = resources::locate(&asked, &known_as).await? {
            self.client.alias(&group.name, &uri, &known_as);
            return self.hold(&asked, &group, &Topic::Resource(uri), &HANDSHAKE).await;
        }
        // Nobody says that it is theirs: whoever is connected is asked, in config order.
        let topic = Topic::Resource(known_as.clone());
        for group in asked.groups.all().into_iter().filter(|group| group.try_lease().is_some()) {
            let reply = self.hold(&asked, &group, &topic, &HANDSHAKE).await;
            if reply.is_ok() {
                return reply;
            }
        }
        Err(errors::resource_not_found(&known_as).into())
    }

    pub async fn unsubscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let known_as = asked.text("uri")?;
        let holder = || self.holding(&asked, &Topic::Resource(known_as.clone()));
        let found = resources::locate(&asked, &known_as).await?;
        let found = found.or_else(|| holder().map(|group| (group, known_as.clone())));
        let (group, uri) = found.ok_or_else(|| Raw::from(errors::resource_not_found(&known_as)))?;
        let topic = Topic::Resource(uri);
        self.release(&group.name, &topic, &HANDSHAKE);
        let by_request = group.try_lease().is_none_or(|lease| lease.era() == Era::Handshake);
        if self.is_held(&group.name, &topic) || !by_request {
            return Ok(DONE);
        }
        at(&asked, &group, "resources/unsubscribe", &topic).await
    }

    /// Subscribes for the request `holder`, until it is released. False: that group has no such thing.
    pub async fn subscribe_for(&self, asked: &Asked, group: &Upstream, topic: &Topic, holder: &Raw) -> bool {
        self.hold(asked, group, topic, holder).await.is_ok()
    }

    async fn hold(&self, asked: &Asked, group: &Upstream, topic: &Topic, holder: &Raw) -> Reply {
        let reached = reach::lease(&asked.groups, group, asked.caller.progress.as_ref()).await;
        let (group, lease) = reached.map_err(|unreachable| Raw::from(errors::unreachable(&unreachable)))?;
        let reply = match (lease.era(), topic) {
            (Era::Stateless, _) => DONE,
            (Era::Handshake, Topic::Resource(_)) => at(asked, &group, "resources/subscribe", topic).await?,
            (Era::Handshake, Topic::Task(_)) => {
                return Err(errors::lacks(&group.name, "subscriptions to tasks").into());
            }
        };
        let era = lease.era();
        drop(lease);
        let (version, mut asked_for) = self.keep(&group, topic, holder);
        if era == Era::Stateless {
            // What is told from now on is heard. A server that has not been asked by then is being connected again.
            drop(timeout(ANSWER, asked_for.wait_for(|asked| *asked >= version)).await);
        }
        Ok(reply)
    }

    /// Tells the keeper of the group. Returns the version of what it is to keep, and where it says what it asked for.
    fn keep(&self, group: &Upstream, topic: &Topic, holder: &Raw) -> (u64, watch::Receiver<u64>) {
        let mut kept = self.kept();
        let keeper = kept.keepers.get(&group.name).filter(|keeper| !keeper.topics.is_closed()).cloned();
        let keeper = keeper.unwrap_or_else(|| {
            let (topics, wanted) = watch::channel(Topics::default());
            let (says, asked) = watch::channel(0);
            topics.send_modify(|topics| topics.hold(topic, holder));
            // On the connection on which it was just made, if that is still there.
            let lease = group.try_lease();
            kept.tasks.spawn(keep(self.groups.clone(), group.clone(), wanted, says, lease));
            let keeper = Keeper { topics, asked };
            kept.keepers.insert(group.name.clone(), keeper.clone());
            keeper
        });
        keeper.topics.send_modify(|topics| topics.hold(topic, holder));
        let version = keeper.topics.borrow().version;
        (version, keeper.asked)
    }

    /// The request that held the topic has ended.
    pub fn release(&self, group: &GroupName, topic: &Topic, holder: &Raw) {
        if let Some(keeper) = self.kept().keepers.get(group) {
            keeper.topics.send_modify(|topics| topics.release(topic, holder));
        }
    }

    /// The group at which this is subscribed to.
    fn holding(&self, asked: &Asked, topic: &Topic) -> Option<Upstream> {
        asked.groups.all().into_iter().find(|group| self.is_held(&group.name, topic))
    }

    fn is_held(&self, group: &GroupName, topic: &Topic) -> bool {
        let kept = self.kept();
        kept.keepers.get(group).is_some_and(|keeper| keeper.topics.borrow().held.contains_key(topic))
    }

    /// No code that can panic runs under this lock.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the request of a client on that is about a topic.
async fn at(asked: &Asked, group: &Upstream, method: &str, topic: &Topic) -> Reply {
    let params = match asked.caller.era {
        Era::Handshake => asked.without_group(),
        // A `subscriptions/listen` is about more than this.
        Era::Stateless => DONE,
    };
    let (Topic::Resource(uri) | Topic::Task(uri)) = topic;
    let params = raw::set(&params, "uri", json!(uri).to_string().as_bytes());
    pass(asked, group, Passed { method, capability: "resources", params }).await
}

/// Why a connection is no longer used.
enum Ended {
    /// It has ended.
    Connection,
    /// Nobody wants to hear anything.
    Subscriptions,
}

/// Holds a lease while there is a subscription, beginning with that of the connection on which the client's own request
/// made it, and makes them all again on every later connection.
async fn keep(
    groups: Arc<GroupManager>,
    mut group: Upstream,
    mut topics: watch::Receiver<Topics>,
    asked: watch::Sender<u64>,
    mut held: Option<Lease>,
) {
    while !topics.borrow().held.is_empty() {
        let (lease, again) = match held.take() {
            Some(lease) => (lease, false),
            None => {
                let Ok((reached, lease)) = reach::lease(&groups, &group, None).await else {
                    match groups.get(&group.name) {
                        Some(successor) => group = successor,
                        None => return,
                    }
                    tokio::time::sleep(AGAIN).await;
                    continue;
                };
                group = reached;
                (lease, true)
            }
        };
        let ended = match lease.era() {
            Era::Handshake => on_handshake(&group.name, &lease, &mut topics, again).await,
            Era::Stateless => on_stateless(&group.name, &lease, &mut topics, &asked).await,
        };
        if matches!(ended, Ended::Subscriptions) {
            return;
        }
    }
}

/// On a connection where each topic is a request of its own. `again`: they are to be made there, all of them.
async fn on_handshake(
    group: &GroupName,
    lease: &Lease,
    topics: &mut watch::Receiver<Topics>,
    again: bool,
) -> Ended {
    let mut known = topics.borrow_and_update().held.clone();
    let ask = async |method: &str, topic: &Topic| {
        let Topic::Resource(uri) = topic else { return };
        let params = json!({ "uri": uri }).to_string().into();
        let outcome = lease.call(method, Some(params), Era::Handshake, CallOptions::within(ANSWER)).await;
        if !matches!(outcome, Ok(Ok(_))) {
            tracing::warn!(%group, method, "a subscription could not be renewed or ended");
        }
    };
    if again {
        for topic in known.keys() {
            ask("resources/subscribe", topic).await;
        }
    }
    loop {
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            changed = topics.changed() => {
                let now = topics.borrow_and_update().held.clone();
                // A client with a handshake has ended its own by its own request.
                let left = |(topic, holders): &(&Topic, &BTreeSet<Raw>)| {
                    !now.contains_key(*topic) && holders.iter().any(|holder| *holder != HANDSHAKE)
                };
                for (topic, _) in known.iter().filter(left) {
                    ask("resources/unsubscribe", topic).await;
                }
                if changed.is_err() || now.is_empty() {
                    return Ended::Subscriptions;
                }
                known = now;
            }
        }
    }
}

/// The params of a request for all topics.
fn wanted(topics: &Topics) -> Raw {
    let (mut uris, mut tasks) = (Vec::new(), Vec::new());
    for topic in topics.held.keys() {
        match topic {
            Topic::Resource(uri) => uris.push(uri),
            Topic::Task(id) => tasks.push(id),
        }
    }
    let mut wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
    if !tasks.is_empty() {
        wanted["notifications"]["taskIds"] = json!(tasks);
        wanted["_meta"] = json!({ meta::CAPABILITIES: { "extensions": { TASKS_EXTENSION: {} } } });
    }
    wanted.to_string().into()
}

/// On a connection where one open request is about all topics. Others take its place before it ends.
async fn on_stateless(
    group: &GroupName,
    lease: &Lease,
    topics: &mut watch::Receiver<Topics>,
    asked: &watch::Sender<u64>,
) -> Ended {
    let listen = |topics: &Topics| {
        let params = wanted(topics);
        let options = CallOptions::within(FOR_GOOD);
        let mut open = Box::pin(lease.call("subscriptions/listen", Some(params), Era::Handshake, options));
        // Sent, before what it replaces is cancelled.
        let ended = open.as_mut().now_or_never();
        asked.send_replace(topics.version);
        async move {
            let outcome = match ended {
                Some(outcome) => outcome,
                None => open.await,
            };
            if !matches!(outcome, Ok(Ok(_))) {
                tracing::warn!(%group, "the server does not say when its resources change");
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    let mut open = Box::pin(listen(&topics.borrow_and_update()));
    loop {
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            () = &mut open => open = Box::pin(listen(&topics.borrow())),
            changed = topics.changed() => {
                if changed.is_err() || topics.borrow().held.is_empty() {
                    return Ended::Subscriptions;
                }
                open = Box::pin(listen(&topics.borrow_and_update()));
            }
        }
    }
}
