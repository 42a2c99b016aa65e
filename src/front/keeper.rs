//! Keeps the subscriptions at one group: the only one who asks its server for them, one thing after the other.

use super::subscriptions::{Holder, Topic};
use super::{errors, reach};
use crate::groups::GroupManager;
use crate::protocol::{Era, TASKS_EXTENSION, meta};
use crate::upstream::listening::FOR_GOOD;
use crate::upstream::{Lease, Upstream};
use crate::wire::peer::{CallError, CallOptions};
use crate::wire::{Raw, Reply, raw};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Before a group that could not be connected is tried again; each try is a whole round.
const AGAIN: Duration = Duration::from_secs(5);
/// For one subscription.
const ANSWER: Duration = Duration::from_secs(10);

/// What is subscribed to at one group, and who holds it.
#[derive(Debug, Clone, Default)]
pub struct Topics {
    held: BTreeMap<Topic, BTreeSet<Holder>>,
    /// What a client's own request said, for the one that is made of it.
    params: BTreeMap<Topic, Raw>,
    /// Counts the changes.
    pub version: u64,
}

impl Topics {
    pub fn hold(&mut self, topics: &[Topic], holder: Holder, params: Option<Raw>) {
        for topic in topics {
            self.held.entry(topic.clone()).or_default().insert(holder);
            self.params.extend(params.clone().map(|params| (topic.clone(), params)));
        }
        self.version += 1;
    }

    pub fn release(&mut self, topics: &[Topic], holder: Holder, params: Option<Raw>) {
        for topic in topics {
            self.params.extend(params.clone().map(|params| (topic.clone(), params)));
            if let Some(holders) = self.held.get_mut(topic) {
                holders.remove(&holder);
                if holders.is_empty() {
                    self.held.remove(topic);
                }
            }
        }
        self.version += 1;
    }

