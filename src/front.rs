//! One client's session: the MCP server it sees.
//!
//! Everything that is answered here comes from static state or from a group the request names, so the handshake and
//! `tools/list` never wait for an upstream. `phase` says what is served when, `meta_tools` what a model sees,
//! `arguments` and `lookup` what it means, `describe` and `call` do it, `errors` has every code and wording of ours.

use crate::groups::GroupManager;
use crate::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, STATELESS_META};
use crate::status;
use crate::upstream::optional::until;
use crate::wire::lines::Lines;
use crate::wire::peer::{Cancelled, Incoming, Peer, Progress, Text};
use crate::wire::{Malformed, Raw, Reply, Request, raw};
use errors::Refusal;
use list::ToolList;
use phase::{Kind, Phase, Verdict};
use rmcp::model::{Implementation, InitializeResult, ServerCapabilities, ToolsCapability};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

pub mod arguments;
pub mod call;
pub mod describe;
pub mod errors;
pub mod list;
pub mod lookup;
pub mod meta_tools;
pub mod phase;
pub mod reach;

/// How long requests wait for `notifications/initialized`.
const HOLD: Duration = Duration::from_secs(1);
/// Requests of one client that are worked on at once; beyond that its stdin is not read.
const OPEN_REQUESTS: usize = 4096;
/// What calls in flight have to be answered once we shut down.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

type Work = Pin<Box<dyn Future<Output = Reply> + Send>>;

pub struct Session {
    groups: Arc<GroupManager>,
    peer: Arc<Peer>,
    phase: Phase,
    /// Requests being worked on, by the task that does it.
    open: HashMap<Id, Open>,
    work: JoinSet<Reply>,
    /// Requests that wait for `notifications/initialized`, and until when.
    held: VecDeque<Request>,
    hold_until: Option<Instant>,
    list: ToolList,
    /// Starts the groups, which may wait for full mailboxes.
    start_up: JoinSet<()>,
}

struct Open {
    /// As the client wrote it.
    id: Raw,
    cancelled: Cancelled,
    task: AbortHandle,
}

impl Session {
    pub fn new(groups: Arc<GroupManager>, peer: Arc<Peer>) -> Self {
        Self {
            list: ToolList::new(&groups),
            start_up: JoinSet::new(),
            groups,
            peer,
            phase: Phase::Initialization,
            open: HashMap::new(),
            work: JoinSet::new(),
            held: VecDeque::new(),
            hold_until: None,
        }
    }

    /// Serves the client until its stream ends or `stop` resolves. Then `closing` is awaited while every new request
    /// is refused and those in flight have a moment to be answered.
    pub async fn run<R: AsyncRead + Unpin>(
        mut self,
        lines: &mut Lines<R>,
        stop: impl Future<Output = ()>,
        closing: impl Future<Output = ()>,
    ) {
        let mut reading = true;
        tokio::select! {
            () = self.serve(lines) => {}
            () = stop => {}
        }
        self.phase = Phase::Shutdown;
        self.refuse_held(&errors::shutting_down());
        let give_up = Instant::now() + LAST_ANSWERS;
        let mut closing = pin!(closing);
        let mut closed = false;
        while !(closed && self.open.is_empty()) {
            tokio::select! {
                () = &mut closing, if !closed => closed = true,
                Some(done) = self.work.join_next_with_id() => self.answer(done),
                () = sleep_until(give_up), if !self.open.is_empty() => self.abandon(),
                incoming = self.peer.receive(lines), if reading => match incoming {
                    Some(incoming) => self.handle(incoming),
                    None => reading = false,
                },
            }
        }
    }

