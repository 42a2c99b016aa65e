//! One client's session: reads its messages, enforces the phases, and routes each request to its handler.
//!
//! # Theory of operation
//!
//! `run` reads one message at a time and never waits for a request: a request becomes a future of its own
//! (`wire::inbound`), so that cancellations and the end of the stream are always seen. `phase` decides whether a method
//! is served in the current phase, `initialize` answers the handshake, and `stateless` handles what each request of the
//! stateless era carries. `dispatch` routes requests to `tools` and `passthrough`. Upstreams reach
//! the client of the session through [`FrontClient`].

use crate::client::Client;
use crate::client::attribution::Attribution;
use crate::errors::{self, RpcError};
use crate::notify::list_changes::{ListChanges, ListContents};
use crate::session::request_span;
use crate::session::requester::PageServices;
use crate::session::requester::{ClientMemory, Requester, SessionState};
use crate::tools::tool_list::ToolList;
use clients::FrontClient;
use dispatch::ServedSurface;
use futures_util::FutureExt;
use phase::{AdvertisedCapabilities, MethodAvailability, PhaseDecision, SessionPhase};
use served_instance::{ServedInstance, SessionOptions};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use upstream::GroupManager;
use upstream::select::until;
use wire::connection::{self, ConnectionHandler};
use wire::inbound::InboundRequests;
use wire::lines::LineReader;
use wire::log_text::LogText;
use wire::params::Params;
use wire::peer::{Incoming, Peer};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{Era, WITH_BATCHES, WITH_TASKS};
use wire::{MessageError, Raw, Request, raw};

pub mod clients;
pub mod dispatch;
pub mod initialize;
pub mod phase;
pub mod served_instance;
pub mod single_request;
pub mod stateless;

/// How long requests are held until `notifications/initialized` comes.
const HOLD_TIMEOUT: Duration = Duration::from_secs(1);
/// How many requests of the client may be open. Further ones are rejected.
const MAX_OPEN_REQUESTS: usize = 4096;
/// How long open calls may take after the shutdown began.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(300);

/// One client's session.
pub struct ClientSession {
    /// The instance that serves the client.
    instance: ServedInstance,
    /// Who makes the requests: the client, as upstreams know it, and what is remembered of it.
    requester: Arc<Requester>,
    /// The connection to the client.
    peer: Arc<Peer>,
    /// The phase of the session.
    phase: SessionPhase,
    /// The capabilities that are advertised.
    advertised: AdvertisedCapabilities,
    /// The requests that are not answered yet.
    requests: InboundRequests,
    /// Requests that wait for `notifications/initialized`.
    held: VecDeque<Request>,
    /// When the held requests are rejected.
    hold_until: Option<Instant>,
    /// The result of `tools/list`.
    tool_list: ToolList,
    /// The lists as the client knows them, once the groups were started.
    list_changes: ListChanges,
    /// Whether the groups have to be started before the next message is read.
    start_due: bool,
    /// Whether the groups were started.
    started: bool,
    /// Whether the client has sent a request.
    was_asked: bool,
    /// Starts the groups, which may have to wait for full mailboxes.
    starting: JoinSet<()>,
}

impl ClientSession {
    /// Creates a session, and makes its client known to the upstreams.
    pub fn new(
        groups: Arc<GroupManager>,
        front_client: &FrontClient,
        peer: Arc<Peer>,
        options: SessionOptions,
        page: Option<PageServices>,
    ) -> Self {
        let session = SessionState::new(&groups, page);
        let instance = ServedInstance::new(groups.clone(), options, Some(session.subscription_order.clone()));
        let client = Client::new(peer.clone(), Attribution::new(&groups));
        front_client.attach(client.clone(), &instance.state);
        let memory = ClientMemory::Session(Box::new(session));
        let tool_list = ToolList::new(&groups, Duration::ZERO);
        Self {
            advertised: initialize::advertised(&groups),
            list_changes: tool_list.changes(&groups, false),
            requester: Arc::new(Requester { instance: instance.state.clone(), client, memory }),
            tool_list,
            instance,
            start_due: false,
            started: false,
            was_asked: false,
            starting: JoinSet::new(),
            requests: InboundRequests::new(peer.clone(), MAX_OPEN_REQUESTS, errors::internal().into()),
            peer,
            phase: SessionPhase::Initialization,
            held: VecDeque::new(),
            hold_until: None,
        }
    }

    fn groups(&self) -> &Arc<GroupManager> {
        self.instance.groups()
    }

    fn client(&self) -> &Arc<Client> {
        &self.requester.client
    }

