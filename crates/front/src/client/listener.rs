//! An open `subscriptions/listen` of a client (2026-07-28), and the notifications that it gets.

use config::GroupName;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::peer::Peer;
use wire::protocol::meta;
use wire::{Raw, raw};

/// How many notifications are kept for a subscription that is not acknowledged. Further ones are dropped.
const MAX_DEFERRED: usize = 256;

/// An open `subscriptions/listen`.
#[derive(Default)]
pub struct Listener {
    /// The number that identifies it, because clients may reuse a request id.
    pub holder: u64,
    /// The id of the request.
    pub id: Raw,
    /// The list notifications that it wants.
    pub lists: HashSet<&'static str>,
    /// The resources that it wants, by group and URI, each with the URI that the client knows.
    pub resources: HashMap<(GroupName, Arc<str>), String>,
    /// The tasks that it wants, by their ids, each with the id that the client knows.
    pub tasks: HashMap<String, String>,
    /// The notifications that came before the subscription was acknowledged; `None` afterwards.
    pub deferred: Option<Vec<(String, Option<Raw>)>>,
}

/// The resources that a client subscribed to by `resources/subscribe`: its own URIs, by group and the group's URI.
#[derive(Default)]
pub(super) struct SubscribedUris(pub(super) HashMap<(GroupName, String), String>);

impl SubscribedUris {
    /// Returns the client's URI of a resource, if that is another one.
    pub(super) fn alias(&self, group: &GroupName, uri: &str) -> Option<&String> {
        self.0.get(&(group.clone(), uri.to_owned())).filter(|alias| **alias != uri)
    }

    /// Returns whether the client has subscribed to the resource, or to one above it.
    pub(super) fn contains(&self, group: &GroupName, uri: &str) -> bool {
        self.0.keys().any(|(of, above)| of == group && is_at_or_below(uri, above))
    }

    /// Returns whether the client would take an update of `uri` by `group` for one of another group: only there has it
    /// subscribed to this URI.
    pub(super) fn is_of_another(&self, group: &GroupName, uri: &str) -> bool {
        let mut others = self.0.iter().filter(|((of, _), _)| of != group);
        others.any(|(_, known_as)| is_at_or_below(uri, known_as)) && !self.contains(group, uri)
    }
}

impl Listener {
    /// Returns the client's URI for a resource, if the listener wants that resource or one above it.
    pub(super) fn resource(&self, group: &GroupName, uri: &str) -> Option<String> {
        if let Some(known_as) = self.resources.get(&(group.clone(), uri.into())) {
            return Some(known_as.clone());
        }
        self.resources.iter().filter(|((of, _), _)| of == group).find_map(|((_, above), known_as)| {
            // Below a rewritten URI, the rest would have to be encoded as well.
            (is_at_or_below(uri, above) && **known_as == **above).then(|| uri.to_owned())
        })
    }

    /// Sends a notification under the subscription's id, or keeps it until the subscription is acknowledged. Drops it
    /// if too many are kept.
    pub(super) fn notify(&mut self, peer: &Peer, method: &str, params: Raw) {
        let params = Some(raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &self.id));
        match &mut self.deferred {
            Some(deferred) if deferred.len() < MAX_DEFERRED => deferred.push((method.to_owned(), params)),
            Some(_) => {}
            None => peer.notify(method, params),
        }
    }
}

/// Returns whether `uri` is `above` or a part of it.
pub(super) fn is_at_or_below(uri: &str, above: &str) -> bool {
    let rest = uri.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.ends_with('/'))
}
