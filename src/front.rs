//! One client's session: the MCP server it sees.
//!
//! Everything that is answered here comes from static state or from a group the request names, so the handshake and
//! `tools/list` never wait for an upstream. `phase` says what is served when, `stateless` what is
//! different where there is no handshake, `meta_tools` what a model sees,
//! `desk` gives each request to who does it: our tools are `arguments` and `lookup` (what a model means), `describe`,
//! `call` and `find`; `resources`, `prompts` and `subscriptions` go by `routing` and `exposed` names and are passed on by
//! `relay`; `gather` makes one list of all groups'. `errors` has every code and wording of ours.

use crate::groups::GroupManager;
use crate::protocol::{Era, WITH_BATCHES, WITH_TASKS};
use crate::upstream::audience::client::Client;
use crate::upstream::optional::until;
use crate::wire::inbound::InboundRequests;
use crate::wire::lines::LineReader;
use crate::wire::peer::{Incoming, LogText, Peer};
use crate::wire::{MessageError, Raw, Reply, Request, raw};
use desk::Desk;
use errors::Refusal;
use futures_util::FutureExt;
use list::Lists;
use phase::{Kind, Offers, Phase, Verdict};
use stateless::About;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub mod arguments;
pub mod call;
pub mod caller;
pub mod confirm;
pub mod consent;
pub mod describe;
pub mod desk;
pub mod errors;
pub mod exposed;
pub mod find;
pub mod fits;
pub mod forms;
pub mod gather;
pub mod greeting;
pub mod keeper;
pub mod list;
pub mod listen;
pub mod login;
pub mod lookup;
pub mod meta_tools;
pub mod parking;
pub mod phase;
pub mod programs;
pub mod prompts;
pub mod reach;
pub mod relay;
pub mod resources;
pub mod rounds;
pub mod routing;
pub mod stateless;
pub mod subscriptions;
pub mod tasks;

/// How long requests wait for `notifications/initialized`.
const HOLD: Duration = Duration::from_secs(1);
/// Requests of one client that are worked on at once; more are refused, so that cancellations and the end are read.
const OPEN_REQUESTS: usize = 4096;
/// How long `tools/list` holds without being asked for again, in milliseconds; who listens hears of a change before.
const LIST_HOLDS: u32 = 300_000;
/// What calls in flight have to be answered once we shut down.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

pub struct Session {
    groups: Arc<GroupManager>,
    peer: Arc<Peer>,
    client: Arc<Client>,
    phase: Phase,
    offers: Offers,
    desk: Desk,
    serving: InboundRequests,
    /// Requests that wait for `notifications/initialized`, and until when.
    held: VecDeque<Request>,
    hold_until: Option<Instant>,
    lists: Lists,
    /// A client is there.
    started: bool,
    /// Starts the groups, which may wait for full mailboxes.
    start_up: JoinSet<()>,
}

impl Session {
    /// Attaches the client to the groups.
    pub fn new(groups: Arc<GroupManager>, peer: Arc<Peer>) -> Self {
        let client = Client::new(peer.clone());
        groups.audience.attach(client.clone());
        Self {
            offers: greeting::offers(&groups),
            desk: Desk::new(groups.clone(), client.clone()),
            client,
            lists: Lists::new(&groups),
            started: false,
            start_up: JoinSet::new(),
            serving: InboundRequests::new(peer.clone(), errors::internal().into()),
            groups,
            peer,
            phase: Phase::Initialization,
            held: VecDeque::new(),
            hold_until: None,
        }
    }

    /// Serves the client until its stream ends or `stop` resolves. Then `closing` is awaited while every new request
    /// is refused and those in flight have a moment to be answered.
    pub async fn run<R: AsyncRead + Unpin>(
        mut self,
        lines: &mut LineReader<R>,
        stop: impl Future<Output = ()>,
        closing: impl Future<Output = ()>,
    ) {
        let mut reading = true;
        tokio::select! {
            () = self.serve(lines) => {}
            () = stop => {}
        }
        self.phase = Phase::Shutdown;
        self.desk.close();
        self.refuse_held(&errors::shutting_down());
        let give_up = Instant::now() + LAST_ANSWERS;
        let mut closing = pin!(closing);
        let mut closed = false;
        while !(closed && self.serving.is_empty()) {
            tokio::select! {
                () = &mut closing, if !closed => closed = true,
                () = self.serving.ended() => {}
                () = sleep_until(give_up), if !self.serving.is_empty() => {
                    self.serving.abandon(&errors::shutting_down().into());
                }
                incoming = self.peer.receive(lines), if reading => match incoming {
                    Some(incoming) => self.handle(incoming),
                    None => reading = false,
                },
            }
        }
    }

