//! Subscriptions that outlive connections. Each group that has any has a keeper: the one task that asks its server to
//! subscribe and to unsubscribe, in the way that the server speaks, and makes all of it again on every later connection.
//! It holds a lease, so the group stays connected. Whoever subscribes says what is to be held and waits for what came of
//! it.

use super::keeper::{self, Settled, Topics};
use super::relay::{self, Asked, Passed, pass};
use super::{errors, reach, resources};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::audience::client::Client;
use crate::wire::{Raw, Reply};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// For a keeper to say what came of a subscription; it asks for several at once, each within its own limit.
const SETTLED: Duration = Duration::from_secs(20);
const DONE: Raw = Raw::from_static(b"{}");

/// What can be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// By its URI at its group.
    Resource(String),
    /// By its id at its group; only servers of the stateless era tell of those they are asked for.
    Task(String),
}

impl Topic {
    /// Of a `subscriptions/listen`'s filter.
    pub fn member(&self) -> &'static str {
        match self {
            Self::Resource(_) => "resourceSubscriptions",
            Self::Task(_) => "taskIds",
        }
    }
}

/// On whose behalf something is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client with a handshake, until it unsubscribes.
    Client,
    /// One `subscriptions/listen`, by a number of ours: ids of requests may come again.
    Listen(u64),
}

impl Holder {
    /// Tells listeners from each other.
    pub fn number(self) -> u64 {
        match self {
            Self::Client => 0,
            Self::Listen(number) => number,
        }
    }
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
    listens: u64,
}

/// What a keeper is told, and what it says.
#[derive(Clone)]
struct Keeper {
    topics: watch::Sender<Topics>,
    settled: watch::Receiver<Settled>,
}

/// What is held until this is dropped, unless it is let go for good.
pub struct Held {
    subscriptions: Weak<Subscriptions>,
    group: GroupName,
    topics: Vec<Topic>,
    holder: Holder,
}

impl Held {
    /// It stays held.
    fn for_good(mut self) {
        self.topics.clear();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(subscriptions) = self.subscriptions.upgrade() {
            subscriptions.release(&self.group, &self.topics, self.holder, None);
        }
    }
}

impl Subscriptions {
    pub fn new(groups: Arc<GroupManager>, client: Arc<Client>) -> Arc<Self> {
        Arc::new(Self { groups, client, kept: Mutex::default(), closed: watch::Sender::new(false) })
    }

    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// A holder that no other is.
    pub fn listener(&self) -> Holder {
        let mut kept = self.kept.lock();
        kept.listens += 1;
        Holder::Listen(kept.listens)
    }

    /// The client gets no more notifications.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Resolves then.
    pub async fn closed(&self) {
        drop(self.closed.subscribe().wait_for(|closed| *closed).await);
    }

