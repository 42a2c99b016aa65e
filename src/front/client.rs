//! The client: what it declares, what it is told, and how upstreams ask it for input.
//!
//! # Theory of operation
//!
//! A client of the handshake era gets every notification once its handshake is over, and takes requests. A stateless
//! client gets what it asked for: log messages while a request that wants them is open, and what its subscriptions are
//! about. It is asked for input through the answers to its own calls.
//!
//! Upstreams know the client as a [`FrontClient`](front_client::FrontClient). `client_requests` sends a request of an
//! upstream to the client, at most a few questions of one group at a time (`question_limit`). A client of the handshake
//! era gets it as a request. For a stateless client, `input_channels` finds the open call that the request belongs to,
//! and `suspended_calls` answers that call with `input_required` and continues it when the client sends it again.
//! `input_required` is the reverse: it puts the questions of a stateless server to a client of the handshake era.
//!
//! `attribution` says in each question and notification which group it comes from, and `era_bridge` adapts the replies of
//! servers to the client's era.

use crate::config::GroupName;
use crate::upstream::clients::{LogLevel, log_params};
use attribution::Attribution;
use input_channels::InputChannels;
use listener::{Listener, SubscribedUris, with_uri};
use log_level::{check_log_level, is_severe_enough};
use parking_lot::Mutex;
use question_limit::QuestionLimit;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use wire::peer::Peer;
use wire::protocol::methods::notification;
use wire::protocol::{EXTENSIONS_OF_OUR_OWN, UI_EXTENSION, capability};
use wire::{Raw, raw};

pub mod attribution;
pub mod client_requests;
pub mod era_bridge;
pub mod front_client;
pub mod input_channels;
pub mod input_required;
pub mod listener;
pub mod log_level;
pub mod question_limit;
pub mod suspended_calls;

/// How many notifications are kept for a client whose handshake is not over. Further ones are dropped.
const MAX_DEFERRED: usize = 256;
/// How many tasks of one client are remembered. The oldest are forgotten.
const MAX_TASKS: usize = 1000;
/// The capabilities of a stateless client that concern upstreams: those through which it can be asked for input, and
/// the extensions.
const STATELESS_CAPABILITIES: [&str; 5] = [
    capability::ELICITATION,
    capability::SAMPLING,
    capability::ROOTS,
    capability::EXTENSIONS,
    capability::EXPERIMENTAL,
];
/// The capabilities of which upstreams are offered each member by itself.
const OFFERED_BY_MEMBER: [&str; 2] = [capability::EXTENSIONS, capability::EXPERIMENTAL];

/// A client that is attached.
pub struct Client {
    /// The connection to the client.
    peer: Arc<Peer>,
    /// Says to the client which group asks or reports something.
    pub attribution: Attribution,
    /// The open calls through which a stateless client can be asked for input.
    pub input_channels: Arc<InputChannels>,
    /// What changes while the client is attached.
    state: Mutex<ClientState>,
    /// Whether apps are among its capabilities, which each call asks for.
    shows_apps: AtomicBool,
    /// The questions that are open to the user.
    pub questions: QuestionLimit,
    /// Called with what upstreams report about tasks.
    task_observer: OnceLock<TaskObserver>,
}

type TaskObserver = Box<dyn Fn(&Raw) + Send + Sync>;

#[derive(Default)]
struct ClientState {
    /// What the client declared with `initialize`. For a stateless client, the union of what its requests declared of
    /// `STATELESS_CAPABILITIES`.
    capabilities: Option<Raw>,
    /// Which notifications of upstreams reach the client.
    delivery: Delivery,
    /// The log level that the client asked for.
    log_level: Option<String>,
    /// The resources that the client subscribed to by `resources/subscribe`.
    subscribed: SubscribedUris,
    /// The open `subscriptions/listen` requests.
    listeners: Vec<Listener>,
    /// The open requests that want log messages of a group, by number.
    log_interests: HashMap<u64, (GroupName, String)>,
    /// The last number that was given to a log interest.
    last_number: u64,
    /// Tasks that the client created for a group, the latest last.
    tasks: VecDeque<(String, GroupName)>,
}