    async fn serve<R: AsyncRead + Unpin>(&mut self, lines: &mut LineReader<R>) {
        loop {
            tokio::select! {
                biased;
                () = self.peer.output().ready() => {}
                // A client that does not read can still leave.
                () = lines.ended() => return,
            }
            let hold_until = self.hold_until;
            tokio::select! {
                () = self.serving.ended() => {}
                () = until(hold_until) => {
                    self.hold_until = None;
                    self.refuse_held(&errors::not_initialized());
                }
                () = self.lists.changed() => self.lists_changed(),
                incoming = self.peer.receive(lines) => match incoming {
                    Some(incoming) => self.handle(incoming),
                    None => return,
                },
            }
        }
    }

    fn handle(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Request(request) => self.request(request),
            Incoming::Notification { method, params } => self.notification(&method, params),
            Incoming::Handled => {}
            Incoming::Malformed(what, line) => {
                tracing::warn!(?what, line = %LogText(&line), "the client sent a line that is no message");
                let id = match &what {
                    MessageError::NotAMessage { id } | MessageError::TooLong { id, .. } => id.clone(),
                    _ => None,
                };
                let id = id.unwrap_or(Raw::from_static(b"null"));
                self.peer.refuse(&id, errors::malformed(&what).into());
            }
        }
    }

    fn request(&mut self, request: Request) {
        if request.method != "ping" && self.is_full() {
            return self.refuse(&request.id, &errors::too_many_open());
        }
        if self.phase != Phase::Shutdown
            && let Some(about) = About::of(&request)
        {
            return self.stateless(request, &about);
        }
        let kind = Kind::of(&request.method, self.offers);
        match self.phase.judge(kind) {
            Verdict::Refuse(refusal) => self.refuse(&request.id, &refusal),
            Verdict::Hold => {
                self.hold_until.get_or_insert_with(|| Instant::now() + HOLD);
                self.held.push_back(request);
            }
            Verdict::Serve => match kind {
                Kind::Ping => self.peer.reply(&request.id, Ok(Raw::from_static(b"{}"))),
                Kind::Initialize => self.initialize(&request),
                _ => self.offered(request, Era::Handshake),
            },
        }
    }

    /// Whether no more requests are taken for now.
    fn is_full(&mut self) -> bool {
        let is_full = |session: &Self| session.serving.len() + session.held.len() >= OPEN_REQUESTS;
        // Those that are answered already do not count.
        while is_full(self) && self.serving.ended().now_or_never().is_some() {}
        is_full(self)
    }

    /// Serves a request that says of itself what others said with `initialize`. Being asked who is here is no start.
    fn stateless(&mut self, request: Request, about: &About) {
        if let Err(refusal) = about.check(&request) {
            return self.refuse(&request.id, &refusal);
        }
        match Kind::of_stateless(&request.method, self.offers) {
            Kind::Offered if request.method == "server/discover" => {
                let answer = greeting::discovered(&self.groups, self.offers);
                self.answer(&request, Era::Stateless, Ok(answer));
            }
            Kind::Offered => {
                self.client.declared_by_request(&about.capabilities());
                self.start_up();
                self.offered(request, Era::Stateless);
            }
            _ => self.refuse(&request.id, &errors::unknown_method()),
        }
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match (method, self.phase) {
            ("notifications/initialized", Phase::Greeted) => {
                self.phase = Phase::Operation;
                self.client.end_handshake();
                // What changed before the client could be told.
                self.lists_changed();
                self.hold_until = None;
                for request in std::mem::take(&mut self.held) {
                    self.request(request);
                }
            }
            ("notifications/cancelled", _) => {
                if let Some(params) = params {
                    self.cancel(params);
                }
            }
            ("notifications/roots/list_changed", Phase::Operation) => {
                self.desk.tell_all(method, params.as_ref());
            }
            ("notifications/tasks/status", Phase::Operation) => {
                self.desk.tell_of_task(method, params.as_ref());
            }
            (method, phase) => tracing::debug!(method, ?phase, "ignored a notification"),
        }
    }

    fn initialize(&mut self, request: &Request) {
        let params = request.params.clone().unwrap_or(Raw::from_static(b"{}"));
        self.client.declared(raw::get(&params, "capabilities").unwrap_or(Raw::from_static(b"{}")));
        self.start_up();
        self.phase = Phase::Greeted;
        let revision = greeting::revision(&params);
        self.offers.tasks = revision == WITH_TASKS;
        self.peer.reply(&request.id, Ok(greeting::answer(revision, &self.groups, self.offers)));
        if revision == WITH_BATCHES {
            self.peer.accept_batches();
        }
    }

    /// A client is there. Only the first time does anything.
    fn start_up(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let groups = self.groups.clone();
        let mut start_up = Box::pin(async move { groups.start_up().await });
        // Begun before the next request is looked at, which may concern what is started.
        if start_up.as_mut().now_or_never().is_none() {
            self.start_up.spawn(start_up);
        }
        self.lists = Lists::new(&self.groups);
    }

    /// A list may be another: the client is told if it is, but not before it is ready for it.
    fn lists_changed(&mut self) {
        let by_handshake = self.phase == Phase::Operation;
        if by_handshake || self.client.has_listeners() {
            for method in self.lists.tell(&self.groups) {
                if by_handshake {
                    self.peer.notify(method, None);
                }
                self.client.list_changed(method);
            }
        }
    }

    fn offered(&mut self, request: Request, era: Era) {
        match request.method.as_str() {
            "tools/list" => {
                if let Err(refusal) = check_list_params(request.params.as_ref()) {
                    return self.refuse(&request.id, &refusal);
                }
                match programs::lazy(request.params.as_ref()) {
                    Ok(None) => {}
                    Ok(Some(lazy)) => {
                        return self.answer(&request, era, Ok(programs::list(&self.groups, lazy, era)));
                    }
                    Err(refusal) => return self.refuse(&request.id, &refusal),
                }
                let list = self.lists.render(&self.groups);
                self.lists.told(&list);
                self.answer(&request, era, Ok(list));
            }
            _ => match self.desk.work(&request, era) {
                Ok((work, cancelled)) => {
                    let work = match era {
                        Era::Handshake => work,
                        Era::Stateless => {
                            Box::pin(async move { stateless::finished(&request.method, work.await, 0) })
                        }
                    };
                    self.serving.start(request.id, work, cancelled);
                }
                Err(refusal) => self.refuse(&request.id, &refusal),
            },
        }
    }

    /// Answers what is known at once.
    fn answer(&self, request: &Request, era: Era, reply: Reply) {
        let reply = match era {
            Era::Handshake => reply,
            Era::Stateless => {
                let fresh_for = if self.groups.discovering() { 0 } else { LIST_HOLDS };
                stateless::finished(&request.method, reply, fresh_for)
            }
        };
        self.peer.reply(&request.id, reply);
    }

    /// Drops the request, or the work of it.
    fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        let held = self.held.len();
        self.held.retain(|request| request.id != id);
        if self.held.len() < held {
            self.peer.forget(&id);
        }
        self.serving.cancel(params);
    }

    fn refuse_held(&mut self, refusal: &Refusal) {
        for request in std::mem::take(&mut self.held) {
            self.refuse(&request.id, refusal);
        }
    }

    fn refuse(&self, id: &Raw, refusal: &Refusal) {
        self.peer.reply(id, Err(refusal.clone().into()));
    }
}

/// Lists of ours have one page: no cursor is one that we gave.
fn check_list_params(params: Option<&Raw>) -> Result<(), Refusal> {
    let Some(params) = params.filter(|params| &params[..] != b"null") else { return Ok(()) };
    if raw::entries(params).is_none() {
        return Err(errors::bad_params("params must be an object"));
    }
    match raw::get(params, "cursor") {
        Some(cursor) if !matches!(&cursor[..], b"null" | b"\"\"") => {
            Err(errors::bad_params("unknown cursor"))
        }
        _ => Ok(()),
    }
}