    /// Serves the client until its stream ends or `stop` resolves. Then it awaits `closing`; meanwhile every new
    /// request is rejected, and open ones get a moment to be answered. Returns whether there was a request, or `stop`
    /// resolved.
    pub async fn run(
        mut self,
        lines: &mut LineReader,
        stop: impl Future<Output = ()>,
        closing: impl Future<Output = ()>,
    ) -> bool {
        let mut reading = true;
        let peer = self.peer.clone();
        tokio::select! {
            biased;
            _ = connection::run(&mut self, &peer, lines) => {}
            () = stop => self.was_asked = true,
        }
        self.phase = SessionPhase::Shutdown;
        self.instance.subscriptions.close();
        self.reject_held(&errors::shutting_down());
        let deadline = Instant::now() + SHUTDOWN_GRACE;
        let mut closing = pin!(closing);
        let mut closed = false;
        while !(closed && self.requests.is_empty()) {
            tokio::select! {
                () = &mut closing, if !closed => closed = true,
                () = self.requests.ended() => {}
                () = sleep_until(deadline), if !self.requests.is_empty() => {
                    self.requests.abandon(&errors::shutting_down().into());
                }
                incoming = self.peer.receive(lines), if reading && self.peer.output().is_ready() => match incoming {
                    Some(incoming) => self.handle_message(incoming, lines),
                    None => reading = false,
                },
            }
        }
        self.was_asked
    }

    fn request(&mut self, request: Request) {
        let _span = request_span::new(&request).entered();
        self.was_asked = true;
        let is_ping = request.method.known() == Some(Method::Ping);
        if !is_ping && self.requests.reject_excess(&request.id, self.held.len()) {
            return;
        }
        if self.phase != SessionPhase::Shutdown && request.era() == Era::Stateless {
            return self.stateless_request(request);
        }
        self.handshake_request(request);
    }

    /// Handles a request of the handshake era.
    fn handshake_request(&mut self, request: Request) {
        let availability = MethodAvailability::in_handshake_era(&request.method, self.advertised);
        match self.phase.decide(availability, self.instance.options.lenient_handshake) {
            PhaseDecision::EndHandshake => {
                self.notification(notification::INITIALIZED, None);
                self.handshake_request(request);
            }
            PhaseDecision::Reject(error) => self.reject(&request.id, &error),
            PhaseDecision::Hold => {
                self.hold_until.get_or_insert_with(|| Instant::now() + HOLD_TIMEOUT);
                self.held.push_back(request);
            }
            PhaseDecision::Serve(method) => self.serve(request, method, Era::Handshake),
        }
    }

    /// Handles a request of the stateless era. `server/discover` starts no groups, because clients probe with it.
    fn stateless_request(&mut self, request: Request) {
        let capabilities = match stateless::check(&request, self.instance.options.latest_revision) {
            Ok(capabilities) => capabilities,
            Err(error) => return self.reject(&request.id, &error),
        };
        match MethodAvailability::in_stateless_era(&request.method, self.advertised) {
            MethodAvailability::Available(method) => {
                if method != Method::ServerDiscover {
                    self.client().add_capabilities(&capabilities);
                    self.advertise_page();
                    self.start_groups();
                }
                self.serve(request, method, Era::Stateless);
            }
            _ => self.reject(&request.id, &errors::unknown_method()),
        }
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match (method, self.phase) {
            (notification::INITIALIZED, SessionPhase::Initialized) => {
                self.phase = SessionPhase::Operation;
                self.client().notifications.end_handshake();
                // A list may have changed before the client could be told.
                if let Some(contents) = self.list_changes.read_now() {
                    self.notify_list_changes(contents);
                }
                self.hold_until = None;
                for request in std::mem::take(&mut self.held) {
                    self.request(request);
                }
            }
            (notification::CANCELLED, _) => {
                if let Some(params) = params {
                    self.cancel(params);
                }
            }
            (notification::ROOTS_LIST_CHANGED, SessionPhase::Operation) => {
                self.notify_groups(method, params.as_ref());
            }
            (notification::TASKS_STATUS, SessionPhase::Operation) => {
                self.notify_group_of_task(method, params.as_ref());
            }
            (method, phase) => tracing::debug!(method, ?phase, "ignored a notification"),
        }
    }

    fn initialize(&mut self, request: &Request) {
        let params = request.params.clone().unwrap_or_else(Params::empty);
        self.client().initialize(raw::get(&params, "capabilities").unwrap_or(Raw::from_static(b"{}")));
        // What is in the cache is part of the answer. The rest can wait until the answer is sent.
        self.groups().restore();
        self.start_due = true;
        self.phase = SessionPhase::Initialized;
        let revision = initialize::negotiate(&params, self.instance.options.latest_revision);
        self.advertised.tasks = revision == WITH_TASKS;
        self.advertise_page();
        let result = initialize::initialize_result(revision, self.groups(), self.advertised);
        self.peer.reply(&request.id, Ok(result));
        initialize::report_problems(self.client(), self.groups());
        if revision == WITH_BATCHES {
            self.peer.accept_batches();
        }
    }

    /// Advertises resources to a client that shows pages, because our own page is one.
    fn advertise_page(&mut self) {
        self.advertised.resources |= self.requester.status_page().is_some();
    }