/// Which notifications of upstreams reach the client.
enum Delivery {
    /// None yet, because the handshake is not over. They are kept.
    Deferred(VecDeque<(String, Option<Raw>)>),
    /// All.
    All,
    /// Those that a request of the client asked for (stateless era).
    OnRequest,
}

impl Default for Delivery {
    fn default() -> Self {
        Self::Deferred(VecDeque::new())
    }
}

/// Lets log messages of a group reach the client until it is dropped.
pub struct LogInterest {
    client: Arc<Client>,
    number: u64,
}

impl Drop for LogInterest {
    fn drop(&mut self) {
        self.client.state.lock().log_interests.remove(&self.number);
    }
}

impl Client {
    /// Creates the client behind this peer.
    pub fn new(peer: Arc<Peer>, attribution: Attribution) -> Arc<Self> {
        Arc::new(Self {
            peer,
            attribution,
            input_channels: Arc::default(),
            state: Mutex::default(),
            shows_apps: AtomicBool::new(false),
            questions: QuestionLimit::default(),
            task_observer: OnceLock::new(),
        })
    }

    /// The connection to the client.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Calls `observer` with what upstreams report about tasks, under the ids that the client knows. Only the first
    /// observer counts.
    pub fn observe_tasks(&self, observer: impl Fn(&Raw) + Send + Sync + 'static) {
        drop(self.task_observer.set(Box::new(observer)));
    }

    /// Sets the capabilities that `initialize` declared.
    pub fn initialize(&self, capabilities: Raw) {
        let mut state = self.state.lock();
        self.set_capabilities(&mut state, capabilities);
        state.delivery = Delivery::default();
    }

    /// Adds the capabilities that a stateless request declared. They are ignored once `initialize` was received.
    pub fn add_capabilities(&self, capabilities: &Raw) {
        let mut state = self.state.lock();
        let known = match (&state.capabilities, &state.delivery) {
            (None, _) => Raw::from_static(b"{}"),
            (Some(known), Delivery::OnRequest) => known.clone(),
            (Some(_), _) => return,
        };
        let union =
            STATELESS_CAPABILITIES.iter().fold(known, |known, name| merge(&known, name, capabilities));
        self.set_capabilities(&mut state, union);
        state.delivery = Delivery::OnRequest;
    }

    /// Returns whether the client takes no requests, so that it can only be asked through its own calls.
    pub fn is_stateless(&self) -> bool {
        matches!(self.state.lock().delivery, Delivery::OnRequest)
    }

    /// Ends the handshake: sends the deferred notifications, and all later ones at once.
    pub fn end_handshake(&self) {
        let delivery = std::mem::replace(&mut self.state.lock().delivery, Delivery::All);
        if let Delivery::Deferred(deferred) = delivery {
            for (method, params) in deferred {
                self.peer.notify(&method, params);
            }
        }
    }

    /// Keeps log messages that are less severe than `level` from the client.
    ///
    /// # Errors
    ///
    /// Names the levels if `level` is unknown.
    pub fn set_log_level(&self, level: String) -> Result<(), String> {
        check_log_level(&level)?;
        self.state.lock().log_level = Some(level);
        Ok(())
    }

    /// The log level that the client asked for.
    pub fn log_level(&self) -> Option<String> {
        self.state.lock().log_level.clone()
    }

    /// The client's declaration of a capability.
    pub fn capability(&self, capability: &str) -> Option<Raw> {
        raw::get(self.state.lock().capabilities.as_ref()?, capability)
    }

    /// The members of a capability that a proxy can carry: of `extensions` all but those that are about the proxy itself.
    pub fn carried_members(&self, capability: &str) -> Vec<(String, Raw)> {
        let declared = self.capability(capability).and_then(|value| raw::entries(&value));
        let members = declared.unwrap_or_default().into_iter();
        members.filter(|(key, _)| !EXTENSIONS_OF_OUR_OWN.contains(&key.as_str())).collect()
    }

    /// Returns whether the client declared that it shows apps.
    pub fn shows_apps(&self) -> bool {
        self.shows_apps.load(Ordering::Acquire)
    }

