//! `resources/subscribe`, `resources/unsubscribe` and `subscriptions/listen`: finds the groups that the topics belong
//! to. `notify::subscriptions` keeps them subscribed.

use super::uri_lookup;
use super::uri_lookup::Candidate;
use crate::call::forward::forward_method;
use crate::client::Client;
use crate::client::notifications::Listener;
use crate::errors::{self, RpcError};
use crate::notify::subscription_task::{Holder, Topic};
use crate::notify::subscriptions::{Subscriptions, TopicGuard};
use crate::session::context::Invocation;
use base::fair::{self, UserShare};
use config::GroupName;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use upstream::connection::task_ids;
use wire::budget::Reservation;
use wire::object::Object;
use wire::protocol::meta;
use wire::protocol::methods::{Method, notification};
use wire::{Raw, Reply, raw};

/// The flags of a filter, and the notifications that they stand for.
const LIST_FLAGS: [(&str, &str); 3] = [
    ("toolsListChanged", notification::TOOLS_LIST_CHANGED),
    ("promptsListChanged", notification::PROMPTS_LIST_CHANGED),
    ("resourcesListChanged", notification::RESOURCES_LIST_CHANGED),
];
/// How many URIs and tasks one request may name.
const MAX_TOPICS: usize = 1000;
/// How many bytes of URIs and ids of tasks one request may name.
const MAX_TOPIC_BYTES: usize = 1 << 20;
/// What a topic takes beside its own bytes, which it takes three times: here, as the client knows it, and for its server.
const TOPIC_OVERHEAD: usize = 1 << 10;
/// What a user is told who listens for too much.
const TOO_MUCH: &str = "together with those that are listened for already they are more than your share; end other subscriptions first";
/// How long a `subscriptions/listen` waits for the groups before it is acknowledged with what they accepted by then.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);
const EMPTY: Raw = Raw::from_static(b"{}");

/// `resources/subscribe`. Answers with the reply of the server, which is awaited for 20 s at most once the group is
/// connected; with an empty reply if the client unsubscribes before that.
///
/// # Errors
///
/// `params.uri` is no string, there is no such group, or several groups named the URI; or no group could be connected
/// and accepted the subscription in time, and of their errors this one says most.
pub async fn subscribe(subscriptions: Arc<Subscriptions>, invocation: Invocation) -> Reply {
    let known_as = invocation.string("uri")?;
    let (holder, unsubscribed) = subscriptions.begin_subscribe(&known_as);
    let ask = |candidate| subscribe_at(&subscriptions, &invocation, candidate, &known_as, holder);
    tokio::select! {
        biased;
        reply = uri_lookup::ask_candidates(&invocation, &known_as, ask) => reply?,
        () = unsubscribed => Ok(EMPTY),
    }
}

async fn subscribe_at(
    subscriptions: &Arc<Subscriptions>,
    invocation: &Invocation,
    Candidate { group, uri, .. }: Candidate,
    known_as: &str,
    holder: Holder,
) -> Reply {
    let topics = vec![Topic::Resource(uri.as_str().into())];
    let params = Some(invocation.params_with("uri", &uri));
    let progress = invocation.context.progress.as_ref();
    let held = subscriptions.hold(&group, topics, holder, params, progress).await;
    let (guard, mut replies) = held?;
    let reply = replies.pop().unwrap_or(Ok(EMPTY))?;
    guard.keep();
    invocation.context.client().notifications.add_subscribed(&group.name, &uri, known_as);
    Ok(reply)
}

/// `resources/unsubscribe`. Goes to the group that `params.group` names, else to the one at which the client has
/// subscribed to the URI, else to one that may have it. A group without such a subscription is asked all the same.
///
/// # Errors
///
/// `params.uri` is no string; there is no such group; several groups named the URI; it is not known which group has the
/// resource; or the error of the server.
pub async fn unsubscribe(subscriptions: Arc<Subscriptions>, invocation: Invocation) -> Reply {
    let known_as = invocation.string("uri")?;
    subscriptions.end_subscribes(&known_as);
    let topic = |uri: &str| Topic::Resource(uri.into());
    // Meanwhile the URI may belong to another group, or to none.
    let client = invocation.context.client();
    let held = client.notifications.subscribed_at(&known_as).filter(|_| !invocation.params.has("group"));
    let held = held.map(|(group, uri)| (invocation.groups().get(&group).ok_or(group), uri));
    let (group, uri) = match held {
        Some((Ok(group), uri)) => (group, uri),
        Some((Err(removed), uri)) => {
            // Its group may come back, and must not be subscribed to then.
            client.notifications.remove_subscribed(&removed, &uri);
            subscriptions.forget(&removed, topic(&uri));
            return Ok(EMPTY);
        }
        None => {
            let mut candidates = uri_lookup::candidates(&invocation, &known_as).await?;
            let holds = |c: &Candidate| subscriptions.contains(&c.group.name, &topic(&c.uri));
            let asked = candidates.iter().position(holds).or_else(|| (candidates.len() == 1).then_some(0));
            let asked = asked.ok_or_else(|| Raw::from(errors::resource_not_found(&known_as)))?;
            let Candidate { group, uri, .. } = candidates.swap_remove(asked);
            (group, uri)
        }
    };
    let params = invocation.params_with("uri", &uri);
    client.notifications.remove_subscribed(&group.name, &uri);
    if !subscriptions.contains(&group.name, &topic(&uri)) {
        // The client has no such subscription; the server answers that in its own way.
        return forward_method(&invocation.context, &group, Method::ResourcesUnsubscribe, params).await;
    }
    subscriptions.release_topic(&group.name, topic(&uri), params).await.unwrap_or(Ok(EMPTY))
}

