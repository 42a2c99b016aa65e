//! The notifications that the client gets: which of them it wants, which are kept until it can take them, and its open
//! subscriptions.

use config::GroupName;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use upstream::clients::{LogLevel, log_params};
use wire::peer::Peer;
use wire::protocol::methods::notification;
use wire::protocol::{LogSeverity, meta};
use wire::{Raw, raw};

/// How many notifications are kept for a client whose handshake is not over, and for a subscription that is not
/// acknowledged. Further ones are dropped.
const MAX_DEFERRED: usize = 256;

/// The notifications that one client gets.
pub struct Notifications {
    /// The connection to the client.
    peer: Arc<Peer>,
    /// What the client asked for.
    wanted: Mutex<WantedNotifications>,
}

#[derive(Default)]
struct WantedNotifications {
    /// Which notifications of upstreams reach the client.
    delivery: Delivery,
    /// The log level that the client set with `logging/setLevel`.
    log_level: Option<String>,
    /// The resources that the client subscribed to by `resources/subscribe`.
    subscribed: SubscribedUris,
    /// The open `subscriptions/listen` requests.
    listeners: Vec<Listener>,
    /// What the open requests want of the log messages of a group.
    log_interests: Vec<Weak<(GroupName, String)>>,
}

/// Which notifications of upstreams reach the client.
enum Delivery {
    /// None yet, because the handshake is not over. They are kept.
    Deferred(Vec<(String, Option<Raw>)>),
    /// All.
    All,
    /// Those that a request of the client asked for (stateless era).
    OnRequest,
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Deferred(Vec::new())
    }
}

/// The group and the level of the log messages that reach the client until it is dropped.
pub(crate) type LogInterest = Arc<(GroupName, String)>;

impl Notifications {
    /// Creates the notifications of the client behind this peer. They are kept until its era is known.
    pub fn new(peer: Arc<Peer>) -> Self {
        Self { peer, wanted: Mutex::default() }
    }

    /// Keeps all notifications until the handshake that begins is over. Drops those that were kept before.
    pub(crate) fn begin_handshake(&self) {
        self.wanted.lock().delivery = Delivery::default();
    }

    /// Ends the handshake: sends the deferred notifications, and all later ones at once.
    pub(crate) fn end_handshake(&self) {
        let delivery = std::mem::replace(&mut self.wanted.lock().delivery, Delivery::All);
        if let Delivery::Deferred(deferred) = delivery {
            for (method, params) in deferred {
                self.peer.notify(&method, params);
            }
        }
    }

    /// Passes on only what a request of the client asks for, because the client is stateless. Drops the notifications
    /// that were kept.
    pub(crate) fn deliver_on_request(&self) {
        self.wanted.lock().delivery = Delivery::OnRequest;
    }

    /// Keeps log messages that are less severe than `level` from the client.
    ///
    /// # Errors
    ///
    /// Names the levels if `level` is unknown.
    pub(crate) fn set_log_level(&self, level: String) -> Result<(), String> {
        check_log_level(&level)?;
        self.wanted.lock().log_level = Some(level);
        Ok(())
    }

    /// Returns the log level that the client asked for.
    pub fn log_level(&self) -> Option<String> {
        self.wanted.lock().log_level.clone()
    }

    /// Lets log messages of `group` from `level` on reach a stateless client as long as what is returned exists.
    pub(crate) fn add_log_interest(&self, group: &GroupName, level: &str) -> LogInterest {
        let interest = Arc::new((group.clone(), level.to_owned()));
        let mut wanted = self.wanted.lock();
        wanted.log_interests.retain(|interest| interest.strong_count() > 0);
        wanted.log_interests.push(Arc::downgrade(&interest));
        interest
    }

    /// Notes that the client has subscribed to `uri` of `group`, which it knows as `known_as`.
    pub(crate) fn add_subscribed(&self, group: &GroupName, uri: &str, known_as: &str) {
        let resource = (group.clone(), uri.to_owned());
        self.wanted.lock().subscribed.0.insert(resource, known_as.to_owned());
    }

    /// Notes that the client has ended that subscription.
    pub(crate) fn remove_subscribed(&self, group: &GroupName, uri: &str) {
        self.wanted.lock().subscribed.0.remove(&(group.clone(), uri.to_owned()));
    }

