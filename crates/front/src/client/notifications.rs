//! The notifications that the client gets: which of them it wants, and which are kept until it can take them.

use super::listener::{Listener, SubscribedUris};
use config::GroupName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use upstream::clients::{LogLevel, log_params};
use wire::peer::Peer;
use wire::protocol::LogSeverity;
use wire::protocol::methods::notification;
use wire::{Raw, raw};

/// How many notifications are kept for a client whose handshake is not over. Further ones are dropped.
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
    /// The open requests that want log messages of a group, by number.
    log_interests: HashMap<u64, (GroupName, String)>,
    /// The last number that was given to a log interest.
    last_number: u64,
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

/// Lets log messages of a group reach the client until it is dropped.
pub(crate) struct LogInterest {
    notifications: Arc<Notifications>,
    number: u64,
}

impl Drop for LogInterest {
    fn drop(&mut self) {
        self.notifications.wanted.lock().log_interests.remove(&self.number);
    }
}

impl Notifications {
    /// Creates the notifications of the client behind this peer. They are kept until its era is known.
    pub fn new(peer: Arc<Peer>) -> Arc<Self> {
        Arc::new(Self { peer, wanted: Mutex::default() })
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

    /// Lets log messages of `group` from `level` on reach a stateless client while the guard exists.
    pub(crate) fn add_log_interest(self: &Arc<Self>, group: &GroupName, level: &str) -> LogInterest {
        let mut wanted = self.wanted.lock();
        wanted.last_number += 1;
        let number = wanted.last_number;
        wanted.log_interests.insert(number, (group.clone(), level.to_owned()));
        LogInterest { notifications: self.clone(), number }
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
                let is_listened_to = wanted.resource_updated(&self.peer, group, &uri, params);
                is_listened_to && !wanted.subscribed.contains(group, &uri)
            }
            (notification::TASKS, Some(params)) => wanted.task_changed(&self.peer, params),
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

    /// Tells the listeners that want it that a resource was updated. Returns whether there is one.
    fn resource_updated(&mut self, peer: &Peer, group: &GroupName, uri: &str, params: &Raw) -> bool {
        let mut is_wanted = false;
        for listener in &mut self.listeners {
            if let Some(known_as) = listener.resource(group, uri) {
                is_wanted = true;
                let params =
                    if known_as == uri { params.clone() } else { raw::set_str(params, "uri", &known_as) };
                listener.notify(peer, notification::RESOURCES_UPDATED, params);
            }
        }
        is_wanted
    }

    /// Tells the listeners that want it that a task changed. Returns whether there is one.
    fn task_changed(&mut self, peer: &Peer, params: &Raw) -> bool {
        let id = raw::get_str(params, "taskId").unwrap_or_default();
        let mut is_wanted = false;
        for listener in &mut self.listeners {
            let Some(known_as) = listener.tasks.get(&id) else { continue };
            is_wanted = true;
            let params =
                if *known_as == id { params.clone() } else { raw::set_str(params, "taskId", known_as) };
            listener.notify(peer, notification::TASKS, params);
        }
        is_wanted
    }

    /// Returns whether the client wants this log message. A stateless client does if an open request wants it.
    fn wants_log(&self, about: Option<&GroupName>, message: Option<&Raw>) -> bool {
        match self.delivery {
            Delivery::OnRequest => self.log_interests.values().any(|(of, level)| {
                about.is_none_or(|about| of == about) && is_severe_enough(message, Some(level))
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
