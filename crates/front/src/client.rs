//! The client: what it declares, what it is told, and how upstreams ask it for input.
//!
//! # Theory of operation
//!
//! A client of the handshake era gets every notification once its handshake is over, and takes requests. A stateless
//! client gets what it asked for: log messages while a request that wants them is open, and what its subscriptions are
//! about. It is asked for input through the answers to its own calls.
//!
//! [`ClientCapabilities`] keeps what the client declared. `notifications` decides which notifications of upstreams reach it,
//! and has its open subscriptions.
//!
//! `client_requests` sends a request of an upstream to the client; of the questions that its user has to answer, only a
//! few of one group are open at a time ([`QuestionLimit`]). A client of the handshake era gets a request. For a stateless
//! client, `input_channels` finds the open call that the request belongs to, and `suspended_calls` answers that call with
//! `input_required` and continues it when the client sends it again.
//!
//! The client knows only the proxy, so `attribution` names the group in each question and notification.

use attribution::Attribution;
use config::GroupName;
use input_channels::InputChannels;
use notifications::Notifications;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wire::peer::Peer;
use wire::protocol::{EXTENSIONS_OF_OUR_OWN, Era, PAGE_MIME_TYPE, UI_EXTENSION, capability};
use wire::{Raw, raw};

pub mod attribution;
pub mod client_requests;
pub mod input_channels;
pub mod notifications;
pub mod suspended_calls;

/// How many tasks of one client are remembered. The oldest are forgotten.
const MAX_TASKS: usize = 1000;

/// A client that is attached.
pub struct Client {
    /// The connection to the client.
    peer: Arc<Peer>,
    /// What the client declared.
    pub capabilities: ClientCapabilities,
    /// The notifications that it gets.
    pub notifications: Notifications,
    /// Says to the client which group asks or reports something.
    pub attribution: Attribution,
    /// The open calls through which a stateless client can be asked for input.
    pub(crate) input_channels: InputChannels,
    /// The questions that are open to the user.
    pub questions: QuestionLimit,
    /// Tasks that the client created for a group, the latest last.
    tasks: Mutex<VecDeque<(String, GroupName)>>,
}

impl Client {
    /// Creates the client behind this peer.
    pub fn new(peer: Arc<Peer>, attribution: Attribution) -> Arc<Self> {
        Arc::new(Self {
            capabilities: ClientCapabilities::default(),
            notifications: Notifications::new(peer.clone()),
            peer,
            attribution,
            input_channels: InputChannels::default(),
            questions: QuestionLimit::default(),
            tasks: Mutex::default(),
        })
    }

    /// Returns the connection to the client.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Begins the handshake, with the capabilities that `initialize` declared.
    pub fn initialize(&self, capabilities: Raw) {
        self.capabilities.initialize(capabilities);
        self.notifications.begin_handshake();
    }

    /// Adds the capabilities that a stateless request declared. They are ignored once `initialize` was received.
    pub(crate) fn add_capabilities(&self, capabilities: &Raw) {
        if self.capabilities.add(capabilities) {
            self.notifications.deliver_on_request();
        }
    }

    /// Passes on a notification of `group` if the client wants it. Drops one that poses as one of another group, or
    /// that the client could read in two ways.
    pub(crate) fn notify_from(&self, group: &GroupName, method: &str, params: Option<&Raw>) {
        let named = params.map(|params| self.attribution.notification(group, method, params)).transpose();
        match named {
            Ok(params) => self.notifications.pass_on(group, method, params.as_ref()),
            Err(why) => tracing::warn!(%group, method, why, "dropped a notification"),
        }
    }

    /// Notes that the client answered a request of `group` with a task of its own. The oldest tasks are forgotten if
    /// there are too many.
    pub fn add_task(&self, id: String, group: &GroupName) {
        let mut tasks = self.tasks.lock();
        tasks.push_back((id, group.clone()));
        let excess = tasks.len().saturating_sub(MAX_TASKS);
        tasks.drain(..excess);
    }

    /// Returns the group for which the client created a task. `None` if there is none, or if it is forgotten.
    pub(crate) fn group_of_task(&self, id: &str) -> Option<GroupName> {
        self.tasks.lock().iter().find(|(task, _)| task == id).map(|(_, group)| group.clone())
    }
}

/// How many questions of one group are open to the user at the same time.
pub(crate) const MAX_OPEN_QUESTIONS: usize = 3;
/// How many more of them wait for their turn. Further ones are refused.
const MAX_WAITING: usize = 32;
/// How many may be open or wait.
pub(crate) const MAX_QUESTIONS: usize = MAX_OPEN_QUESTIONS + MAX_WAITING;
/// The longest time that a question waits for its turn, as long as a person has for an answer.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The open and waiting questions of one client.
#[derive(Default)]
pub struct QuestionLimit(Mutex<HashMap<GroupName, Arc<GroupQuestions>>>);

