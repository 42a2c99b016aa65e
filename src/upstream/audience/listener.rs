//! An open `subscriptions/listen` of a client, and what it is told.

use crate::config::GroupName;
use crate::protocol::meta;
use crate::wire::peer::Peer;
use crate::wire::{Raw, raw};
use std::collections::{HashMap, HashSet};

/// Messages for a client that was not told yet that it is subscribed.
const EARLY: usize = 256;

/// An open `subscriptions/listen`.
#[derive(Default)]
pub struct Listener {
    /// Tells it from others; ids of requests may come again.
    pub holder: u64,
    /// The id of the request.
    pub id: Raw,
    /// Notifications of lists that change.
    pub lists: HashSet<&'static str>,
    /// Resources, each with the URI under which the client knows it.
    pub resources: HashMap<(GroupName, String), String>,
    /// Tasks, by the ids that the client knows.
    pub tasks: HashSet<String>,
    /// What came before the client was told that it is subscribed.
    pub early: Option<Vec<(String, Option<Raw>)>>,
}

impl Listener {
    /// How the client calls a resource that it listens to, or one below such a resource.
    pub(super) fn resource(&self, group: &GroupName, uri: &str) -> Option<String> {
        if let Some(known_as) = self.resources.get(&(group.clone(), uri.to_owned())) {
            return Some(known_as.clone());
        }
        self.resources.iter().filter(|((of, _), _)| of == group).find_map(|((_, above), known_as)| {
            let below = uri.strip_prefix(above.as_str())?;
            // Under a URI of ours the rest would have to be encoded as well.
            let is_below = below.starts_with('/') || above.ends_with('/');
            (is_below && known_as == above).then(|| uri.to_owned())
        })
    }

    pub(super) fn tell(&mut self, peer: &Peer, method: &str, params: Raw) {
        let params = Some(raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &self.id));
        match &mut self.early {
            Some(early) if early.len() < EARLY => early.push((method.to_owned(), params)),
            Some(_) => {}
            None => peer.notify(method, params),
        }
    }
}

/// The params of a notification about a resource, under another URI.
pub(super) fn with_uri(params: &Raw, uri: &str) -> Raw {
    raw::set(params, "uri", serde_json::Value::from(uri).to_string().as_bytes())
}