    async fn serve<R: AsyncRead + Unpin>(&mut self, lines: &mut Lines<R>) {
        loop {
            tokio::select! {
                biased;
                () = self.peer.output().ready() => {}
                // A client that does not read can still leave.
                () = lines.ended() => return,
            }
            let hold_until = self.hold_until;
            tokio::select! {
                Some(done) = self.work.join_next_with_id() => self.answer(done),
                () = until(hold_until) => {
                    self.hold_until = None;
                    self.refuse_held(&errors::not_initialized());
                }
                () = self.list.changed() => self.list_changed(),
                incoming = self.peer.receive(lines), if self.open.len() + self.held.len() < OPEN_REQUESTS => match incoming {
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
            Incoming::Settled => {}
            Incoming::Malformed(what, line) => {
                tracing::warn!(?what, line = %Text(&line), "the client sent a line that is no message");
                let id = match &what {
                    Malformed::NotAMessage { id } | Malformed::TooLong { id, .. } => id.clone(),
                    Malformed::NotJson | Malformed::Batch => None,
                };
                let id = id.unwrap_or(Raw::from_static(b"null"));
                self.peer.reply(&id, Err(errors::malformed(&what).into()));
            }
        }
    }

    fn request(&mut self, request: Request) {
        let kind = Kind::of(&request.method);
        let stateless = request.method == "server/discover"
            || request
                .params
                .as_ref()
                .and_then(|p| raw::get(&raw::get(p, "_meta")?, STATELESS_META))
                .is_some();
        if stateless && self.phase != Phase::Shutdown {
            return self.refuse(&request.id, &errors::no_stateless_requests());
        }
        match self.phase.judge(kind) {
            Verdict::Refuse(refusal) => self.refuse(&request.id, &refusal),
            Verdict::Hold => {
                self.hold_until.get_or_insert_with(|| Instant::now() + HOLD);
                self.held.push_back(request);
            }
            Verdict::Serve => match kind {
                Kind::Ping => self.peer.reply(&request.id, Ok(Raw::from_static(b"{}"))),
                Kind::Initialize => self.initialize(&request),
                _ => self.offered(request),
            },
        }
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match (method, self.phase) {
            ("notifications/initialized", Phase::Greeted) => {
                self.phase = Phase::Operation;
                // What changed before the client could be told.
                self.list_changed();
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
            (method, phase) => tracing::debug!(method, ?phase, "ignored a notification"),
        }
    }

    fn initialize(&mut self, request: &Request) {
        let param = |key| request.params.as_ref().and_then(|params| raw::get(params, key));
        let asked = request.params.as_ref().and_then(|params| raw::get_str(params, "protocolVersion"));
        let known =
            asked.as_deref().and_then(|asked| HANDSHAKE_REVISIONS.iter().find(|known| **known == asked));
        let revision = known.copied().unwrap_or(LATEST_HANDSHAKE);
        let client = param("clientInfo").and_then(|info| raw::get_str(&info, "name")).unwrap_or_default();
        tracing::info!(%client, asked = asked.as_deref().unwrap_or("nothing"), revision, "client connected");
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(tools);
        let mut result = InitializeResult::new(capabilities);
        let mut info = Implementation::new("dynamic-mcp", env!("CARGO_PKG_VERSION"));
        info.title = Some("dynamic-mcp".to_owned());
        result.server_info = info;
        result.instructions = Some(list::instructions(&self.groups));
        let mut result = json!(result);
        result["protocolVersion"] = json!(revision);
        self.phase = Phase::Greeted;
        self.peer.reply(&request.id, Ok(result.to_string().into()));
        let groups = self.groups.clone();
        self.start_up.spawn(async move { groups.start_up().await });
    }

    /// `tools/list` may be another: the client is told if it is, but not before it is ready for it.
    fn list_changed(&mut self) {
        let list = self.list.render(&self.groups);
        if self.phase == Phase::Operation && self.list.tell(&list) {
            self.peer.notify("notifications/tools/list_changed", None);
        }
    }

    fn offered(&mut self, request: Request) {
        match request.method.as_str() {
            "tools/list" => {
                if let Err(refusal) = check_list_params(request.params.as_ref()) {
                    return self.refuse(&request.id, &refusal);
                }
                let list = self.list.render(&self.groups);
                self.list.told(&list);
                self.peer.reply(&request.id, Ok(list));
            }
            _ => match self.tool(&request) {
                Ok((work, cancelled)) => self.start(request.id, work, cancelled),
                Err(refusal) => self.refuse(&request.id, &refusal),
            },
        }
    }

    /// What a `tools/call` asks us to do.
    fn tool(&self, request: &Request) -> Result<(Work, Cancelled), Refusal> {
        let params = request.params.clone().ok_or_else(|| errors::bad_params("tools/call needs params"))?;
        let name = raw::get_str(&params, "name")
            .ok_or_else(|| errors::bad_params("params.name must be a string"))?;
        let cancelled = Cancelled::default();
        let groups = self.groups.clone();
        let token = raw::get(&params, "_meta").and_then(|meta| raw::get(&meta, "progressToken"));
        let progress = token.map(|token| Progress { output: self.peer.output().clone(), token });
        let work: Work = match name.as_str() {
            meta_tools::GET => Box::pin(async move {
                let arguments = raw::get(&params, "arguments");
                Ok(describe::get_dynamic_tools(&groups, arguments.as_ref(), progress.as_ref()).await)
            }),
            meta_tools::CALL | meta_tools::CALL_READONLY => {
                let read_only = name == meta_tools::CALL_READONLY;
                let request = call::Request { params, progress, cancelled: cancelled.clone(), read_only };
                Box::pin(async move { call::call_dynamic_tool(&groups, request).await })
            }
            meta_tools::STATUS => Box::pin(std::future::ready(Ok(self.status(&params)))),
            name => return Err(errors::bad_params(format!("unknown tool: {name}"))),
        };
        Ok((work, cancelled))
    }

    fn status(&self, params: &Raw) -> Raw {
        let all = self.groups.all();
        let chosen = arguments::status_group(raw::get(params, "arguments").as_ref());
        let chosen = chosen.and_then(|name| name.map(|name| lookup::group(&all, &name).cloned()).transpose());
        match chosen {
            Ok(group) => {
                let status = status::of(&group.map_or(all, |group| vec![group]), &self.groups);
                json!({ "content": [{ "type": "text", "text": status.text }], "structuredContent": status.json })
                    .to_string()
                    .into()
            }
            Err(problem) => errors::tool_error(&problem),
        }
    }

    /// Begins the work at once, so that requests leave in the order they came, and gives it a task if it must wait.
    fn start(&mut self, id: Raw, mut work: Work, cancelled: Cancelled) {
        let first =
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
        match first {
            Ok(Poll::Ready(reply)) => self.peer.reply(&id, reply),
            Ok(Poll::Pending) => {
                let task = self.work.spawn(work);
                self.open.insert(task.id(), Open { id, cancelled, task });
            }
            Err(_) => self.refuse(&id, &errors::internal()),
        }
    }

    fn answer(&mut self, done: Result<(Id, Reply), JoinError>) {
        let (task, reply) = match done {
            Ok((task, reply)) => (task, Some(reply)),
            Err(error) if error.is_panic() => (error.id(), Some(Err(errors::internal().into()))),
            // Cancelled by the client: no answer is wanted.
            Err(error) => (error.id(), None),
        };
        if let (Some(open), Some(reply)) = (self.open.remove(&task), reply) {
            self.peer.reply(&open.id, reply);
        }
    }

    /// Drops the request, or the work of it; its call upstream is cancelled with the client's own params.
    fn cancel(&mut self, params: Raw) {
        let Some(id) = raw::get(&params, "requestId") else { return };
        self.held.retain(|request| request.id != id);
        let task = self.open.iter().find(|(_, open)| open.id == id).map(|(task, _)| *task);
        if let Some(open) = task.and_then(|task| self.open.remove(&task)) {
            drop(open.cancelled.set(params));
            open.task.abort();
        }
    }

    /// Shutdown does not wait longer for these.
    fn abandon(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            open.task.abort();
            self.peer.reply(&open.id, Err(errors::shutting_down().into()));
        }
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