    pub fn holds(&self, topic: &Topic) -> bool {
        self.held.contains_key(topic)
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// What came of the topics of a version.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    pub version: u64,
    /// What the server last said of each that it was asked about.
    pub replies: BTreeMap<Topic, Reply>,
}

impl Settled {
    fn at(&mut self, topics: &Topics, replies: BTreeMap<Topic, Reply>) {
        self.version = topics.version;
        self.replies.retain(|topic, _| topics.holds(topic));
        self.replies.extend(replies);
    }
}

/// Why a connection is no longer used.
enum Ended {
    /// It has ended.
    Connection,
    /// Nobody wants to hear anything.
    Subscriptions,
}

/// Runs until nothing is held: `retire` says so, at a moment when nobody can hold anything new.
pub async fn keep(
    groups: Arc<GroupManager>,
    mut group: Upstream,
    mut topics: watch::Receiver<Topics>,
    says: watch::Sender<Settled>,
    retire: impl Fn() -> bool,
) {
    loop {
        if topics.borrow().is_empty() && retire() {
            return;
        }
        let Ok((reached, lease)) = reach::lease(&groups, &group, None).await else {
            // One that is gone from the config may come back.
            group = groups.get(&group.name).unwrap_or(group);
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        group = reached;
        let ended = match lease.era() {
            Era::Handshake => on_handshake(&group, &lease, &mut topics, &says).await,
            Era::Stateless => on_stateless(&group, &lease, &mut topics, &says).await,
        };
        if matches!(ended, Ended::Subscriptions) && retire() {
            return;
        }
    }
}

/// On a connection where each topic is a request of its own.
async fn on_handshake(
    group: &Upstream,
    lease: &Lease,
    topics: &mut watch::Receiver<Topics>,
    says: &watch::Sender<Settled>,
) -> Ended {
    let mut made = BTreeSet::new();
    loop {
        let now = topics.borrow_and_update().clone();
        let left: Vec<_> = made.iter().filter(|topic| !now.holds(topic)).cloned().collect();
        let new: Vec<_> = now.held.keys().filter(|topic| !made.contains(*topic)).cloned().collect();
        let mut replies = BTreeMap::new();
        for topic in left {
            made.remove(&topic);
            match ask(group, lease, "resources/unsubscribe", &topic, &now).await {
                Ok(reply) => drop(replies.insert(topic, reply)),
                Err(Ended::Connection) => return Ended::Connection,
                Err(Ended::Subscriptions) => {}
            }
        }
        for topic in new {
            match ask(group, lease, "resources/subscribe", &topic, &now).await {
                Ok(reply) => {
                    if reply.is_ok() {
                        made.insert(topic.clone());
                    }
                    replies.insert(topic, reply);
                }
                Err(Ended::Connection) => return Ended::Connection,
                Err(Ended::Subscriptions) => {}
            }
        }
        says.send_modify(|settled| settled.at(&now, replies));
        if now.is_empty() {
            return Ended::Subscriptions;
        }
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            changed = topics.changed() => if changed.is_err() { return Ended::Subscriptions },
        }
    }
}

/// What the server says. `Err`: the connection has ended, and all is asked again on the next one.
async fn ask(
    group: &Upstream,
    lease: &Lease,
    method: &str,
    topic: &Topic,
    now: &Topics,
) -> Result<Reply, Ended> {
    let Topic::Resource(uri) = topic else {
        return Ok(Err(errors::lacks(&group.name, "subscriptions to tasks").into()));
    };
    let params = now.params.get(topic).cloned();
    let params = params.unwrap_or_else(|| json!({ "uri": uri }).to_string().into());
    match lease.call(method, Some(params), Era::Handshake, CallOptions::within(ANSWER)).await {
        Ok(reply) => Ok(reply),
        Err(CallError::Closed { .. }) => Err(Ended::Connection),
        Err(error) => Ok(Err(errors::unanswered(&group.name, method, &error, None).into())),
    }
}

/// An open `subscriptions/listen`; resolves when it has ended.
type Listening<'a> = Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send + 'a>>;

/// On a connection where one open request is about all topics. Another takes its place before it ends.
async fn on_stateless(
    group: &Upstream,
    lease: &Lease,
    topics: &mut watch::Receiver<Topics>,
    says: &watch::Sender<Settled>,
) -> Ended {
    let mut open: Option<Listening<'_>>;
    loop {
        let now = topics.borrow_and_update().clone();
        if now.is_empty() {
            says.send_modify(|settled| settled.at(&now, BTreeMap::new()));
            return Ended::Subscriptions;
        }
        let (acknowledged, mut heard) = watch::channel(None);
        let options = CallOptions { acknowledged: Some(acknowledged), ..CallOptions::within(FOR_GOOD) };
        let mut next: Listening<'_> =
            Box::pin(lease.call("subscriptions/listen", Some(wanted(&now)), Era::Handshake, options));
        let honoured = tokio::select! {
            biased;
            outcome = &mut next => match outcome {
                Err(CallError::Closed { .. }) => return Ended::Connection,
                Ok(Err(refusal)) => Err(refusal),
                _ => Err(errors::lacks(&group.name, "subscriptions").into()),
            },
            heard = timeout(ANSWER, heard.wait_for(Option::is_some)) => {
                Ok(heard.ok().and_then(|heard| heard.ok()?.clone()))
            }
        };
        let reply = |topic: &Topic| match &honoured {
            Err(refusal) => Err(refusal.clone()),
            Ok(Some(honoured)) if names(honoured, topic) => Ok(Raw::from_static(b"{}")),
            Ok(_) => Err(errors::lacks(&group.name, "this subscription").into()),
        };
        let replies = now.held.keys().map(|topic| (topic.clone(), reply(topic))).collect();
        says.send_modify(|settled| settled.at(&now, replies));
        // What was open until now ends here, after its successor was heard of.
        open = honoured.is_ok().then_some(next);
        tokio::select! {
            () = lease.ended() => return Ended::Connection,
            changed = topics.changed() => if changed.is_err() { return Ended::Subscriptions },
            // The server ended it; it is asked again.
            () = ended(open.as_mut()) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn ended(open: Option<&mut Listening<'_>>) {
    match open {
        Some(open) => drop(open.await),
        None => std::future::pending().await,
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

/// Whether what the server acknowledged has this topic.
fn names(acknowledged: &Raw, topic: &Topic) -> bool {
    let (Topic::Resource(name) | Topic::Task(name)) = topic;
    let given = raw::get(acknowledged, "notifications").and_then(|given| raw::get(&given, topic.member()));
    let given: Vec<String> = given.and_then(|given| serde_json::from_slice(&given).ok()).unwrap_or_default();
    given.contains(name)
}