/// A topic, and the name under which the client knows it.
type WantedTopic = (Topic, String);

/// `subscriptions/listen`, a request with this id. It is acknowledged with what the groups have accepted within
/// `ACKNOWLEDGE_TIMEOUT`; before that, it may wait for groups that connect for the first time. It is answered when the
/// session ends, and dropped when the client cancels it.
///
/// # Errors
///
/// It names more than `MAX_TOPICS` or `MAX_TOPIC_BYTES`, or the user listens for too much already.
pub async fn listen(subscriptions: Arc<Subscriptions>, invocation: Invocation, id: Raw) -> Reply {
    let filter = invocation.params.get("notifications").and_then(|filter| Object::parse(&filter));
    let filter = filter.unwrap_or_default();
    let _held = TopicMemory::reserve(&subscriptions, &filter).await?;
    let is_set = |name: &str| filter.get(name).is_some_and(|flag| &flag[..] == b"true");
    let lists: Vec<_> = LIST_FLAGS.into_iter().filter(|(name, _)| is_set(name)).collect();
    let Wanted { by_group, unlisted } = Wanted::of(&invocation, &filter).await;

    let client = invocation.context.client().clone();
    let holder = subscriptions.new_holder(Holder::Listen);
    let mut guard = ListenerGuard { client, holder, topics: Vec::new() };
    let mut resources = HashMap::new();
    for (group, topics) in &by_group {
        for (topic, known_as) in topics {
            if let Topic::Resource(uri) = topic {
                resources.insert((group.clone(), uri.clone()), known_as.clone());
            }
        }
    }
    for (known_as, candidates) in &unlisted {
        let found =
            candidates.iter().map(|c| ((c.group.name.clone(), c.uri.as_str().into()), known_as.clone()));
        resources.extend(found);
    }
    guard.client.notifications.add_listener(Listener {
        holder: holder.number(),
        id: id.clone(),
        lists: lists.iter().map(|(_, method)| *method).collect(),
        resources,
        tasks: task_ids_of(&invocation, &filter).into_iter().collect(),
        deferred: Some(Vec::new()),
    });
    let holding =
        by_group.into_iter().map(|(group, topics)| hold(&subscriptions, &invocation, group, topics, holder));
    let searching = unlisted
        .into_iter()
        .map(|(known_as, candidates)| hold_first(&subscriptions, &invocation, known_as, candidates, holder));
    let (held, found) = tokio::join!(join_all(holding), join_all(searching));
    let mut accepted: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (topics, names) in held.into_iter().chain(found).flatten() {
        guard.topics.push(topics);
        for (topic, known_as) in names {
            accepted.entry(topic.filter_member()).or_default().push(known_as);
        }
    }
    let mut acknowledged = Map::new();
    acknowledged.extend(lists.iter().map(|(name, _)| ((*name).to_owned(), Value::Bool(true))));
    for member in ["resourceSubscriptions", "taskIds"] {
        if filter.has(member) {
            acknowledged.insert(member.to_owned(), json!(accepted.remove(member).unwrap_or_default()));
        }
    }
    let params = Raw::from(json!({ "notifications": acknowledged }).to_string());
    let params = raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &id);
    guard.client.peer().notify(notification::SUBSCRIPTIONS_ACKNOWLEDGED, Some(params));
    guard.client.notifications.send_deferred(holder.number());
    // The filter is not kept while nothing happens.
    drop((invocation, filter, accepted));

    subscriptions.closed().await;
    Ok(raw::set_in(&EMPTY, "_meta", meta::SUBSCRIPTION, &id))
}

fn strings(filter: &Object, member: &str) -> Vec<String> {
    // The error about another value would repeat it.
    let list = filter.get(member).filter(|list| list.first() == Some(&b'['));
    let strings: Option<Vec<String>> = list.and_then(|list| serde_json::from_slice(&list).ok());
    strings.unwrap_or_default()
}

/// The memory of the topics of a request, which counts for its user until this is dropped.
struct TopicMemory {
    _number: UserShare,
    _bytes: Reservation,
}

