//! Reads what an upstream sends until its connection ends: answers go to their calls, requests and notifications to the
//! clients.

use super::lease::LiveConnection;
use super::malformed_lines::MalformedLines;
use super::{task_ids, translate};
use crate::clients::{ClientRequest, Clients};
use crate::error::UpstreamError;
use crate::select::until;
use crate::transport::{FailedRequest, RequestFailures, TransportHandle};
use base::text::{quoted, shorten};
use config::GroupName;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use wire::connection::{self, ConnectionHandler};
use wire::inbound::InboundRequests;
use wire::lines::LineReader;
use wire::log_text::LogText;
use wire::output::Writer;
use wire::peer::{CallError, Deadlines, Incoming, Peer, Progress};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{Era, code};
use wire::{Raw, Reply, Request, error_object, raw};

/// How many requests of one upstream may wait for the client. Further ones are rejected; answers are still read.
const MAX_OPEN_REQUESTS: usize = 256;
/// The longest message of a server that an error repeats, in characters.
const MAX_REASON: usize = 300;
/// How many requests of one upstream are remembered, to recognize an error by which it refuses our answer.
const MAX_ASKED: usize = 256;

/// The connection that a reader serves, and where its messages go.
pub struct ReaderContext {
    /// The group.
    pub group: GroupName,
    /// The connection's peer, which matches answers to calls.
    pub peer: Arc<Peer>,
    /// The connection as callers share it.
    pub live: Arc<LiveConnection>,
    /// Where requests and notifications go.
    pub clients: Arc<dyn Clients>,
    /// Notified when the server says that one of its lists changed.
    pub(crate) lists_changed: Arc<Notify>,
    /// The transport, which knows how the connection ended.
    pub handle: TransportHandle,
    /// Requests that the transport failed to deliver.
    pub failures: RequestFailures,
}

/// Reads one connection.
pub struct Reader {
    /// The connection, and where its messages go.
    context: ReaderContext,
    /// The server's requests that are not answered yet.
    requests: InboundRequests,
    /// The hashes of the ids of the server's last requests, the latest last. The ids themselves may be long.
    asked: VecDeque<u64>,
    /// Makes the hashes.
    hasher: RandomState,
    /// The lines that are not messages.
    malformed: MalformedLines,
}

impl Reader {
    /// Makes a reader for a connection.
    pub fn new(context: ReaderContext) -> Self {
        // A batch is accepted in every revision, even where a server should not send one.
        context.peer.accept_batches();
        let internal = error_object(code::INTERNAL_ERROR, "internal error in dynamic-mcp", None);
        Self {
            requests: InboundRequests::new(context.peer.clone(), MAX_OPEN_REQUESTS, internal),
            asked: VecDeque::new(),
            hasher: RandomState::new(),
            malformed: MalformedLines::new(
                context.peer.clone(),
                context.live.unreadable.clone(),
                context.live.skipped.clone(),
            ),
            context,
        }
    }

    /// Reads and writes until the connection ends, then fails every open call.
    pub async fn run(mut self, mut lines: LineReader, writer: Writer, deadlines: Deadlines) {
        let (handle, peer) = (self.context.handle.clone(), self.context.peer.clone());
        // These tasks end with this future.
        let mut tasks = JoinSet::new();
        // A server that closed its stdin may still answer.
        tasks.spawn(async { drop(writer.run().await) });
        tasks.spawn(deadlines.run());
        // A `FuturesUnordered` polls the future only when it was woken, not whenever a message comes.
        let mut drained = FuturesUnordered::from_iter([handle.drained()]);
        let ending = tokio::select! {
            biased;
            ending = connection::run(&mut self, &peer, &mut lines) => ending,
            _ = drained.next() => Ok(()),
        };
        self.lost(match ending {
            Ok(()) => handle.connection_end().await,
            Err(unread) => unread.into(),
        });
        peer.end();
    }

    /// Handles an answer that belongs to no open call. If the answer announces a task, the task is cancelled, because
    /// nobody will ask for its result. If it is an error about an answer of ours, the call that needed that answer
    /// fails, because it would wait without end.
    fn unmatched(&self, id: &Raw, reply: &Reply, was_abandoned: bool) {
        match reply {
            Ok(result) if was_abandoned => {
                if let Some(task) = task_ids::created(self.context.live.era, result) {
                    let params = raw::set(&Raw::from_static(b"{}"), "taskId", &task);
                    self.context.peer.send(Method::TasksCancel.name(), params);
                }
            }
            Err(error) if self.asked.contains(&self.hasher.hash_one(id)) => {
                let message = raw::get_str(error, "message").unwrap_or_else(|| "no message".to_owned());
                self.answer_refused(CallError::AnswerRefused(quoted(&shorten(&message, MAX_REASON))));
            }
            // The server could not read the id of a message of ours, so it is not known which one this answers.
            Err(error) if &id[..] == b"null" => {
                let what = format!("an error that names no request: {}", LogText(error));
                tracing::warn!(%what, "the server refused a message");
                self.context.live.unreadable.add(what);
            }
            _ => {}
        }
    }

    /// Fails the call for which the server asked. If several calls are open, it is not known which one, and none fails.
    fn answer_refused(&self, error: CallError) {
        match self.context.peer.only_call() {
            Some(id) => self.context.peer.fail(&id, error),
            None => tracing::warn!(%error, "it is not known which call the question belongs to"),
        }
    }