/// The questions of one group.
struct GroupQuestions {
    /// A permit for each question that is open or waits.
    admitted: Arc<Semaphore>,
    /// A permit for each question that is open.
    open: Arc<Semaphore>,
}

impl Default for GroupQuestions {
    fn default() -> Self {
        let admitted = Semaphore::new(MAX_QUESTIONS);
        Self { admitted: Arc::new(admitted), open: Arc::new(Semaphore::new(MAX_OPEN_QUESTIONS)) }
    }
}

/// Keeps the place of an open question until it is dropped: among the open ones, and among the admitted ones.
pub type QuestionPermit = [OwnedSemaphorePermit; 2];

/// Too many questions of a group wait for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyQuestions;

impl QuestionLimit {
    /// Waits until one more question of `group` may be open, for `MAX_WAIT` at most.
    ///
    /// # Errors
    ///
    /// Too many questions of the group wait already, or this one has waited for too long.
    pub async fn acquire(&self, group: &GroupName) -> Result<QuestionPermit, TooManyQuestions> {
        let questions = self.0.lock().entry(group.clone()).or_default().clone();
        let admitted = questions.admitted.clone().try_acquire_owned().map_err(|_| TooManyQuestions)?;
        match timeout(MAX_WAIT, questions.open.clone().acquire_owned()).await {
            Ok(Ok(open)) => Ok([open, admitted]),
            Ok(Err(_)) | Err(_) => Err(TooManyQuestions),
        }
    }
}

/// The largest capabilities of a stateless client that are kept, in bytes: its requests add to them.
const MAX_BYTES: usize = 64 << 10;

/// The capabilities of a stateless client that concern upstreams: those through which it can be asked for input, and
/// the extensions.
const STATELESS_CAPABILITIES: [&str; 5] = [
    capability::ELICITATION,
    capability::SAMPLING,
    capability::ROOTS,
    capability::EXTENSIONS,
    capability::EXPERIMENTAL,
];
/// The capabilities whose members are offered to upstreams one by one.
const OFFERED_BY_MEMBER: [&str; 2] = [capability::EXTENSIONS, capability::EXPERIMENTAL];

/// The capabilities of a client.
#[derive(Default)]
pub struct ClientCapabilities {
    /// What the client declared so far.
    declared: Mutex<DeclaredCapabilities>,
    /// Whether the client declared that it shows apps. Each call asks for this, so it does not take the lock.
    shows_apps: AtomicBool,
    /// Whether the apps that it shows may be pages of HTML.
    shows_pages: AtomicBool,
}

#[derive(Default)]
struct DeclaredCapabilities {
    /// The era in which the client declared them; `None` if it has declared nothing yet.
    era: Option<Era>,
    /// What `initialize` declared. For a stateless client, all of `STATELESS_CAPABILITIES` that any of its requests
    /// declared.
    all: Raw,
}

impl ClientCapabilities {
    /// Sets the capabilities that `initialize` declared.
    pub fn initialize(&self, capabilities: Raw) {
        self.set(&mut self.declared.lock(), Era::Handshake, capabilities);
    }

    /// Adds the capabilities that a stateless request declared. They are ignored once `initialize` was received, and if
    /// there are more than `MAX_BYTES`. Returns whether nothing was declared before.
    pub fn add(&self, capabilities: &Raw) -> bool {
        let mut declared = self.declared.lock();
        let (known, is_first) = match declared.era {
            None => (Raw::from_static(b"{}"), true),
            Some(Era::Stateless) => (declared.all.clone(), false),
            Some(Era::Handshake) => return false,
        };
        let union = match capabilities.len() <= MAX_BYTES {
            true => STATELESS_CAPABILITIES
                .iter()
                .fold(known.clone(), |known, name| merge(&known, name, capabilities)),
            false => known.clone(),
        };
        self.set(&mut declared, Era::Stateless, if union.len() <= MAX_BYTES { union } else { known });
        is_first
    }

    fn set(&self, declared: &mut DeclaredCapabilities, era: Era, all: Raw) {
        let extensions = raw::get(&all, capability::EXTENSIONS);
        let apps = extensions.and_then(|all| raw::get(&all, UI_EXTENSION));
        let types = apps.as_ref().and_then(|apps| raw::get(apps, "mimeTypes"));
        let types: Option<Vec<String>> = types.and_then(|types| serde_json::from_slice(&types).ok());
        let shows_pages = types.is_some_and(|types| types.iter().any(|known| known == PAGE_MIME_TYPE));
        self.shows_apps.store(apps.is_some(), Ordering::Release);
        self.shows_pages.store(shows_pages, Ordering::Release);
        *declared = DeclaredCapabilities { era: Some(era), all };
    }