    /// `resources/subscribe`.
    pub async fn subscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let known_as = asked.text("uri")?;
        let Some((group, uri)) = resources::locate(&asked, &known_as).await? else {
            return self.subscribe_unlisted(&asked, &known_as).await;
        };
        let reply = self.subscribe_at(&asked, &group, &uri).await?;
        self.client.alias(&group.name, &uri, &known_as);
        Ok(reply)
    }

    /// Nobody says that the URI is theirs: whoever is connected is asked, in config order.
    async fn subscribe_unlisted(self: &Arc<Self>, asked: &Asked, uri: &str) -> Reply {
        for group in asked.groups.all().into_iter().filter(|group| group.try_lease().is_some()) {
            if let Ok(reply) = self.subscribe_at(asked, &group, uri).await {
                return Ok(reply);
            }
        }
        Err(errors::resource_not_found(uri).into())
    }

    async fn subscribe_at(self: &Arc<Self>, asked: &Asked, group: &Upstream, uri: &str) -> Reply {
        let topic = Topic::Resource(uri.to_owned());
        let params = Some(asked.with_uri(uri));
        let (held, mut replies) = self.hold(asked, group, vec![topic], Holder::Client, params).await?;
        let reply = replies.pop().unwrap_or(Ok(DONE))?;
        held.for_good();
        Ok(reply)
    }

    /// `resources/unsubscribe`.
    pub async fn unsubscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let known_as = asked.text("uri")?;
        let listed = resources::locate(&asked, &known_as).await?;
        let topic = |uri: &str| Topic::Resource(uri.to_owned());
        let unlisted = || {
            let mut groups = asked.groups.all().into_iter();
            Some((groups.find(|group| self.holds(&group.name, &topic(&known_as)))?, known_as.clone()))
        };
        let found = listed.or_else(unlisted);
        let (group, uri) = found.ok_or_else(|| Raw::from(errors::resource_not_found(&known_as)))?;
        let params = asked.with_uri(&uri);
        if !self.holds(&group.name, &topic(&uri)) {
            // There is nothing to end; what the server says of that is its affair.
            let passed = Passed { method: "resources/unsubscribe", capability: "resources", params };
            return pass(&asked, &group, passed).await;
        }
        let Some(waiting) = self.release(&group.name, &[topic(&uri)], Holder::Client, Some(params)) else {
            return Ok(DONE);
        };
        settled(waiting, vec![topic(&uri)]).await.pop().unwrap_or(Ok(DONE))
    }

    /// Holds topics of a group, connecting it if need be, and says what came of each.
    pub async fn hold(
        self: &Arc<Self>,
        asked: &Asked,
        group: &Upstream,
        topics: Vec<Topic>,
        holder: Holder,
        params: Option<Raw>,
    ) -> Result<(Held, Vec<Reply>), Raw> {
        let reached = reach::lease(&asked.groups, group, asked.caller.progress.as_ref()).await;
        let (group, _connected) =
            reached.map_err(|unreachable| Raw::from(errors::unreachable(&unreachable)))?;
        let of_resources = topics.iter().any(|topic| matches!(topic, Topic::Resource(_)));
        if of_resources && !relay::offers(&group, "resources") {
            return Err(errors::lacks(&group.name, "resources").into());
        }
        let waiting = self.tell_keeper(&group, &topics, holder, params);
        let held = Held {
            subscriptions: Arc::downgrade(self),
            group: group.name.clone(),
            topics: topics.clone(),
            holder,
        };
        Ok((held, settled(waiting, topics).await))
    }

    fn tell_keeper(
        self: &Arc<Self>,
        group: &Upstream,
        topics: &[Topic],
        holder: Holder,
        params: Option<Raw>,
    ) -> Waiting {
        let mut kept = self.kept.lock();
        while kept.tasks.try_join_next().is_some() {}
        let keeper = kept.keepers.get(&group.name).cloned().unwrap_or_else(|| {
            let (to_keeper, wanted) = watch::channel(Topics::default());
            let (says, settled) = watch::channel(Settled::default());
            let keeper = Keeper { topics: to_keeper, settled };
            kept.keepers.insert(group.name.clone(), keeper.clone());
            let retire = {
                let (subscriptions, name) = (Arc::downgrade(self), group.name.clone());
                move || subscriptions.upgrade().is_none_or(|subscriptions| subscriptions.retire(&name))
            };
            kept.tasks.spawn(keeper::keep(self.groups.clone(), group.clone(), wanted, says, retire));
            keeper
        });
        keeper.topics.send_modify(|all| all.hold(topics, holder, params));
        let version = keeper.topics.borrow().version;
        (keeper.settled, version)
    }

    /// Topics are held no more by `holder`. What comes of it, if there is a keeper.
    fn release(
        &self,
        group: &GroupName,
        topics: &[Topic],
        holder: Holder,
        params: Option<Raw>,
    ) -> Option<Waiting> {
        let kept = self.kept.lock();
        let keeper = kept.keepers.get(group).filter(|_| !topics.is_empty())?;
        keeper.topics.send_modify(|all| all.release(topics, holder, params));
        let version = keeper.topics.borrow().version;
        Some((keeper.settled.clone(), version))
    }

    /// Whether a keeper has nothing to keep; then it is forgotten, so that the next topic gets another.
    fn retire(&self, group: &GroupName) -> bool {
        let mut kept = self.kept.lock();
        let idle = kept.keepers.get(group).is_none_or(|keeper| keeper.topics.borrow().is_empty());
        if idle {
            kept.keepers.remove(group);
        }
        idle
    }

    fn holds(&self, group: &GroupName, topic: &Topic) -> bool {
        self.kept.lock().keepers.get(group).is_some_and(|keeper| keeper.topics.borrow().holds(topic))
    }
}

/// What a keeper says, and the version of its topics that is waited for.
type Waiting = (watch::Receiver<Settled>, u64);

/// What came of each topic.
async fn settled((mut said, version): Waiting, topics: Vec<Topic>) -> Vec<Reply> {
    let said = timeout(SETTLED, said.wait_for(|settled| settled.version >= version)).await;
    let reply = |topic: &Topic| match &said {
        Ok(Ok(settled)) => settled.replies.get(topic).cloned().unwrap_or(Ok(DONE)),
        _ => Err(errors::not_subscribed().into()),
    };
    topics.iter().map(reply).collect()
}
