//! `subscriptions/listen`: what a stateless client wants to hear of, for as long as its request is open.

use super::relay::Asked;
use super::resources;
use super::subscriptions::{Held, Holder, Subscriptions, Topic};
use crate::config::GroupName;
use crate::protocol::meta;
use crate::upstream::audience::client::Client;
use crate::upstream::audience::listener::Listener;
use crate::upstream::task_ids;
use crate::wire::{Raw, Reply, raw};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What may be asked for by a flag, and the notification that it stands for.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

/// URIs and tasks that one request may be about; what is beyond is not honoured.
const MOST: usize = 1000;
/// What can be honoured by then is acknowledged.
const ACKNOWLEDGED: Duration = Duration::from_secs(10);

/// A topic, and how the client calls it.
type Wanted = (Topic, String);

/// Answered when we shut down; dropped when the client cancels it.
pub async fn listen(subscriptions: Arc<Subscriptions>, asked: Asked, id: Raw) -> Reply {
    let wanted = raw::get(&asked.params, "notifications").unwrap_or(Raw::from_static(b"{}"));
    let flag = |name: &str| raw::get(&wanted, name).is_some_and(|flag| &flag[..] == b"true");
    let lists: Vec<_> = LISTS.into_iter().filter(|(name, _)| flag(name)).collect();
    let by_group = find(&asked, &wanted).await;

    let client = subscriptions.client().clone();
    let holder = subscriptions.listener();
    let mut listening = Listening { client, holder, held: Vec::new() };
    let mut resources = HashMap::new();
    for (group, topics) in &by_group {
        for (topic, known_as) in topics {
            if let Topic::Resource(uri) = topic {
                resources.insert((group.clone(), uri.clone()), known_as.clone());
            }
        }
    }
    listening.client.listen(Listener {
        holder: holder.number(),
        id: id.clone(),
        lists: lists.iter().map(|(_, method)| *method).collect(),
        resources,
        tasks: names(&wanted, "taskIds").into_iter().collect(),
        early: Some(Vec::new()),
    });
    let holding =
        by_group.into_iter().map(|(name, topics)| hold(&subscriptions, &asked, name, topics, holder));
    let mut honoured: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (held, topics) in join_all(holding).await.into_iter().flatten() {
        listening.held.push(held);
        for (topic, known_as) in topics {
            honoured.entry(topic.member()).or_default().push(known_as);
        }
    }
    let mut filter = Map::new();
    filter.extend(lists.iter().map(|(name, _)| ((*name).to_owned(), Value::Bool(true))));
    for member in ["resourceSubscriptions", "taskIds"] {
        if raw::get(&wanted, member).is_some() {
            filter.insert(member.to_owned(), json!(honoured.remove(member).unwrap_or_default()));
        }
    }
    let params = Raw::from(json!({ "notifications": filter }).to_string());
    let params = raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &id);
    listening.client.peer().notify("notifications/subscriptions/acknowledged", Some(params));
    listening.client.tell_early(holder.number());

    subscriptions.closed().await;
    Ok(raw::set_in(&Raw::from_static(b"{}"), "_meta", meta::SUBSCRIPTION, &id))
}

fn names(wanted: &Raw, member: &str) -> Vec<String> {
    let given: Option<Vec<String>> =
        raw::get(wanted, member).and_then(|given| serde_json::from_slice(&given).ok());
    given.unwrap_or_default().into_iter().take(MOST).collect()
}

/// What is wanted, by whose it is. What nobody has is left out.
async fn find(asked: &Asked, wanted: &Raw) -> BTreeMap<GroupName, Vec<Wanted>> {
    let mut by_group: BTreeMap<GroupName, Vec<Wanted>> = BTreeMap::new();
    let mut add =
        |group: GroupName, topic, known_as| by_group.entry(group).or_default().push((topic, known_as));
    for (known_as, found) in resources::locate_all(asked, names(wanted, "resourceSubscriptions")).await {
        add(found.0, Topic::Resource(found.1), known_as);
    }
    for known_as in names(wanted, "taskIds") {
        let Some((group, id)) = task_ids::behind(&known_as) else { continue };
        let (group, topic) = (GroupName::new(&group), Topic::Task(id.to_owned()));
        add(group, topic, known_as);
    }
    by_group
}

/// Holds the topics of one group; those that its server honours in time.
async fn hold(
    subscriptions: &Arc<Subscriptions>,
    asked: &Asked,
    group: GroupName,
    wanted: Vec<Wanted>,
    holder: Holder,
) -> Option<(Held, Vec<Wanted>)> {
    let group = asked.groups.get(&group)?;
    let topics = wanted.iter().map(|(topic, _)| topic.clone()).collect();
    let holding = subscriptions.hold(asked, &group, topics, holder, None);
    let (held, replies) = timeout(ACKNOWLEDGED, holding).await.ok()?.ok()?;
    let honoured = wanted.into_iter().zip(replies).filter(|(_, reply)| reply.is_ok());
    Some((held, honoured.map(|(wanted, _)| wanted).collect()))
}

/// Ends with the request.
struct Listening {
    client: Arc<Client>,
    holder: Holder,
    /// Released with it.
    held: Vec<Held>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.client.listens_no_more(self.holder.number());
    }
}