    fn set_capabilities(&self, state: &mut ClientState, capabilities: Raw) {
        let extensions = raw::get(&capabilities, capability::EXTENSIONS);
        let shows_apps = extensions.is_some_and(|all| raw::get(&all, UI_EXTENSION).is_some());
        self.shows_apps.store(shows_apps, Ordering::Release);
        state.capabilities = Some(capabilities);
    }

    /// Returns whether the client declared a capability.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.capability(capability).is_some()
    }

    /// Notes that the client has subscribed to `uri` of `group`, which it knows as `known_as`.
    pub fn add_subscribed(&self, group: &GroupName, uri: &str, known_as: &str) {
        self.state.lock().subscribed.insert(group, uri, known_as);
    }

    /// Notes that the client has ended that subscription.
    pub fn remove_subscribed(&self, group: &GroupName, uri: &str) {
        self.state.lock().subscribed.remove(group, uri);
    }

    /// Returns the group at which the client has subscribed to `known_as`, and the URI there.
    pub fn subscribed_at(&self, known_as: &str) -> Option<(GroupName, String)> {
        self.state.lock().subscribed.find(known_as).cloned()
    }

    /// Lets log messages of `group` from `level` on reach the client while the guard exists.
    pub fn add_log_interest(self: &Arc<Self>, group: &GroupName, level: &str) -> LogInterest {
        let mut state = self.state.lock();
        let number = state.next_number();
        state.log_interests.insert(number, (group.clone(), level.to_owned()));
        LogInterest { client: self.clone(), number }
    }

    /// Notes that the client answered a request of `group` with a task of its own.
    pub fn add_task(&self, id: String, group: &GroupName) {
        let tasks = &mut self.state.lock().tasks;
        tasks.push_back((id, group.clone()));
        let excess = tasks.len().saturating_sub(MAX_TASKS);
        tasks.drain(..excess);
    }

    /// Returns the group for which the client created a task.
    pub fn group_of_task(&self, id: &str) -> Option<GroupName> {
        self.state.lock().tasks.iter().find(|(task, _)| task == id).map(|(_, group)| group.clone())
    }

    /// Adds an open `subscriptions/listen`.
    pub fn add_listener(&self, listener: Listener) {
        self.state.lock().listeners.push(listener);
    }

    /// Sends a listener the notifications that came before its subscription was acknowledged.
    pub fn send_deferred(&self, holder: u64) {
        let mut state = self.state.lock();
        let listener = state.listeners.iter_mut().find(|listener| listener.holder == holder);
        let deferred = listener.and_then(|listener| listener.deferred.take());
        for (method, params) in deferred.into_iter().flatten() {
            self.peer.notify(&method, params);
        }
    }

    /// Removes the listener with this number.
    pub fn remove_listener(&self, holder: u64) {
        self.state.lock().listeners.retain(|listener| listener.holder != holder);
    }

    /// Returns whether there is a listener.
    pub fn has_listeners(&self) -> bool {
        !self.state.lock().listeners.is_empty()
    }

    /// Tells the listeners of a list that it changed.
    pub fn list_changed(&self, method: &'static str) {
        for listener in self.state.lock().listeners.iter_mut().filter(|l| l.lists.contains(method)) {
            listener.notify(&self.peer, method, Raw::from_static(b"{}"));
        }
    }

    /// Passes on a notification of `group` to whom wants it, unless it poses as one of another group.
    pub fn notify_from(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        let named = params.map(|params| self.attribution.notification(group, method, params)).transpose();
        let named = named.inspect_err(|why| tracing::warn!(%group, method, why, "dropped a notification"));
        let Ok(params) = named.as_ref().map(Option::as_ref) else { return };
        let is_about_task = matches!(method, notification::TASKS | notification::TASKS_STATUS);
        if let (true, Some(task), Some(observer)) = (is_about_task, params, self.task_observer.get()) {
            observer(task);
        }
        let mut state = self.state.lock();
        // A client of both eras gets what it asked for in one of them only in that one.
        let is_listened_to = match (method, params) {
            (notification::RESOURCES_UPDATED, Some(params)) => {
                let uri = raw::get_str(params, "uri").unwrap_or_default();
                if state.subscribed.is_of_another(group, &uri) {
                    return tracing::warn!(%group, "dropped an update of a resource of another group");
                }
                let is_wanted = state.resource_updated(&self.peer, group, &uri, params);
                is_wanted && !state.subscribed.contains(group, &uri)
            }
            (notification::TASKS, Some(params)) => state.task_changed(&self.peer, params),
            _ => false,
        };
        let is_log = method == notification::MESSAGE;
        let is_wanted = match state.delivery {
            Delivery::OnRequest => is_log && state.has_log_interest(Some(group), params),
            _ if is_listened_to => false,
            _ => !is_log || is_severe_enough(params, state.log_level.as_deref()),
        };
        if !is_wanted {
            return;
        }
        let params = state.with_alias(group, method, params);
        state.deliver(&self.peer, method, params);
    }

    /// Sends a log message of dynamic-mcp itself, if the client wants it. A stateless client gets it if one of its open
    /// requests wants log messages of the group that it is about, or of any group.
    pub fn log(&self, about: Option<&GroupName>, level: LogLevel, message: &str) {
        let params = log_params(level, message);
        let mut state = self.state.lock();
        let is_wanted = match &state.delivery {
            Delivery::OnRequest => state.has_log_interest(about, Some(&params)),
            _ => is_severe_enough(Some(&params), state.log_level.as_deref()),
        };
        if is_wanted {
            state.deliver(&self.peer, notification::MESSAGE, Some(params));
        }
    }
}

