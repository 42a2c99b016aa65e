//! One client's session: reads its messages, enforces the phases, and routes each request to its handler.
//!
//! # Theory of operation
//!
//! `run` reads one message at a time and never waits for a request: a request becomes a future of its own
//! (`wire::inbound`), so that cancellations and the end of the stream are always seen. `phase` decides whether a method
//! is served in the current phase, `initialize` answers the handshake, and `stateless` handles what each request of the
//! stateless era carries. `answer_tools_list` answers `tools/list`. `dispatch` routes requests to `tools` and `passthrough`. Upstreams reach
//! the client of the session through [`FrontClient`].

use crate::client::Client;
use crate::client::attribution::Attribution;
use crate::errors::{self, RpcError};
use crate::notify::list_changes::ListChanges;
use crate::session::context::SessionState;
use crate::session::request_span;
use crate::status_page::InstanceReports;
use crate::tools::tool_list::{self, ToolList};
use dispatch::Dispatcher;
use front_client::FrontClient;
use futures_util::FutureExt;
use options::SessionOptions;
use phase::{AdvertisedCapabilities, MethodAvailability, PhaseDecision, SessionPhase};
use served_instance::ServedInstance;
use stateless::RequestMeta;
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
use wire::{MessageError, Raw, Reply, Request, raw};

mod answer_tools_list;
pub mod dispatch;
pub mod front_client;
pub mod initialize;
pub mod options;
pub mod phase;
pub mod request_clients;
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
    /// What every session of this instance shares.
    instance: Arc<ServedInstance>,
    /// The groups of this instance.
    groups: Arc<GroupManager>,
    /// The connection to the client.
    peer: Arc<Peer>,
    /// The client, as upstreams know it.
    client: Arc<Client>,
    /// What the command line chooses.
    options: SessionOptions,
    /// The phase of the session.
    phase: SessionPhase,
    /// The capabilities that are advertised.
    advertised: AdvertisedCapabilities,
    /// Routes requests to their handlers.
    dispatcher: Dispatcher,
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
        reports: Option<InstanceReports>,
    ) -> Self {
        let client = Client::new(peer.clone(), Attribution::new(&groups), reports);
        front_client.attach(client.clone());
        let instance = ServedInstance::new(groups.clone());
        let tool_list = ToolList::new(&groups, Duration::ZERO);
        Self {
            advertised: initialize::advertised(&groups),
            dispatcher: Dispatcher::new(
                &instance,
                SessionState::new(instance.state.clone(), client.clone(), None),
            ),
            list_changes: answer_tools_list::changes(&tool_list, &groups, false),
            client,
            options,
            tool_list,
            instance,
            start_due: false,
            started: false,
            was_asked: false,
            starting: JoinSet::new(),
            requests: InboundRequests::new(peer.clone(), MAX_OPEN_REQUESTS, errors::internal().into()),
            groups,
            peer,
            phase: SessionPhase::Initialization,
            held: VecDeque::new(),
            hold_until: None,
        }
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
        self.dispatcher.close();
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
        let availability = MethodAvailability::in_handshake_era(&request.method, self.advertised);
        match self.phase.decide(availability) {
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
        let meta = RequestMeta::of(&request);
        if let Err(error) = meta.check(&request, self.options.latest_revision) {
            return self.reject(&request.id, &error);
        }
        match MethodAvailability::in_stateless_era(&request.method, self.advertised) {
            MethodAvailability::Available(method) => {
                if method != Method::ServerDiscover {
                    self.client.add_capabilities(&meta.capabilities());
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
                self.client.notifications.end_handshake();
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
                self.dispatcher.notify_groups(method, params.as_ref());
            }
            (notification::TASKS_STATUS, SessionPhase::Operation) => {
                self.dispatcher.notify_group_of_task(method, params.as_ref());
            }
            (method, phase) => tracing::debug!(method, ?phase, "ignored a notification"),
        }
    }

    fn initialize(&mut self, request: &Request) {
        let params = request.params.clone().unwrap_or_else(Params::empty);
        self.client.initialize(raw::get(&params, "capabilities").unwrap_or(Raw::from_static(b"{}")));
        // What is in the cache is part of the answer. The rest can wait until the answer is sent.
        self.groups.restore();
        self.start_due = true;
        self.phase = SessionPhase::Initialized;
        let revision = initialize::negotiate(&params, self.options.latest_revision);
        self.advertised.tasks = revision == WITH_TASKS;
        self.advertise_page();
        let result = initialize::initialize_result(revision, &self.groups, self.advertised);
        self.peer.reply(&request.id, Ok(result));
        initialize::report_problems(&self.client, &self.groups);
        if revision == WITH_BATCHES {
            self.peer.accept_batches();
        }
    }

    /// Advertises resources to a client that shows pages, because our own page is one.
    fn advertise_page(&mut self) {
        self.advertised.resources |= self.client.status_reports().is_some();
    }

    /// Starts the groups, the first time that it is called. Returns when they exist, even if some are not told to start
    /// yet.
    fn start_groups(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let groups = self.groups.clone();
        let mut starting = Box::pin(async move { groups.start().await });
        // The first poll creates the groups, which the next request may name.
        if starting.as_mut().now_or_never().is_none() {
            self.starting.spawn(starting);
        }
        self.tool_list = self.instance.tool_list(self.options.first_list_wait).of_client(&self.client);
        self.list_changes = answer_tools_list::changes(&self.tool_list, &self.groups, true);
    }

    /// Serves a request: here if it is about the session itself or its list of tools, else through the dispatcher.
    fn serve(&mut self, mut request: Request, method: Method, era: Era) {
        match method {
            Method::Ping => return self.peer.reply(&request.id, Ok(Raw::from_static(b"{}"))),
            Method::Initialize => return self.initialize(&request),
            Method::ServerDiscover => {
                let result = initialize::discover_result(&self.groups, self.advertised);
                return self.answer(&request, era, Ok(result));
            }
            Method::ToolsList => return self.list_tools(request, era),
            Method::ResourcesList | Method::ResourceTemplatesList => {
                self.list_changes.known().resources_asked();
            }
            Method::PromptsList => self.list_changes.known().prompts_asked(),
            _ => {}
        }
        match self.dispatcher.dispatch(&mut request, method, era) {
            Ok(answer) => {
                let answer = match era {
                    Era::Handshake => answer,
                    Era::Stateless => Box::pin(async move { stateless::complete(method, answer.await, 0) }),
                };
                self.requests.start(request.id, request_span::continued(answer));
            }
            Err(error) => self.reject(&request.id, &error),
        }
    }

    /// Answers a request whose answer is known at once.
    fn answer(&self, request: &Request, era: Era, reply: Reply) {
        let reply = match (era, request.method.known()) {
            (Era::Stateless, Some(method)) => {
                stateless::complete(method, reply, tool_list::ttl_ms(&self.groups))
            }
            _ => reply,
        };
        self.peer.reply(&request.id, reply);
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