    /// Starts the groups, the first time that it is called. Returns when they exist, even if some are not told to start
    /// yet.
    fn start_groups(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let groups = self.groups().clone();
        let mut starting = Box::pin(async move { groups.start().await });
        // The first poll creates the groups, which the next request may name.
        if starting.as_mut().now_or_never().is_none() {
            self.starting.spawn(starting);
        }
        self.tool_list = self.instance.tool_list().of_requester(&self.requester);
        self.list_changes = self.tool_list.changes(self.groups(), true);
    }

    /// Serves a request: here if it is about the session itself.
    fn serve(&mut self, mut request: Request, method: Method, era: Era) {
        match method {
            Method::Ping => return self.peer.reply(&request.id, Ok(Raw::from_static(b"{}"))),
            Method::Initialize => return self.initialize(&request),
            Method::ResourcesList | Method::ResourceTemplatesList => {
                self.list_changes.known().resources_asked();
            }
            Method::PromptsList => self.list_changes.known().prompts_asked(),
            _ => {}
        }
        let (tool_list, known) = (&self.tool_list, Some(self.list_changes.known()));
        let surface = ServedSurface { advertised: self.advertised, tool_list, known };
        let mut answer = match self.instance.serve(&self.requester, &mut request, method, era, surface) {
            Ok(answer) => answer,
            Err(error) => return self.reject(&request.id, &error),
        };
        let is_known_here = matches!(method, Method::ServerDiscover | Method::ToolsList);
        match if is_known_here { answer.as_mut().now_or_never() } else { None } {
            Some(reply) => self.peer.reply(&request.id, reply),
            // The groups list much, or the first list waits for start-up discovery.
            None => self.requests.start(request.id, request_span::continued(answer)),
        }
    }

    /// Tells the client which lists changed, if it may be told already.
    fn notify_list_changes(&mut self, contents: ListContents) {
        let is_operating = self.phase == SessionPhase::Operation;
        if !is_operating && !self.client().notifications.has_listeners() {
            return;
        }
        for method in self.list_changes.update(contents) {
            if is_operating {
                self.peer.notify(method, None);
            }
            self.client().notifications.list_changed(method);
        }
    }

    /// Passes a notification about a task of the client to the group for which the task was created, if it is connected.
    fn notify_group_of_task(&self, method: &str, params: Option<&Raw>) {
        let id = params.and_then(|params| raw::get_str(params, "taskId"));
        let group = id.and_then(|id| self.client().group_of_task(&id));
        let group = group.and_then(|group| self.groups().get(&group));
        if let Some(lease) = group.and_then(|group| group.try_lease()) {
            lease.peer().notify(method, params.cloned());
        }
    }

    /// Passes a notification to every connected group of the handshake era.
    fn notify_groups(&self, method: &str, params: Option<&Raw>) {
        for group in self.groups().all() {
            if let Some(lease) = group.try_lease().filter(|lease| lease.era() == Era::Handshake) {
                lease.peer().notify(method, params.cloned());
            }
        }
    }

    /// Drops the request that a `notifications/cancelled` names.
    fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let held = self.held.len();
        self.held.retain(|request| request.id != id);
        if self.held.len() < held {
            self.peer.forget(&id);
        }
        self.requests.cancel(params);
    }

    fn reject_held(&mut self, error: &RpcError) {
        for request in std::mem::take(&mut self.held) {
            self.reject(&request.id, error);
        }
    }

    fn reject(&self, id: &Raw, error: &RpcError) {
        self.peer.reply(id, Err(error.clone().into()));
    }
}

impl ConnectionHandler for ClientSession {
    async fn ready(&mut self, lines: &mut LineReader) -> bool {
        if !connection::ready_or_ended(self.peer.output(), lines).await {
            return false;
        }
        if std::mem::take(&mut self.start_due) {
            // The writer gets the answer to `initialize` first.
            tokio::task::yield_now().await;
            self.start_groups();
        }
        true
    }

    async fn wait_for<T: Send>(&mut self, message: impl Future<Output = T> + Send) -> Option<T> {
        let hold_until = self.hold_until;
        tokio::select! {
            biased;
            () = self.requests.serve() => {}
            message = message => return Some(message),
            () = until(hold_until) => {
                self.hold_until = None;
                self.reject_held(&errors::not_initialized());
            }
            contents = self.list_changes.changed() => self.notify_list_changes(contents),
        }
        None
    }

    fn handle_message(&mut self, incoming: Incoming, _: &mut LineReader) {
        match incoming {
            Incoming::Request(request) => self.request(request),
            Incoming::Notification { method, params } => self.notification(&method, params),
            Incoming::Handled | Incoming::Unmatched { .. } => {}
            Incoming::Malformed(error, line) => {
                tracing::warn!(?error, line = %LogText(&line), "the client sent a line that is not a message");
                let id = match &error {
                    MessageError::NotAMessage { id }
                    | MessageError::TooLong { id, .. }
                    | MessageError::OverBudget { id, .. } => id.clone(),
                    _ => None,
                };
                let id = id.unwrap_or(Raw::from_static(b"null"));
                self.peer.answer_malformed(&id, errors::malformed(&error).into());
            }
        }
    }

    fn is_ready(&self) -> bool {
        !self.start_due && self.peer.output().is_ready()
    }
}
