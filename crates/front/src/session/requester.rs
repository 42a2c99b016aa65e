//! Who makes a request: a client with what it declared, and where it is remembered until its next request. A connection has
//! one requester for all of its requests. A request over HTTP has one of its own, because the next one may reach another
//! process: such a client carries everything itself.

use super::caller::Caller;
use super::open_tasks::OpenTasks;
use super::subscription_order::SubscriptionOrder;
use super::unspent_nonces::UnspentNonces;
use crate::client::Client;
use crate::names::exposed_names::KnownNames;
use crate::names::origins::Origins;
use crate::results::ResultStore;
use futures_util::future::BoxFuture;
use jq::JqRunner;
use parking_lot::Mutex;
use schema::validate::ArgumentValidator;
use serde_json::Value;
use std::sync::Arc;
use upstream::GroupManager;

/// What the requests of all clients of one instance share. It depends on the groups alone.
pub struct InstanceState {
    /// The groups of this instance.
    pub groups: Arc<GroupManager>,
    /// Checks arguments against the schemas of tools.
    pub validator: ArgumentValidator,
    /// Runs the programs of `select`.
    pub jq: JqRunner,
    /// The exposed names of all known tools.
    pub names: KnownNames,
    /// The tasks of clients that still run.
    pub(crate) open_tasks: OpenTasks,
}

impl InstanceState {
    /// Creates the state of an instance with these groups, of which nothing is read yet.
    pub fn new(groups: Arc<GroupManager>) -> Arc<Self> {
        Arc::new(Self {
            groups,
            validator: ArgumentValidator::default(),
            jq: JqRunner::default(),
            names: KnownNames::default(),
            open_tasks: OpenTasks::default(),
        })
    }
}

/// Gives the status page its data: the report of `dynamic-mcp status --json`, restricted to this client. It gets the status
/// of this instance, and whether other instances are in the report, as far as they use servers of this one.
pub type InstanceReports = Arc<dyn Fn(Value, bool) -> BoxFuture<'static, Value> + Send + Sync>;

/// Who makes a request.
pub struct Requester {
    /// What all clients of this instance share.
    pub instance: Arc<InstanceState>,
    /// The client.
    pub client: Arc<Client>,
    /// Where the client is remembered.
    pub memory: ClientMemory,
}

/// Where what a client needs for its later requests is kept.
pub enum ClientMemory {
    /// In this process, until the connection of the client ends.
    Session(Box<SessionState>),
    /// With the client, sealed for its principal.
    Carried(Caller),
}

/// What is remembered of one client with a connection.
pub struct SessionState {
    /// The approvals that a stateless client may still use.
    pub(crate) approval_nonces: UnspentNonces,
    /// Gives the status page its data. `None`: this client has no page, whatever it declares.
    reports: Option<InstanceReports>,
    /// Which groups named the URIs in results.
    pub(crate) uri_origins: Mutex<Origins>,
    /// The results that are read in parts.
    pub results: ResultStore,
    /// Which subscriptions were sent, so that no later request overtakes them.
    pub(crate) subscription_order: Arc<SubscriptionOrder>,
}

impl SessionState {
    /// Creates the state of a client that has just connected. `reports` gives the status page its data; without it there is
    /// no page.
    pub fn new(groups: &GroupManager, reports: Option<InstanceReports>) -> Self {
        Self {
            reports,
            approval_nonces: UnspentNonces::default(),
            uri_origins: Mutex::default(),
            results: ResultStore::new(groups.results_dir()),
            subscription_order: Arc::default(),
        }
    }
}

impl Requester {
    /// Returns the groups of this instance.
    pub fn groups(&self) -> &Arc<GroupManager> {
        &self.instance.groups
    }

    /// Returns what is remembered of the client; `None` if that is carried by the client.
    pub fn session(&self) -> Option<&SessionState> {
        match &self.memory {
            ClientMemory::Session(session) => Some(session),
            ClientMemory::Carried(_) => None,
        }
    }

    /// Returns what gives the status page its data, if the client has the page. Only this decides who has it.
    pub(crate) fn status_page(&self) -> Option<&InstanceReports> {
        let session = self.session().filter(|_| self.client.capabilities.shows_pages())?;
        session.reports.as_ref()
    }

    /// Returns the id of a task as a connection shows it, for the one that this client knows. `None`: it was not sealed
    /// for this client, or has expired.
    pub(crate) fn task_id(&self, known_as: &str) -> Option<String> {
        match &self.memory {
            ClientMemory::Session(_) => Some(known_as.to_owned()),
            ClientMemory::Carried(caller) => caller.open_task(known_as),
        }
    }
}