    /// Returns the group at which the client has subscribed to `known_as`, and the URI there.
    pub(crate) fn subscribed_at(&self, known_as: &str) -> Option<(GroupName, String)> {
        let wanted = self.wanted.lock();
        wanted.subscribed.0.iter().find(|(_, known)| *known == known_as).map(|(resource, _)| resource.clone())
    }

    /// Adds an open `subscriptions/listen`.
    pub(crate) fn add_listener(&self, listener: Listener) {
        self.wanted.lock().listeners.push(listener);
    }

    /// Sends a listener the notifications that came before its subscription was acknowledged. Later ones are sent at
    /// once.
    pub(crate) fn send_deferred(&self, holder: u64) {
        let mut wanted = self.wanted.lock();
        let listener = wanted.listeners.iter_mut().find(|listener| listener.holder == holder);
        let deferred = listener.and_then(|listener| listener.deferred.take());
        for (method, params) in deferred.into_iter().flatten() {
            self.peer.notify(&method, params);
        }
    }

    /// Removes the listener with this number.
    pub(crate) fn remove_listener(&self, holder: u64) {
        self.wanted.lock().listeners.retain(|listener| listener.holder != holder);
    }

    /// Returns whether there is a listener.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.wanted.lock().listeners.is_empty()
    }

    /// Tells the listeners of a list that it changed. `method`: the notification that says so.
    pub fn list_changed(&self, method: &'static str) {
        for listener in self.wanted.lock().listeners.iter_mut().filter(|l| l.lists.contains(method)) {
            listener.notify(&self.peer, method, Raw::from_static(b"{}"));
        }
    }

    /// Passes on a notification of `group` if the client wants it, or keeps it until the handshake is over. Drops an
    /// update that the client would take for one of another group.
    pub fn pass_on(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        let mut wanted = self.wanted.lock();
        // A client that uses both eras gets a notification only in the era in which it asked for it.
        let is_listened_to = match (method, params) {
            (notification::RESOURCES_UPDATED, Some(params)) => {
                let uri = raw::get_str(params, "uri").unwrap_or_default();
                if wanted.subscribed.is_of_another(group, &uri) {
                    return tracing::warn!(%group, "dropped an update of a resource of another group");
                }
                let known_as = |listener: &Listener, uri: &str| listener.resource(group, uri);
                let is_listened_to = wanted.tell_listeners(&self.peer, method, params, known_as);
                is_listened_to && !wanted.subscribed.contains(group, &uri)
            }
            (notification::TASKS, Some(params)) => {
                wanted.tell_listeners(&self.peer, method, params, |listener, id| {
                    listener.tasks.get(id).cloned()
                })
            }
            _ => false,
        };
        let is_wanted = match method {
            notification::MESSAGE => wanted.wants_log(Some(group), params),
            _ => !is_listened_to && !matches!(wanted.delivery, Delivery::OnRequest),
        };
        if is_wanted {
            let params = wanted.with_alias(group, method, params);
            wanted.deliver(&self.peer, method, params);
        }
    }

    /// Sends a log message of dynamic-mcp itself, if the client wants it, or keeps it until the handshake is over. A
    /// stateless client gets it if one of its open requests wants log messages of the group that it is about, or of any
    /// group.
    pub fn log(&self, about: Option<&GroupName>, level: LogLevel, message: &str) {
        let params = log_params(level, message);
        let mut wanted = self.wanted.lock();
        if wanted.wants_log(about, Some(&params)) {
            wanted.deliver(&self.peer, notification::MESSAGE, Some(params));
        }
    }
}

impl WantedNotifications {
    /// Sends a notification, or keeps it until the handshake is over. Drops it if too many are kept.
    fn deliver(&mut self, peer: &Peer, method: &str, params: Option<Raw>) {
        match &mut self.delivery {
            Delivery::Deferred(deferred) if deferred.len() < MAX_DEFERRED => {
                deferred.push((method.to_owned(), params));
            }
            Delivery::Deferred(_) => {}
            Delivery::All | Delivery::OnRequest => peer.notify(method, params),
        }
    }

