//! `subscriptions/listen`: what a stateless client wants to hear of, for as long as its request is open.

use super::relay::Asked;
use super::resources;
use super::subscriptions::{Subscriptions, Topic};
use crate::config::GroupName;
use crate::protocol::meta;
use crate::upstream::audience::client::{Client, Listener};
use crate::upstream::{Upstream, task_ids};
use crate::wire::{Raw, Reply, raw};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// What may be asked for by a flag, and the notification that it stands for.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];

/// Answered when we shut down; dropped when the client cancels it.
pub async fn listen(subscriptions: Arc<Subscriptions>, asked: Asked, id: Raw) -> Reply {
    let wanted = raw::get(&asked.params, "notifications").unwrap_or(Raw::from_static(b"{}"));
    let flag = |name: &str| raw::get(&wanted, name).is_some_and(|flag| &flag[..] == b"true");
    let lists: Vec<_> = LISTS.into_iter().filter(|(name, _)| flag(name)).collect();
    let names = |member: &str| -> Vec<String> {
        let given = raw::get(&wanted, member);
        given.and_then(|given| serde_json::from_slice(&given).ok()).unwrap_or_default()
    };
    let found = join_all(names("resourceSubscriptions").into_iter().map(|uri| find(&asked, uri))).await;
    let found: Vec<_> = found.into_iter().flatten().collect();

    let client = subscriptions.client().clone();
    let resources: HashMap<_, _> =
        found.iter().map(|(uri, group, there)| ((group.name.clone(), there.clone()), uri.clone())).collect();
    client.listen(Listener {
        id: id.clone(),
        lists: lists.iter().map(|(_, method)| *method).collect(),
        resources,
        tasks: names("taskIds").into_iter().collect(),
        early: Some(Vec::new()),
    });
    let mut listening =
        Listening { client, subscriptions: subscriptions.clone(), id: id.clone(), held: Vec::new() };
    let mut honoured = Map::new();
    honoured.extend(lists.iter().map(|(name, _)| ((*name).to_owned(), Value::Bool(true))));
    let mut heard = Vec::new();
    for (uri, group, there) in found {
        let topic = Topic::Resource(there);
        if subscriptions.subscribe_for(&asked, &group, &topic, &id).await {
            listening.held.push((group.name.clone(), topic));
            heard.push(Value::from(uri));
        }
    }
    if raw::get(&wanted, "resourceSubscriptions").is_some() {
        honoured.insert("resourceSubscriptions".to_owned(), Value::Array(heard));
    }
    if raw::get(&wanted, "taskIds").is_some() {
        let mut heard = Vec::new();
        for known_as in names("taskIds") {
            let Some((group, id)) = task_ids::behind(&known_as) else { continue };
            let Some(group) = asked.groups.named(&group) else { continue };
            let topic = Topic::Task(id.to_owned());
            if subscriptions.subscribe_for(&asked, &group, &topic, &listening.id).await {
                listening.held.push((group.name.clone(), topic));
                heard.push(Value::from(known_as));
            }
        }
        honoured.insert("taskIds".to_owned(), Value::Array(heard));
    }
    let params = Raw::from(json!({ "notifications": honoured }).to_string());
    let params = raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &id);
    listening.client.peer().notify("notifications/subscriptions/acknowledged", Some(params));
    listening.client.hears(&id);

    subscriptions.closed().await;
    Ok(raw::set_in(&Raw::from_static(b"{}"), "_meta", meta::SUBSCRIPTION, &id))
}

/// The group of a URI, and the URI there.
async fn find(asked: &Asked, uri: String) -> Option<(String, Upstream, String)> {
    let (group, there) = resources::locate(asked, &uri).await.ok()??;
    Some((uri, group, there))
}

/// Ends with the request.
struct Listening {
    client: Arc<Client>,
    subscriptions: Arc<Subscriptions>,
    id: Raw,
    held: Vec<(GroupName, Topic)>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.client.listens_no_more(&self.id);
        for (group, topic) in &self.held {
            self.subscriptions.release(group, topic, &self.id);
        }
    }
}
