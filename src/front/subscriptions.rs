//! Subscriptions to resources that outlive connections: a group that has any is kept connected, and whoever lost its
//! connection gets them back with the next one.

use super::reach;
use super::relay::{Asked, Passed, pass};
use super::{errors, resources};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::upstream::audience::Client;
use crate::upstream::{Lease, Upstream};
use crate::wire::peer::CallOptions;
use crate::wire::{Raw, Reply, raw};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Before a group that could not be connected is tried again; each try is a whole round.
const AGAIN: Duration = Duration::from_secs(5);
/// For one subscription that is given back.
const ANSWER: Duration = Duration::from_secs(10);

/// The subscriptions of one client.
pub struct Subscriptions {
    groups: Arc<GroupManager>,
    client: Arc<Client>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The URIs of each group, told to the task that keeps them.
    uris: HashMap<GroupName, watch::Sender<BTreeSet<String>>>,
    keepers: JoinSet<()>,
}

impl Subscriptions {
    pub fn new(groups: Arc<GroupManager>, client: Arc<Client>) -> Arc<Self> {
        Arc::new(Self { groups, client, kept: Mutex::default() })
    }

    pub async fn subscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let (group, uri) = target(&asked).await?;
        let reply = self.pass(&asked, &group, "resources/subscribe", &uri).await?;
        let known_as = asked.text("uri")?;
        self.client.alias(&group.name, &uri, &known_as);
        let mut kept = self.kept();
        let uris = kept.uris.get(&group.name).filter(|uris| !uris.is_closed()).cloned();
        match uris {
            Some(uris) => uris.send_modify(|uris| {
                uris.insert(uri);
            }),
            None => {
                let (sender, uris) = watch::channel(BTreeSet::from([uri]));
                // On the connection on which it was just made, if that is still there.
                let lease = group.try_lease();
                kept.keepers.spawn(keep(self.groups.clone(), group.clone(), uris, lease));
                kept.uris.insert(group.name.clone(), sender);
            }
        }
        Ok(reply)
    }

    pub async fn unsubscribe(self: Arc<Self>, asked: Asked) -> Reply {
        let (group, uri) = target(&asked).await?;
        if let Some(uris) = self.kept().uris.get(&group.name) {
            uris.send_modify(|uris| {
                uris.remove(&uri);
            });
        }
        self.pass(&asked, &group, "resources/unsubscribe", &uri).await
    }

    async fn pass(&self, asked: &Asked, group: &Upstream, method: &str, uri: &str) -> Reply {
        let uri = serde_json::Value::from(uri).to_string();
        let params = raw::set(&asked.without_group(), "uri", uri.as_bytes());
        pass(asked, group, Passed { method, capability: "resources", params }).await
    }

    /// No code that can panic runs under this lock.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn target(asked: &Asked) -> Result<(Upstream, String), Raw> {
    let uri = asked.text("uri")?;
    resources::locate(asked, &uri).await?.ok_or_else(|| errors::resource_not_found(&uri).into())
}

/// Holds a lease while there is a subscription, beginning with that of the connection on which the client's own request
/// made it, and makes them all again on every later connection.
async fn keep(
    groups: Arc<GroupManager>,
    mut group: Upstream,
    mut uris: watch::Receiver<BTreeSet<String>>,
    mut held: Option<Lease>,
) {
    while !uris.borrow_and_update().is_empty() {
        let mut again = Vec::new();
        let lease = match held.take() {
            Some(lease) => lease,
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
                again.extend(uris.borrow_and_update().iter().cloned());
                lease
            }
        };
        for uri in again {
            let params = serde_json::json!({ "uri": uri }).to_string().into();
            let outcome =
                lease.peer().call("resources/subscribe", Some(params), CallOptions::within(ANSWER)).await;
            if !matches!(outcome, Ok(Ok(_))) {
                tracing::warn!(group = %group.name, "a subscription could not be made again");
            }
        }
        loop {
            tokio::select! {
                () = lease.ended() => break,
                changed = uris.changed() => {
                    if changed.is_err() || uris.borrow_and_update().is_empty() {
                        return;
                    }
                }
            }
        }
    }
}
