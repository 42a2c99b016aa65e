//! The client: what it declares, what it is told, and how upstreams ask it for input.
//!
//! # Theory of operation
//!
//! A client of the handshake era gets every notification once its handshake is over, and takes requests. A stateless
//! client gets what it asked for: log messages while a request that wants them is open, and what its subscriptions are
//! about. It is asked for input through the answers to its own calls.
//!
//! `capabilities` keeps what the client declared. `notifications` decides which notifications of upstreams reach it,
//! and has its open subscriptions.
//!
//! `client_requests` sends a request of an upstream to the client; of the questions that its user has to answer, only a
//! few of one group are open at a time (`question_limit`). A client of the handshake era gets a request. For a stateless
//! client, `input_channels` finds the open call that the request belongs to, and `suspended_calls` answers that call with
//! `input_required` and continues it when the client sends it again.
//!
//! The client knows only the proxy, so `attribution` names the group in each question and notification.

use attribution::Attribution;
use capabilities::ClientCapabilities;
use config::GroupName;
use input_channels::InputChannels;
use notifications::Notifications;
use parking_lot::Mutex;
use question_limit::QuestionLimit;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Raw;
use wire::peer::Peer;

pub mod attribution;
pub mod capabilities;
pub mod client_requests;
pub mod input_channels;
pub mod notifications;
pub mod question_limit;
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
