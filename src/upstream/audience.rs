//! The clients that upstreams speak to: they are asked, told, and waited for when they do not read.

use crate::config::GroupName;
use crate::protocol::code;
use crate::wire::peer::{CallError, CallOptions, Cancelled, Peer, Progress};
use crate::wire::{Raw, Reply, error_object, raw};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A person may have to answer.
const LONGEST_QUESTION: Duration = Duration::from_secs(3600);
/// What we offer upstreams of what a client declares. The rest of it is between the client and us.
const OFFERED: [&str; 3] = ["roots", "sampling", "elicitation"];
/// Severities of log messages, least first (RFC 5424, as the specification has them).
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// Messages for a client that is not ready for them yet.
const EARLY: usize = 256;

/// A client that is attached.
pub struct Client {
    peer: Arc<Peer>,
    /// What it declared with `initialize`.
    capabilities: OnceLock<Raw>,
    /// Its handshake is over.
    ready: AtomicBool,
    /// What came before that; sent then.
    early: Mutex<VecDeque<(String, Option<Raw>)>>,
    /// The log level it asked for.
    level: Mutex<Option<String>>,
    /// Resources that it knows under another URI than their group does.
    aliases: Mutex<HashMap<(GroupName, String), String>>,
}

impl Client {
    pub fn new(peer: Arc<Peer>) -> Arc<Self> {
        Arc::new(Self {
            peer,
            capabilities: OnceLock::new(),
            ready: AtomicBool::new(false),
            early: Mutex::default(),
            level: Mutex::default(),
            aliases: Mutex::default(),
        })
    }

    /// What `initialize` said.
    pub fn declared(&self, capabilities: Raw) {
        drop(self.capabilities.set(capabilities));
    }

    /// The handshake is over: notifications may be sent.
    pub fn is_ready(&self) {
        self.ready.store(true, Ordering::Release);
        for (method, params) in std::mem::take(&mut *lock(&self.early)) {
            self.peer.notify(&method, params);
        }
    }

    /// From now on, messages less severe than `level` are kept from this client.
    pub fn set_level(&self, level: String) -> Result<(), String> {
        if !LEVELS.contains(&level.as_str()) {
            return Err(format!("unknown log level {level:?}: one of {}", LEVELS.join(", ")));
        }
        *lock(&self.level) = Some(level);
        Ok(())
    }

    /// The client knows `uri` of `group` as `known_as`.
    pub fn alias(&self, group: &GroupName, uri: &str, known_as: &str) {
        let key = (group.clone(), uri.to_owned());
        if uri == known_as {
            lock(&self.aliases).remove(&key);
        } else {
            lock(&self.aliases).insert(key, known_as.to_owned());
        }
    }

    /// The params of a notification as this client has to read them.
    fn translated(&self, group: &GroupName, method: &str, params: Option<&Raw>) -> Option<Raw> {
        let params = params?;
        if method != "notifications/resources/updated" {
            return Some(params.clone());
        }
        let aliases = lock(&self.aliases);
        let alias = raw::get_str(params, "uri").and_then(|uri| aliases.get(&(group.clone(), uri)));
        Some(match alias {
            Some(alias) => {
                raw::set(params, "uri", serde_json::Value::from(alias.as_str()).to_string().as_bytes())
            }
            None => params.clone(),
        })
    }

    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.get().is_some_and(|declared| raw::get(declared, capability).is_some())
    }

    fn notify(&self, method: &str, params: Option<Raw>) {
        if method == "notifications/message" && !self.wants(params.as_ref()) {
            return;
        }
        if self.ready.load(Ordering::Acquire) {
            self.peer.notify(method, params);
        } else {
            let mut early = lock(&self.early);
            if early.len() < EARLY {
                early.push_back((method.to_owned(), params));
            }
        }
    }

    /// Whether a log message is as severe as the client asked for. Without a wish, or a level we know, it is.
    fn wants(&self, message: Option<&Raw>) -> bool {
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let wanted = lock(&self.level).as_deref().and_then(rank);
        let has = message.and_then(|params| raw::get_str(params, "level")).and_then(|level| rank(&level));
        has.zip(wanted).is_none_or(|(has, wanted)| has >= wanted)
    }
}

#[derive(Default)]
pub struct Audience(Mutex<Vec<Arc<Client>>>);

/// A request from an upstream.
pub struct Question {
    pub group: String,
    pub method: String,
    pub params: Option<Raw>,
    /// The upstream's own token, and where its progress goes.
    pub progress: Option<Progress>,
    pub cancelled: Cancelled,
}

impl Audience {
    pub fn attach(&self, client: Arc<Client>) {
        lock(&self.0).push(client);
    }

    /// Returns when every client has room for more.
    pub async fn ready(&self) {
        let clients = self.clients();
        for client in clients {
            client.peer.output().ready().await;
        }
    }

    /// What the clients attached now can do for upstreams, as a JSON object.
    pub fn offer(&self) -> Raw {
        let clients = self.clients();
        let Some(client) = clients.first() else { return Raw::from_static(b"{}") };
        let declared = client.capabilities.get();
        OFFERED.iter().fold(Raw::from_static(b"{}"), |offer, capability| {
            match declared.and_then(|declared| raw::get(declared, capability)) {
                Some(value) if clients.iter().all(|client| client.can(capability)) => {
                    raw::set(&offer, capability, &value)
                }
                _ => offer,
            }
        })
    }

    /// The log level to ask upstreams for.
    pub fn level(&self) -> Option<String> {
        self.clients().iter().find_map(|client| lock(&client.level).clone())
    }

    /// Passes a notification of `group` on.
    pub fn notify(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        for client in self.clients() {
            client.notify(method, client.translated(group, method, params));
        }
    }

    /// Asks the client. What it did not declare that it can do is refused here.
    pub async fn ask(&self, question: Question) -> Reply {
        let refuse = || {
            let message = format!("{} is not supported by this client", question.method);
            Err(error_object(code::METHOD_NOT_FOUND, &message, None))
        };
        let capability = match question.method.as_str() {
            "roots/list" => "roots",
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            _ => return refuse(),
        };
        let clients = self.clients();
        // Which of several has the call in flight that this is about is for a second front to say.
        let [client] = &clients[..] else { return refuse() };
        if !client.can(capability) {
            return refuse();
        }
        let params = match question.params {
            Some(params) if capability == "elicitation" => Some(named(&params, &question.group)),
            params => params,
        };
        let options = CallOptions {
            progress: question.progress,
            cancelled: question.cancelled,
            ..CallOptions::within(LONGEST_QUESTION)
        };
        match client.peer.call(&question.method, params, options).await {
            Ok(reply) => reply,
            Err(error @ (CallError::Closed { .. } | CallError::TimedOut(_) | CallError::TooLong { .. })) => {
                Err(error_object(code::INTERNAL_ERROR, &format!("the client gave no answer: {error}"), None))
            }
        }
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.0).clone()
    }
}

/// An elicitation says which server asks (the specification wants clients to show it, and the client knows only us).
fn named(params: &Raw, group: &str) -> Raw {
    match raw::get_str(params, "message") {
        Some(message) => {
            let message = serde_json::Value::from(format!("[{group}] {message}"));
            raw::set(params, "message", message.to_string().as_bytes())
        }
        None => params.clone(),
    }
}

/// No code that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
