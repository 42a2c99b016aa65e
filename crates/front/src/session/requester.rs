//! Who makes a request: a client with what it declared, and where it is remembered until its next request. A connection has
//! one requester for all of its requests. A request over HTTP has one of its own, because the next one may reach another
//! process: such a client carries everything itself.

use super::caller::Caller;
use super::open_tasks::OpenTasks;
use super::page_tokens::PageTokens;
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

/// Runs a command of this program on the config files of this instance, for a button of the status page.
pub type OwnCommands = Arc<dyn Fn(OwnCommand) -> BoxFuture<'static, CommandOutput> + Send + Sync>;

/// A command of this program.
pub struct OwnCommand {
    /// Its arguments, the command's name first.
    pub args: Vec<String>,
    /// What it reads from stdin. It may be a secret.
    pub input: Option<String>,
}

impl OwnCommand {
    /// Creates a command without input.
    pub(crate) fn new(args: &[&str]) -> Self {
        Self { args: args.iter().map(|&arg| arg.to_owned()).collect(), input: None }
    }
}

/// What a command has printed.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// On stdout.
    pub stdout: String,
    /// On stderr.
    pub stderr: String,
    /// Whether it succeeded.
    pub is_success: bool,
}

/// What the status page needs of the instance.
#[derive(Clone)]
pub struct PageServices {
    /// Give it its data.
    pub reports: InstanceReports,
    /// Do what its buttons say.
    pub commands: OwnCommands,
}

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
    /// What the status page needs. `None`: this client has no page, whatever it declares.
    page: Option<PageServices>,
    /// The tokens of the status page.
    pub(crate) page_tokens: PageTokens,
    /// Which groups named the URIs in results.
    pub(crate) uri_origins: Mutex<Origins>,
    /// The results that are read in parts.
    pub results: ResultStore,
    /// Which subscriptions were sent, so that no later request overtakes them.
    pub(crate) subscription_order: Arc<SubscriptionOrder>,
}

impl SessionState {
    /// Creates the state of a client that has just connected. Without what the status page needs, there is no page.
    pub fn new(groups: &GroupManager, page: Option<PageServices>) -> Self {
        Self {
            page,
            page_tokens: PageTokens::default(),
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

    /// Returns what the status page needs, if the client has the page. Only this decides who has it.
    pub(crate) fn status_page(&self) -> Option<&PageServices> {
        self.page_services().filter(|_| self.client.capabilities.shows_pages())
    }

    /// Returns what the status page needs, whether or not the client shows pages.
    pub(crate) fn page_services(&self) -> Option<&PageServices> {
        self.session()?.page.as_ref()
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