    /// Returns whether the client takes no requests, so that it can only be asked through its own calls. Returns false
    /// until it has declared something.
    pub fn is_stateless(&self) -> bool {
        self.declared.lock().era == Some(Era::Stateless)
    }

    /// Returns whether the client declared that it shows apps.
    pub(crate) fn shows_apps(&self) -> bool {
        self.shows_apps.load(Ordering::Acquire)
    }

    /// Returns whether the client declared that it shows apps that are pages of HTML.
    pub(crate) fn shows_pages(&self) -> bool {
        self.shows_pages.load(Ordering::Acquire)
    }

    /// Returns the client's declaration of a capability.
    pub fn get(&self, capability: &str) -> Option<Raw> {
        raw::get(&self.declared.lock().all, capability)
    }

    /// Returns what an upstream is offered: the client's declarations of `names`, and its extensions without the ones
    /// about the proxy itself.
    pub fn offered(&self, names: &[&str]) -> Raw {
        let declared = names.iter().filter_map(|name| Some((*name, self.get(name)?)));
        let by_member = OFFERED_BY_MEMBER.iter().filter_map(|name| {
            let members = raw::entries(&self.get(name)?)?;
            let carried =
                members.into_iter().filter(|(key, _)| !EXTENSIONS_OF_OUR_OWN.contains(&key.as_str()));
            let carried: Vec<_> = carried.collect();
            (!carried.is_empty()).then(|| (*name, raw::object(&carried)))
        });
        declared
            .chain(by_member)
            .fold(Raw::from_static(b"{}"), |all, (name, value)| raw::set(&all, name, &value))
    }
}

/// Adds to `known` what `declared` has of one capability.
fn merge(known: &Raw, name: &str, declared: &Raw) -> Raw {
    let Some(value) = raw::get(declared, name) else { return known.clone() };
    let mut both = raw::get(known, name).and_then(|before| raw::entries(&before)).unwrap_or_default();
    both.extend(raw::entries(&value).unwrap_or_default());
    raw::set(known, name, &raw::object(&both))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn three_questions_are_open_some_wait_and_the_rest_are_refused() {
        let (limit, group, other) = (QuestionLimit::default(), GroupName::new("g"), GroupName::new("h"));
        let mut open = Vec::new();
        for _ in 0..MAX_OPEN_QUESTIONS {
            open.push(limit.acquire(&group).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(limit.acquire(&group))).collect();
        assert!(waiting.iter_mut().all(|question| question.now_or_never().is_none()));
        assert_eq!(limit.acquire(&group).await.err(), Some(TooManyQuestions));
        assert!(limit.acquire(&other).await.is_ok(), "each group has its own limit");
        drop(open.pop());
        let next = waiting.remove(0).now_or_never().unwrap().unwrap();
        assert!(waiting.iter_mut().all(|question| question.now_or_never().is_none()), "one after the other");
        // A question that was withdrawn while it waited leaves its place.
        assert!(limit.acquire(&group).now_or_never().is_none());
        drop((next, open, waiting));
        assert!(limit.acquire(&group).await.is_ok());
    }
}

#[cfg(test)]
mod capabilities_tests {
    use super::*;

    #[test]
    fn requests_add_capabilities_until_initialize_declares_them() {
        let (capabilities, raw) = (ClientCapabilities::default(), |text: &'static str| Raw::from(text));
        assert!(capabilities.get("roots").is_none() && !capabilities.is_stateless());
        assert!(capabilities.add(&raw(r#"{"elicitation":{"url":{}},"other":{}}"#)));
        let apps = r#"{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/ui":{},"a/b":{}}}"#;
        let pages =
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        assert!(!capabilities.add(&raw(apps)), "only the first request begins the era");
        assert_eq!(capabilities.get("elicitation").unwrap(), r#"{"url":{},"form":{}}"#);
        assert!(capabilities.get("other").is_none(), "upstreams need not know it");
        assert!(capabilities.is_stateless() && capabilities.shows_apps() && !capabilities.shows_pages());
        capabilities.add(&raw(pages));
        assert!(capabilities.shows_pages());
        capabilities.initialize(raw(r#"{"roots":{},"extensions":{"a/b":{}}}"#));
        assert!(!capabilities.add(&raw(apps)) && !capabilities.shows_apps() && !capabilities.shows_pages());
        assert!(!capabilities.is_stateless());
        assert_eq!(capabilities.offered(&["roots", "sampling"]), r#"{"roots":{},"extensions":{"a/b":{}}}"#);
    }
}