impl ClientState {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Sends a notification, or keeps it until the handshake is over.
    fn deliver(&mut self, peer: &Peer, method: &str, params: Option<Raw>) {
        match &mut self.delivery {
            Delivery::Deferred(deferred) if deferred.len() < MAX_DEFERRED => {
                deferred.push_back((method.to_owned(), params));
            }
            Delivery::Deferred(_) => {}
            Delivery::All | Delivery::OnRequest => peer.notify(method, params),
        }
    }

    /// The params of a notification with the URI that the client knows.
    fn with_alias(&self, group: &GroupName, method: &str, params: Option<&Raw>) -> Option<Raw> {
        let params = params?;
        if method != notification::RESOURCES_UPDATED {
            return Some(params.clone());
        }
        let Some(uri) = raw::get_str(params, "uri") else { return Some(params.clone()) };
        let alias = self.subscribed.alias(group, &uri);
        Some(alias.map_or_else(|| params.clone(), |alias| with_uri(params, alias)))
    }

    /// Tells the listeners that want it that a resource was updated. Returns whether there is one.
    fn resource_updated(&mut self, peer: &Peer, group: &GroupName, uri: &str, params: &Raw) -> bool {
        let mut is_wanted = false;
        for listener in &mut self.listeners {
            if let Some(known_as) = listener.resource(group, uri) {
                is_wanted = true;
                let params = if known_as == uri { params.clone() } else { with_uri(params, &known_as) };
                listener.notify(peer, notification::RESOURCES_UPDATED, params);
            }
        }
        is_wanted
    }

    /// Tells the listeners that want it that a task changed. Returns whether there is one.
    fn task_changed(&mut self, peer: &Peer, params: &Raw) -> bool {
        let id = raw::get_str(params, "taskId").unwrap_or_default();
        let mut is_wanted = false;
        for listener in self.listeners.iter_mut().filter(|listener| listener.tasks.contains(&id)) {
            is_wanted = true;
            listener.notify(peer, notification::TASKS, params.clone());
        }
        is_wanted
    }

    /// Returns whether an open request wants this log message.
    fn has_log_interest(&self, about: Option<&GroupName>, message: Option<&Raw>) -> bool {
        let mut interests =
            self.log_interests.values().filter(|(of, _)| about.is_none_or(|about| of == about));
        interests.any(|(_, level)| is_severe_enough(message, Some(level)))
    }
}

/// Adds to `known` what `declared` has of one capability.
fn merge(known: &Raw, name: &str, declared: &Raw) -> Raw {
    let Some(value) = raw::get(declared, name) else { return known.clone() };
    let modes = raw::entries(&value).unwrap_or_default();
    let before = raw::get(known, name).unwrap_or(Raw::from_static(b"{}"));
    let both = modes.iter().fold(before, |both, (mode, value)| raw::set(&both, mode, value));
    raw::set(known, name, &both)
}
