//! Reads what an upstream sends until its connection ends: answers go to their calls, requests and notifications to the
//! clients.

use super::clients::{ClientRequest, Clients};
use super::lease::LiveConnection;
use super::{task_ids, translate};
use crate::config::GroupName;
use crate::protocol::methods::notification;
use crate::protocol::{Era, code};
use crate::transport::{FailedRequest, RequestFailures, TransportHandle};
use crate::wire::inbound::InboundRequests;
use crate::wire::lines::LineReader;
use crate::wire::log_text::LogText;
use crate::wire::output::Writer;
use crate::wire::peer::{CancelParams, Incoming, Peer, Progress};
use crate::wire::{MessageError, Raw, Request, error_object, raw};
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::Notify;

/// How many requests of one upstream may wait for the client. Further ones are rejected; answers are still read.
const MAX_OPEN_REQUESTS: usize = 256;

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
    pub lists_changed: Arc<Notify>,
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
    /// Whether a malformed line was logged as a warning already.
    warned: bool,
}

impl Reader {
    /// Makes a reader for a connection.
    pub fn new(context: ReaderContext) -> Self {
        // A batch is accepted in every revision, even where a server should not send one.
        context.peer.accept_batches();
        let internal = error_object(code::INTERNAL_ERROR, "internal error in dynamic-mcp", None);
        Self { requests: InboundRequests::new(context.peer.clone(), internal), context, warned: false }
    }

    /// Reads and writes until the connection ends, then fails every open call.
    pub async fn run(mut self, mut lines: LineReader<impl AsyncRead + Unpin>, writer: Writer) {
        let handle = self.context.handle.clone();
        let writing = async {
            // A server that closed its stdin may still answer.
            drop(writer.run().await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.read(&mut lines) => {}
            () = writing => {}
            () = handle.drained() => {}
        }
        self.context.live.lose(handle.connection_end().await.into());
        self.context.peer.end();
    }

    async fn read(&mut self, lines: &mut LineReader<impl AsyncRead + Unpin>) {
        loop {
            if !self.context.clients.is_ready() {
                self.context.clients.ready().await;
            }
            tokio::select! {
                () = self.requests.ended() => {}
                failed = self.context.failures.next() => self.request_failed(failed),
                incoming = self.context.peer.receive(lines) => match incoming {
                    None => return,
                    Some(Incoming::Handled) => {}
                    Some(Incoming::Request(request)) => self.request(request),
                    Some(Incoming::Notification { method, params }) => self.notification(&method, params),
                    Some(Incoming::Malformed(error, line)) => self.malformed(&error, &line),
                },
            }
        }
    }

    /// Closes the connection to new callers before the call fails: a caller that repeats its request must not find the
    /// same connection.
    fn request_failed(&self, FailedRequest { id, error }: FailedRequest) {
        if let Some(ending) = self.context.handle.close_reason() {
            self.context.live.lose(ending.into());
        }
        if let Some(id) = id {
            self.context.peer.fail(&id, error);
        }
    }

    fn request(&mut self, request: Request) {
        let peer = &self.context.peer;
        if request.method == "ping" {
            return peer.reply(&request.id, Ok(Raw::from_static(b"{}")));
        }
        if self.requests.len() >= MAX_OPEN_REQUESTS {
            let message = "too many requests are open; wait for some of the answers";
            return peer.reply(&request.id, Err(error_object(code::INTERNAL_ERROR, message, None)));
        }
        let token = request.params.as_ref().and_then(|p| raw::get(&raw::get(p, "_meta")?, "progressToken"));
        let progress = token.map(|token| Progress::new(peer.output().clone(), token));
        let cancel_params = CancelParams::default();
        let group = self.context.group.clone();
        let answer = self.context.clients.request(ClientRequest {
            params: request.params.map(|params| task_ids::expose_related(&group, &params)),
            group,
            method: request.method,
            progress,
            cancel_params: cancel_params.clone(),
        });
        self.requests.start(request.id, answer, cancel_params);
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match method {
            // The lists are read again. Clients are told once they are known to differ.
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

    fn malformed(&mut self, error: &MessageError, line: &Raw) {
        if self.warned {
            tracing::debug!(?error, line = %LogText(line), "skipped a line that is not an MCP message");
        } else {
            self.warned = true;
            tracing::warn!(
                line = %LogText(line),
                "skipped a line that is not an MCP message (further ones are logged at debug level)"
            );
        }
    }
}
