//! One client as upstreams see it: what it can do, what it wants to hear, and under which names it knows things.
//!
//! A client with a handshake hears everything from then on, and takes requests. A stateless one hears what it asked for:
//! log messages while a request that wants them is open, and what its subscriptions are about; it is asked by the answers
//! to its own calls.

use super::listener::{Listener, with_uri};
use crate::config::GroupName;
use crate::wire::peer::Peer;
use crate::wire::{Raw, Reply, raw};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{mpsc, oneshot};

/// Severities of log messages, least first (RFC 5424, as the specification has them).
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// Messages for a client that is not ready for them yet.
const EARLY: usize = 256;

/// Tasks of one client that are remembered.
const TASKS: usize = 1000;

/// What a stateless client can be asked for. Tasks of its own are not of that era.
const ASKED: [&str; 3] = ["elicitation", "sampling", "roots"];

/// A client that is attached.
pub struct Client {
    peer: Arc<Peer>,
    state: Mutex<State>,
    /// Who is told what upstreams say of tasks, beside the client.
    watcher: OnceLock<TaskWatcher>,
}

type TaskWatcher = Box<dyn Fn(&Raw) + Send + Sync>;

#[derive(Default)]
struct State {
    /// What it declared with `initialize`; without a handshake, what any of its requests declared so far of what
    /// upstreams are offered.
    capabilities: Option<Raw>,
    hears: Hears,
    /// The log level it asked for.
    level: Option<String>,
    /// Resources that it knows under another URI than their group does.
    aliases: HashMap<(GroupName, String), String>,
    listeners: Vec<Listener>,
    /// The requests that want to hear log messages of a group, by number.
    wishes: HashMap<u64, (GroupName, String)>,
    last_number: u64,
    /// Its calls that are open at a group and can tell it what the group asks, by number.
    carriers: BTreeMap<u64, (GroupName, Carrier)>,
    /// Tasks that the client made for a group, latest last.
    tasks: VecDeque<(String, GroupName)>,
}

/// What of all that upstreams tell reaches the client.
enum Hears {
    /// Its handshake is not over; what comes before that is sent then.
    Later(VecDeque<(String, Option<Raw>)>),
    All,
    /// It makes no handshake.
    WhatItAskedFor,
}

impl Default for Hears {
    fn default() -> Self {
        Self::Later(VecDeque::new())
    }
}

/// A call whose answer can ask its client.
#[derive(Clone)]
pub struct Carrier {
    /// What the client said with this call that it can do.
    pub capabilities: Raw,
    pub posed: mpsc::Sender<Posed>,
    /// It has asked, and waits for its client to come again.
    pub parked: Arc<AtomicBool>,
}

/// A question that waits for an answer to carry it.
pub struct Posed {
    pub method: String,
    pub params: Option<Raw>,
    pub answer: oneshot::Sender<Reply>,
}

/// A call is open at a group until this is dropped.
pub struct Carrying {
    client: Arc<Client>,
    number: u64,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.client.state.lock().carriers.remove(&self.number);
    }
}

/// Log messages of a group are wanted until this is dropped.
pub struct Wish {
    client: Arc<Client>,
    number: u64,
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.client.state.lock().wishes.remove(&self.number);
    }
}

