//! Reads what an upstream sends, until it ends: answers go to their calls, requests and notifications to the client.

use super::audience::Audience;
use super::audience::questions::Question;
use super::{Live, dialect, task_ids};
use crate::config::GroupName;
use crate::protocol::{Era, code};
use crate::transport::remote::error::FailedRequest;
use crate::transport::{RequestFailures, TransportHandle};
use crate::wire::inbound::InboundRequests;
use crate::wire::lines::LineReader;
use crate::wire::output::Writer;
use crate::wire::peer::{CancelParams, Incoming, LogText, Peer, Progress};
use crate::wire::{MessageError, Raw, Request, error_object, raw};
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::Notify;

/// Requests of one upstream that wait for the client; beyond that they are refused. Its answers are read all the same.
const OPEN_REQUESTS: usize = 256;

/// Whose connection it is, and who is told.
pub struct Attends {
    pub group: GroupName,
    pub peer: Arc<Peer>,
    pub live: Arc<Live>,
    pub audience: Arc<Audience>,
    pub lists_changed: Arc<Notify>,
    pub link: TransportHandle,
    pub failures: RequestFailures,
}

pub struct Attendant {
    of: Attends,
    serving: InboundRequests,
    said_garbage: bool,
}

impl Attendant {
    pub fn new(of: Attends) -> Self {
        // Whatever revision it turns out to speak: nothing of what it says is lost.
        of.peer.accept_batches();
        let internal = error_object(code::INTERNAL_ERROR, "internal error in dynamic-mcp", None);
        Self { serving: InboundRequests::new(of.peer.clone(), internal), of, said_garbage: false }
    }

    pub async fn run(mut self, mut lines: LineReader<impl AsyncRead + Unpin>, writer: Writer) {
        let link = self.of.link.clone();
        let writing = async {
            // A server that closed its stdin may still have answers to give.
            drop(writer.run().await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.read(&mut lines) => {}
            () = writing => {}
            () = link.drained() => {}
        }
        self.of.live.lose(link.ending().await.into());
        self.of.peer.end();
    }

    async fn read(&mut self, lines: &mut LineReader<impl AsyncRead + Unpin>) {
        loop {
            self.of.audience.ready().await;
            tokio::select! {
                () = self.serving.ended() => {}
                failure = self.of.failures.next() => self.failed(failure),
                incoming = self.of.peer.receive(lines) => match incoming {
                    None => return,
                    Some(Incoming::Handled) => {}
                    Some(Incoming::Request(request)) => self.request(request),
                    Some(Incoming::Notification { method, params }) => self.notification(&method, params),
                    Some(Incoming::Malformed(what, line)) => self.garbage(&what, &line),
                },
            }
        }
    }

    /// Whoever asks again, because it was not carried out, must find that this connection takes nothing more.
    fn failed(&self, FailedRequest { id, error }: FailedRequest) {
        if let Some(ending) = self.of.link.over() {
            self.of.live.lose(ending.into());
        }
        if let Some(id) = id {
            self.of.peer.fail(&id, error);
        }
    }

    fn request(&mut self, request: Request) {
        if request.method == "ping" {
            return self.of.peer.reply(&request.id, Ok(Raw::from_static(b"{}")));
        }
        if self.serving.len() >= OPEN_REQUESTS {
            let full = "too many requests are open; wait for the answers to some of them";
            let error = error_object(code::INTERNAL_ERROR, full, None);
            return self.of.peer.reply(&request.id, Err(error));
        }
        let token = request.params.as_ref().and_then(|p| raw::get(&raw::get(p, "_meta")?, "progressToken"));
        let progress = token.map(|token| Progress::new(self.of.peer.output().clone(), token));
        let cancelled = CancelParams::default();
        let question = Question {
            group: self.of.group.clone(),
            method: request.method,
            params: request.params.map(|params| task_ids::related_out(&self.of.group, &params)),
            progress,
            cancelled: cancelled.clone(),
        };
        let audience = self.of.audience.clone();
        self.serving.start(request.id, Box::pin(async move { audience.ask(question).await }), cancelled);
    }

    fn notification(&mut self, method: &str, params: Option<Raw>) {
        match method {
            // The catalog is read again; who lists is told when it is known to differ.
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => self.of.lists_changed.notify_one(),
            "notifications/cancelled" => {
                let Some(params) = params else { return };
                // Where there is no handshake the server has no requests of its own that it could cancel.
                let ours = raw::get(&params, "requestId").filter(|_| self.of.live.era == Era::Stateless);
                if !ours.is_some_and(|id| self.of.peer.end_subscription(&id)) {
                    self.serving.cancel(params);
                }
            }
            // Of a call that is over, or one that no client wanted to hear of; and the beginning of a subscription of ours.
            "notifications/progress" | "notifications/subscriptions/acknowledged" => {}
            method => {
                let params = match self.of.live.era {
                    Era::Handshake => params,
                    Era::Stateless => params.map(|params| dialect::without_subscription(&params)),
                };
                let params = params.map(|params| task_ids::related_out(&self.of.group, &params));
                let of_task = matches!(method, "notifications/tasks/status" | "notifications/tasks");
                let params = params
                    .map(|params| if of_task { task_ids::out(&self.of.group, &params) } else { params });
                self.of.audience.notify(&self.of.group, method, params.as_ref());
            }
        }
    }

    fn garbage(&mut self, what: &MessageError, line: &Raw) {
        if self.said_garbage {
            tracing::debug!(?what, line = %LogText(line), "skipped a line");
        } else {
            self.said_garbage = true;
            tracing::warn!(line = %LogText(line), "skipped what the server said that is not MCP (said once)");
        }
    }
}