    /// Fails a call. If the connection has ended, it is closed first, so that a caller that repeats its request does
    /// not find the same connection.
    fn request_failed(&self, FailedRequest { id, error }: FailedRequest) {
        if let Some(ending) = self.context.handle.close_reason() {
            self.lost(ending.into());
        }
        match (id, error) {
            (Some(id), error) => self.context.peer.fail(&id, error),
            (None, error @ CallError::AnswerRefused(_)) => self.answer_refused(error),
            (None, _) => {}
        }
    }

    fn request(&mut self, request: Request) {
        let peer = &self.context.peer;
        if request.method.known() == Some(Method::Ping) {
            return peer.reply(&request.id, Ok(Raw::from_static(b"{}")));
        }
        if matches!(request.method.known(), Some(Method::Initialize | Method::ServerDiscover)) {
            let what = "it is the request itself: the program writes what it reads, so it is no MCP server; check \"command\" and \"args\"";
            return peer.fail(&request.id, CallError::Malformed(what.to_owned()));
        }
        if self.requests.reject_excess(&request.id, 0) {
            return;
        }
        let token = request.params.as_ref().and_then(|p| raw::get(&raw::get(p, "_meta")?, "progressToken"));
        let progress = token.map(|token| Progress::new(peer.output().clone(), token));
        self.asked.push_back(self.hasher.hash_one(&request.id));
        let excess = self.asked.len().saturating_sub(MAX_ASKED);
        self.asked.drain(..excess);
        let call = self.context.handle.call_of(&request.id).and_then(|call| peer.origin(&call));
        let group = self.context.group.clone();
        // A question that comes on the stream of a call belongs to the call.
        let is_for_roots = request.method.known() == Some(Method::RootsList) && call.is_none();
        let roots = is_for_roots.then(|| self.context.live.roots.asked(peer.calls_in_flight().0 > 0));
        let answer = self.context.clients.request(ClientRequest {
            params: request.params.map(|params| task_ids::expose_related(&group, &params)),
            group,
            method: (*request.method).to_owned(),
            call,
            progress,
        });
        self.requests.start(
            request.id,
            match roots {
                None => answer,
                Some(open) => Box::pin(async move {
                    let reply = answer.await;
                    drop(open);
                    reply
                }),
            },
        );
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match method {
            // The task reads the lists again, and notifies clients only if they differ.
            notification::TOOLS_LIST_CHANGED
            | notification::RESOURCES_LIST_CHANGED
            | notification::PROMPTS_LIST_CHANGED => self.context.lists_changed.notify_one(),
            notification::CANCELLED => {
                let Some(params) = params else { return };
                // A stateless server sends no requests, so it can only end a subscription of ours.
                let is_stateless = self.context.live.era == Era::Stateless;
                let ours = raw::get(&params, "requestId").filter(|_| is_stateless);
                if !ours.is_some_and(|id| self.context.peer.end_subscription(&id)) {
                    self.requests.cancel(params);
                }
            }
            // Progress of a call that is over or whose client gave no token, or a late acknowledgement.
            notification::PROGRESS | notification::SUBSCRIPTIONS_ACKNOWLEDGED => {}
            method if self.context.handle.take_notification(method, params.as_ref()) => {}
            method => self.pass_on(method, params),
        }
    }

    fn pass_on(&self, method: &str, params: Option<Raw>) {
        let group = &self.context.group;
        let params = match self.context.live.era {
            Era::Handshake => params,
            Era::Stateless => params.map(|params| translate::without_subscription(&params)),
        };
        let params = params.map(|params| task_ids::expose_related(group, &params));
        let is_about_task = matches!(method, notification::TASKS_STATUS | notification::TASKS);
        let params =
            params.map(|params| if is_about_task { task_ids::expose(group, &params) } else { params });
        self.context.clients.notify(group, method, params.as_ref());
    }
}

impl Reader {
    fn lost(&self, why: UpstreamError) {
        self.context.live.lose(why.shown_to(&*self.context.clients));
    }
}

impl ConnectionHandler for Reader {
    const IS_SERVER: bool = true;

    async fn ready(&mut self, _: &mut LineReader) -> bool {
        self.context.clients.ready().await;
        true
    }

    async fn wait_for<T: Send>(&mut self, message: impl Future<Output = T> + Send) -> Option<T> {
        let deadline = self.malformed.deadline();
        tokio::select! {
            // A line that has come continues an unfinished message even if the deadline has passed.
            biased;
            () = self.requests.serve() => {}
            failed = self.context.failures.next() => self.request_failed(failed),
            message = message => return Some(message),
            () = until(deadline) => self.malformed.expire(),
        }
        None
    }

    fn handle_message(&mut self, incoming: Incoming, lines: &mut LineReader) {
        if let Incoming::Malformed(error, line) = incoming {
            return self.malformed.add(&error, &line, lines);
        }
        self.malformed.expire();
        match incoming {
            Incoming::Handled | Incoming::Malformed(..) => {}
            Incoming::Request(request) => self.request(request),
            Incoming::Notification { method, params } => self.notification(&method, params),
            Incoming::Unmatched { id, reply, was_abandoned } => self.unmatched(&id, &reply, was_abandoned),
        }
    }

    fn is_ready(&self) -> bool {
        self.context.clients.is_ready()
    }
}