    /// Returns the params of a notification with the URI that the client knows.
    fn with_alias(&self, group: &GroupName, method: &str, params: Option<&Raw>) -> Option<Raw> {
        let params = params?;
        let is_update = method == notification::RESOURCES_UPDATED;
        let uri = is_update.then(|| raw::get_str(params, "uri")).flatten();
        let alias = uri.and_then(|uri| self.subscribed.alias(group, &uri));
        Some(alias.map_or_else(|| params.clone(), |alias| raw::set_str(params, "uri", alias)))
    }

    /// Tells the listeners that want it what `params` say about the URI or id `known_as` of each. Returns whether there is
    /// one.
    fn tell_listeners(
        &mut self,
        peer: &Peer,
        method: &str,
        params: &Raw,
        known_as: impl Fn(&Listener, &str) -> Option<String>,
    ) -> bool {
        let key = if method == notification::TASKS { "taskId" } else { "uri" };
        let own = raw::get_str(params, key).unwrap_or_default();
        let mut is_wanted = false;
        for listener in &mut self.listeners {
            let Some(known_as) = known_as(listener, &own) else { continue };
            is_wanted = true;
            let params = if known_as == own { params.clone() } else { raw::set_str(params, key, &known_as) };
            listener.notify(peer, method, params);
        }
        is_wanted
    }

    /// Returns whether the client wants this log message. A stateless client does if an open request wants it.
    fn wants_log(&self, about: Option<&GroupName>, message: Option<&Raw>) -> bool {
        match self.delivery {
            Delivery::OnRequest => self.log_interests.iter().filter_map(Weak::upgrade).any(|interest| {
                about.is_none_or(|about| interest.0 == *about) && is_severe_enough(message, Some(&interest.1))
            }),
            _ => is_severe_enough(message, self.log_level.as_deref()),
        }
    }
}

/// Checks that `level` is a log level.
///
/// # Errors
///
/// Names the levels.
pub(crate) fn check_log_level(level: &str) -> Result<(), String> {
    match LogSeverity::parse(level) {
        Some(_) => Ok(()),
        None => Err(format!("unknown log level {level:?}: one of {}", LogSeverity::NAMES.join(", "))),
    }
}

/// Returns whether a log message is at least as severe as `wanted`. It is if either level is missing or unknown.
fn is_severe_enough(message: Option<&Raw>, wanted: Option<&str>) -> bool {
    let has = message.and_then(|params| raw::get_str(params, "level"));
    let has = has.and_then(|level| LogSeverity::parse(&level));
    has.zip(wanted.and_then(LogSeverity::parse)).is_none_or(|(has, wanted)| has >= wanted)
}

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
struct SubscribedUris(HashMap<(GroupName, String), String>);

impl SubscribedUris {
    /// Returns the client's URI of a resource, if that is another one.
    fn alias(&self, group: &GroupName, uri: &str) -> Option<&String> {
        self.0.get(&(group.clone(), uri.to_owned())).filter(|alias| **alias != uri)
    }

    /// Returns whether the client has subscribed to the resource, or to one above it.
    fn contains(&self, group: &GroupName, uri: &str) -> bool {
        self.0.keys().any(|(of, above)| of == group && is_at_or_below(uri, above))
    }

    /// Returns whether the client would take an update of `uri` by `group` for one of another group: only there has it
    /// subscribed to this URI.
    fn is_of_another(&self, group: &GroupName, uri: &str) -> bool {
        let mut others = self.0.iter().filter(|((of, _), _)| of != group);
        others.any(|(_, known_as)| is_at_or_below(uri, known_as)) && !self.contains(group, uri)
    }
}

impl Listener {
    /// Returns the client's URI for a resource, if the listener wants that resource or one above it.
    fn resource(&self, group: &GroupName, uri: &str) -> Option<String> {
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
    fn notify(&mut self, peer: &Peer, method: &str, params: Raw) {
        let params = Some(raw::set_in(&params, "_meta", meta::SUBSCRIPTION, &self.id));
        match &mut self.deferred {
            Some(deferred) if deferred.len() < MAX_DEFERRED => deferred.push((method.to_owned(), params)),
            Some(_) => {}
            None => peer.notify(method, params),
        }
    }
}

/// Returns whether `uri` is `above` or a part of it.
fn is_at_or_below(uri: &str, above: &str) -> bool {
    let rest = uri.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.ends_with('/'))
}