impl TopicMemory {
    /// Reserves what the topics of a filter take, waiting for room for 2 s at most.
    ///
    /// # Errors
    ///
    /// They are too many for a request, or for the user.
    async fn reserve(subscriptions: &Subscriptions, filter: &Object) -> Result<Self, RpcError> {
        let names = [strings(filter, "resourceSubscriptions"), strings(filter, "taskIds")].concat();
        let bytes: usize = names.iter().map(String::len).sum();
        if names.len() > MAX_TOPICS || bytes > MAX_TOPIC_BYTES {
            let limit =
                format!("{MAX_TOPICS} and {MAX_TOPIC_BYTES} bytes are the most in one request; make several");
            return Err(errors::too_many_topics(&limit));
        }
        let user = fair::user();
        let number = subscriptions.listened.take(user.clone(), names.len());
        let number = number.ok_or_else(|| errors::too_many_topics(TOO_MUCH))?;
        let mut memory = Reservation::of_user(user);
        match memory.reserve(names.len() * TOPIC_OVERHEAD + 3 * bytes).await {
            true => Ok(Self { _number: number, _bytes: memory }),
            false => Err(errors::too_many_topics(TOO_MUCH)),
        }
    }
}

/// Returns the tasks of a filter: the id that clients of a connection see, and the one that this client knows. An id that
/// was not sealed for the caller is left out.
fn task_ids_of(invocation: &Invocation, filter: &Object) -> Vec<(String, String)> {
    let known = strings(filter, "taskIds").into_iter();
    known.filter_map(|id| Some((invocation.context.requester.task_id(&id)?, id))).collect()
}

/// The resources and tasks of a filter.
struct Wanted {
    /// Those whose group is known, by group.
    by_group: BTreeMap<GroupName, Vec<WantedTopic>>,
    /// The URIs that several groups may have, each with these groups.
    unlisted: Vec<(String, Vec<Candidate>)>,
}

impl Wanted {
    /// Finds the groups. Waits for groups that connect for the first time, if a URI has no known owner. Malformed task
    /// ids are left out.
    async fn of(invocation: &Invocation, filter: &Object) -> Self {
        let mut wanted = Self { by_group: BTreeMap::new(), unlisted: Vec::new() };
        let uris = strings(filter, "resourceSubscriptions");
        for (known_as, mut candidates) in uri_lookup::candidates_of_all(invocation, uris).await {
            match candidates.pop() {
                Some(Candidate { group, uri, .. }) if candidates.is_empty() => {
                    let topics = wanted.by_group.entry(group.name.clone()).or_default();
                    topics.push((Topic::Resource(uri.into()), known_as));
                }
                last => {
                    candidates.extend(last);
                    wanted.unlisted.push((known_as, candidates));
                }
            }
        }
        for (exposed_id, known_as) in task_ids_of(invocation, filter) {
            let Some((group, id)) = task_ids::parse(&exposed_id) else { continue };
            let (group, topic) = (GroupName::new(&group), Topic::Task(id.into()));
            wanted.by_group.entry(group).or_default().push((topic, known_as));
        }
        wanted
    }
}

/// Holds an unlisted resource at the first group whose server accepts it. Searches for `ACKNOWLEDGE_TIMEOUT` at most.
async fn hold_first(
    subscriptions: &Arc<Subscriptions>,
    invocation: &Invocation,
    known_as: String,
    candidates: Vec<Candidate>,
    holder: Holder,
) -> Option<(TopicGuard, Vec<WantedTopic>)> {
    let search = async {
        for Candidate { group, uri, .. } in candidates {
            let wanted = vec![(Topic::Resource(uri.into()), known_as.clone())];
            let held = hold(subscriptions, invocation, group.name.clone(), wanted, holder).await;
            if let Some((guard, accepted)) = held
                && !accepted.is_empty()
            {
                return Some((guard, accepted));
            }
        }
        None
    };
    timeout(ACKNOWLEDGE_TIMEOUT, search).await.ok().flatten()
}

/// Holds the topics of one group, and returns those that its server accepted. The guard holds the others too. `None` if
/// there is no such group, it could not be connected, or it takes longer than `ACKNOWLEDGE_TIMEOUT`; nothing is held
/// then.
async fn hold(
    subscriptions: &Arc<Subscriptions>,
    invocation: &Invocation,
    group: GroupName,
    wanted: Vec<WantedTopic>,
    holder: Holder,
) -> Option<(TopicGuard, Vec<WantedTopic>)> {
    let group = invocation.groups().get(&group)?;
    let topics = wanted.iter().map(|(topic, _)| topic.clone()).collect();
    let progress = invocation.context.progress.as_ref();
    let holding = subscriptions.hold(&group, topics, holder, None, progress);
    let (guard, replies) = timeout(ACKNOWLEDGE_TIMEOUT, holding).await.ok()?.ok()?;
    let accepted = wanted.into_iter().zip(replies).filter(|(_, reply)| reply.is_ok());
    Some((guard, accepted.map(|(wanted, _)| wanted).collect()))
}

/// Removes the listener, and releases its topics, when the request ends.
struct ListenerGuard {
    /// The client of the listener.
    client: Arc<Client>,
    /// The number of the listener.
    holder: Holder,
    /// The topics that it holds.
    topics: Vec<TopicGuard>,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.client.notifications.remove_listener(self.holder.number());
    }
}