impl Client {
    pub fn new(peer: Arc<Peer>) -> Arc<Self> {
        Arc::new(Self { peer, state: Mutex::default(), watcher: OnceLock::new() })
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// From now on `watcher` is told what upstreams say of tasks, under the ids that the client knows. There is one.
    pub fn watch_tasks(&self, watcher: impl Fn(&Raw) + Send + Sync + 'static) {
        drop(self.watcher.set(Box::new(watcher)));
    }

    /// What `initialize` said.
    pub fn declared(&self, capabilities: Raw) {
        let mut state = self.state.lock();
        state.capabilities = Some(capabilities);
        state.hears = Hears::default();
    }

    /// What a request said that needs no handshake. Once the client made a handshake, that counts.
    pub fn declared_by_request(&self, capabilities: &Raw) {
        let mut state = self.state.lock();
        let known = match (&state.capabilities, &state.hears) {
            (None, _) => Raw::from_static(b"{}"),
            (Some(known), Hears::WhatItAskedFor) => known.clone(),
            (Some(_), _) => return,
        };
        state.capabilities =
            Some(ASKED.iter().fold(known, |known, name| with_more(&known, name, capabilities)));
        state.hears = Hears::WhatItAskedFor;
    }

    /// Whether it takes no requests, so that its own calls have to tell it what is asked.
    pub fn is_asked_by_answers(&self) -> bool {
        matches!(self.state.lock().hears, Hears::WhatItAskedFor)
    }

    /// A call of the client is open at `group`.
    pub fn carries(self: &Arc<Self>, group: &GroupName, carrier: Carrier) -> Carrying {
        let mut state = self.state.lock();
        let number = state.number();
        state.carriers.insert(number, (group.clone(), carrier));
        Carrying { client: self.clone(), number }
    }

    /// The oldest call at `group` that says that its client can do this; rather one that can ask at once than one that
    /// waits for its client already.
    pub fn carrier(&self, group: &GroupName, capability: &str) -> Option<mpsc::Sender<Posed>> {
        let state = self.state.lock();
        let calls = state.carriers.values().filter(|(of, _)| of == group).map(|(_, carrier)| carrier);
        let able = calls.filter(|carrier| raw::get(&carrier.capabilities, capability).is_some());
        // Of equals the first.
        able.min_by_key(|carrier| carrier.parked.load(Ordering::Relaxed)).map(|carrier| carrier.posed.clone())
    }

    /// The handshake is over: notifications may be sent.
    pub fn end_handshake(&self) {
        let hears = std::mem::replace(&mut self.state.lock().hears, Hears::All);
        if let Hears::Later(early) = hears {
            for (method, params) in early {
                self.peer.notify(&method, params);
            }
        }
    }

    /// From now on, messages less severe than `level` are kept from this client.
    pub fn set_level(&self, level: String) -> Result<(), String> {
        check_level(&level)?;
        self.state.lock().level = Some(level);
        Ok(())
    }

    /// The log level it asked for.
    pub fn level(&self) -> Option<String> {
        self.state.lock().level.clone()
    }

    /// What it declared of a capability.
    pub fn capability(&self, capability: &str) -> Option<Raw> {
        raw::get(self.state.lock().capabilities.as_ref()?, capability)
    }

    pub fn can(&self, capability: &str) -> bool {
        self.capability(capability).is_some()
    }

    /// The client knows `uri` of `group` as `known_as`.
    pub fn alias(&self, group: &GroupName, uri: &str, known_as: &str) {
        let key = (group.clone(), uri.to_owned());
        let aliases = &mut self.state.lock().aliases;
        if uri == known_as {
            aliases.remove(&key);
        } else {
            aliases.insert(key, known_as.to_owned());
        }
    }

    /// A request to `group` wants log messages from `level` on.
    pub fn wants_log(self: &Arc<Self>, group: &GroupName, level: &str) -> Wish {
        let mut state = self.state.lock();
        let number = state.number();
        state.wishes.insert(number, (group.clone(), level.to_owned()));
        Wish { client: self.clone(), number }
    }

    /// The client answered a request of `group` with a task of its own.
    pub fn made_task(&self, id: String, group: &GroupName) {
        let tasks = &mut self.state.lock().tasks;
        tasks.push_back((id, group.clone()));
        let excess = tasks.len().saturating_sub(TASKS);
        tasks.drain(..excess);
    }

    /// The group for which the client made this task.
    pub fn task_of(&self, id: &str) -> Option<GroupName> {
        self.state.lock().tasks.iter().find(|(task, _)| task == id).map(|(_, group)| group.clone())
    }

    /// Adds a listener.
    pub fn listen(&self, listener: Listener) {
        self.state.lock().listeners.push(listener);
    }

    /// The client was told of the subscription: it hears what came meanwhile.
    pub fn tell_early(&self, holder: u64) {
        let mut state = self.state.lock();
        let early = state
            .listeners
            .iter_mut()
            .find(|listener| listener.holder == holder)
            .and_then(|l| l.early.take());
        for (method, params) in early.into_iter().flatten() {
            self.peer.notify(&method, params);
        }
    }

    pub fn listens_no_more(&self, holder: u64) {
        self.state.lock().listeners.retain(|listener| listener.holder != holder);
    }

    /// Whether anybody listens.
    pub fn has_listeners(&self) -> bool {
        !self.state.lock().listeners.is_empty()
    }

    /// Tells those who listen that a list changed.
    pub fn list_changed(&self, method: &'static str) {
        for listener in self.state.lock().listeners.iter_mut().filter(|l| l.lists.contains(method)) {
            listener.tell(&self.peer, method, Raw::from_static(b"{}"));
        }
    }

    /// What `group` has to say, to whom it may concern.
    pub(super) fn tell(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        let of_task = matches!(method, "notifications/tasks" | "notifications/tasks/status");
        if let (true, Some(task), Some(watcher)) = (of_task, params, self.watcher.get()) {
            watcher(task);
        }
        let mut state = self.state.lock();
        match (method, params) {
            ("notifications/resources/updated", Some(params)) => state.updated(&self.peer, group, params),
            ("notifications/tasks", Some(params)) => state.task_changed(&self.peer, params),
            _ => {}
        }
        let passes = match state.hears {
            Hears::WhatItAskedFor => method == "notifications/message" && state.wished(group, params),
            _ => method != "notifications/message" || state.wants(params),
        };
        if !passes {
            return;
        }
        let params = state.translated(group, method, params);
        match &mut state.hears {
            Hears::Later(early) if early.len() < EARLY => early.push_back((method.to_owned(), params)),
            Hears::Later(_) => {}
            Hears::All | Hears::WhatItAskedFor => self.peer.notify(method, params),
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The params of a notification as this client has to read them.
    fn translated(&self, group: &GroupName, method: &str, params: Option<&Raw>) -> Option<Raw> {
        let params = params?;
        if method != "notifications/resources/updated" {
            return Some(params.clone());
        }
        let alias = raw::get_str(params, "uri").and_then(|uri| self.aliases.get(&(group.clone(), uri)));
        Some(alias.map_or_else(|| params.clone(), |alias| with_uri(params, alias)))
    }

    fn updated(&mut self, peer: &Peer, group: &GroupName, params: &Raw) {
        let Some(uri) = raw::get_str(params, "uri") else { return };
        for listener in &mut self.listeners {
            if let Some(known_as) = listener.resource(group, &uri) {
                let params = if known_as == uri { params.clone() } else { with_uri(params, &known_as) };
                listener.tell(peer, "notifications/resources/updated", params);
            }
        }
    }

    fn task_changed(&mut self, peer: &Peer, params: &Raw) {
        let id = raw::get_str(params, "taskId").unwrap_or_default();
        for listener in self.listeners.iter_mut().filter(|listener| listener.tasks.contains(&id)) {
            listener.tell(peer, "notifications/tasks", params.clone());
        }
    }

    /// Whether a log message is as severe as the client asked for. Without a wish, or a level we know, it is.
    fn wants(&self, message: Option<&Raw>) -> bool {
        as_severe(message, self.level.as_deref())
    }

    /// Whether an open request wants to hear this log message.
    fn wished(&self, group: &GroupName, message: Option<&Raw>) -> bool {
        self.wishes.values().any(|(of, level)| of == group && as_severe(message, Some(level)))
    }
}

/// Says which levels there are if `level` is none.
pub fn check_level(level: &str) -> Result<(), String> {
    match LEVELS.contains(&level) {
        true => Ok(()),
        false => Err(format!("unknown log level {level:?}: one of {}", LEVELS.join(", "))),
    }
}

fn as_severe(message: Option<&Raw>, wanted: Option<&str>) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    let has = message.and_then(|params| raw::get_str(params, "level")).and_then(|level| rank(&level));
    has.zip(wanted.and_then(rank)).is_none_or(|(has, wanted)| has >= wanted)
}

/// `known` with what `declared` says of a capability besides.
fn with_more(known: &Raw, name: &str, declared: &Raw) -> Raw {
    let Some(value) = raw::get(declared, name) else { return known.clone() };
    let modes = raw::entries(&value).unwrap_or_default();
    let before = raw::get(known, name).unwrap_or(Raw::from_static(b"{}"));
    let both = modes.iter().fold(before, |both, (mode, value)| raw::set(&both, mode, value));
    raw::set(known, name, &both)
}
