//! The task of one remote connection. It reads the messages that the peer writes, starts a task for each, and ends all
//! of them with the connection.

use super::connection::RemoteConnection;
use super::exchange::{Exchange, HttpSseFallback};
use super::outgoing::OutgoingMessage;
use super::session_check::learn_ping;
use super::{get_stream, headers, http_sse};
use crate::transport::open_transport::FailedRequest;
use config::HttpTransportKind;
use reqwest::header::HeaderMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::Instrument;
use wire::lines::LineReader;
use wire::peer::{CallError, RetryHint};
use wire::{Message, Raw, Request, raw};

/// How many requests to one server may be in flight. A further one fails at once.
pub(crate) const MAX_IN_FLIGHT_REQUESTS: usize = 1024;
/// How many tasks there may be before notifications are dropped.
const MAX_TASKS: usize = 2 * MAX_IN_FLIGHT_REQUESTS;
/// How many replies to requests of the server may be on their way. The next one, and everything behind it, waits for them:
/// a server that takes no replies gets no more of its requests answered.
const MAX_REPLIES: usize = 32;
/// After the connection has ended: how long messages are still read, so that requests among them fail as not sent.
const UNSENT_GRACE: Duration = Duration::from_millis(50);
/// After the connection has ended: how long requests in flight may still be answered.
const IN_FLIGHT_GRACE: Duration = Duration::from_secs(1);
/// How long ending the session may take if the connection was not stopped with a time limit.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for the answer to a cancelled request that may name a task, so that the task can be cancelled too.
const TASK_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The state of the task.
pub(crate) struct ConnectionDriver {
    /// Shared with the tasks.
    connection: Arc<RemoteConnection>,
    /// The messages that the peer writes.
    lines: LineReader,
    /// Set when the connection is to stop: how long that may take.
    stop: watch::Receiver<Option<Duration>>,
    /// One task for each message, and one for each stream of the server.
    tasks: JoinSet<Option<HttpSseFallback>>,
    /// The requests in flight by their tasks.
    in_flight: HashMap<Id, InFlightRequest>,
    /// The task that sends `notifications/initialized`. Nothing else is sent until it has ended.
    initialized: Option<Id>,
    /// The tasks that send replies.
    replies: HashSet<Id>,
    /// When the task noticed that the connection has ended.
    ended_at: Option<Instant>,
}

/// A request that is not answered yet.
struct InFlightRequest {
    /// Its id.
    id: Raw,
    /// Whether the server may answer it with a task that outlives it (2025-11-25).
    creates_task: bool,
    /// The task that sends it.
    task: AbortHandle,
}

impl ConnectionDriver {
    /// A driver that sends the messages in `lines` until `stop` changes.
    pub(crate) fn new(
        connection: RemoteConnection,
        lines: LineReader,
        stop: watch::Receiver<Option<Duration>>,
    ) -> Self {
        Self {
            connection: Arc::new(connection),
            lines,
            stop,
            tasks: JoinSet::new(),
            in_flight: HashMap::new(),
            initialized: None,
            replies: HashSet::new(),
            ended_at: None,
        }
    }

    /// Runs until the connection is stopped, ends, or the peer writes no more; then ends the session.
    pub(crate) async fn run(mut self) {
        loop {
            self.connection.in_flight.store(self.in_flight.len(), Ordering::Relaxed);
            if self.connection.has_ended() {
                self.ended_at.get_or_insert_with(Instant::now);
            }
            let grace = if self.in_flight.is_empty() { UNSENT_GRACE } else { IN_FLIGHT_GRACE };
            let deadline = self.ended_at.map(|ended_at| ended_at + grace);
            tokio::select! {
                biased;
                _ = self.stop.changed() => break,
                Some(joined) = self.tasks.join_next_with_id() => self.on_task_end(joined),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => break,
                line = self.lines.next(), if self.may_send() => match line {
                    Some(Ok(line)) => self.send(line),
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        self.tasks.shutdown().await;
        self.end_session().await;
    }

    /// Starts the task that sends a message. A cancellation first aborts its request. A stateless server is sent
    /// neither cancellations nor responses.
    fn send(&mut self, line: Raw) {
        let (id, method, params) = match Message::parse(&line) {
            Ok(Message::Request(Request { id, method, params })) => {
                (Some(id), (*method).to_owned(), params.map(|params| Raw::clone(&params)))
            }
            Ok(Message::Notification { method, params }) => (None, method, params),
            // A response, or a batch of them.
            _ => (None, String::new(), None),
        };
        if id.is_some() {
            self.connection.stateless.get_or_init(|| method != "initialize");
        }
        let is_stateless = self.connection.is_stateless();
        let headers = match method.as_str() {
            _ if is_stateless => headers::stateless(&method, params.as_ref(), &self.connection.param_headers),
            // The server's era is not known yet.
            "initialize" => headers::mcp_method(&method),
            _ => HeaderMap::new(),
        };
        let creates_task = !is_stateless
            && method == "tools/call"
            && params.as_ref().is_some_and(|params| raw::get(params, "task").is_some());
        let is_cancellation = method == "notifications/cancelled";
        let cancelled = params.filter(|_| is_cancellation).and_then(|params| raw::get(&params, "requestId"));
        if let Some(cancelled) = &cancelled {
            self.abort_request(cancelled);
        }
        // A stateless server takes the end of the HTTP request as the cancellation, and sends no requests that could be
        // responded to.
        if is_stateless && (cancelled.is_some() || method.is_empty()) {
            return;
        }
        let message = OutgoingMessage { id, method, line, headers };
        match message.id.clone() {
            Some(id) => self.send_request(id, creates_task, message),
            None => self.send_notification(message),
        }
    }

    /// Starts the task of a request. If `MAX_IN_FLIGHT_REQUESTS` are in flight, the request fails at once.
    fn send_request(&mut self, id: Raw, creates_task: bool, message: OutgoingMessage) {
        if self.in_flight.len() >= MAX_IN_FLIGHT_REQUESTS {
            let why = format!("{MAX_IN_FLIGHT_REQUESTS} requests to this server are already in flight");
            let error = CallError::Failed { why, hint: RetryHint::Never };
            self.connection.try_report_failure(FailedRequest { id: Some(id), error });
            return;
        }
        let exchange = Exchange { connection: self.connection.clone(), message };
        let task = self.spawn(exchange.send_request());
        self.in_flight.insert(task.id(), InFlightRequest { id, creates_task, task });
    }

    /// Starts the task of a notification or a response. If there are `MAX_TASKS` tasks, drops the message and logs
    /// that.
    fn send_notification(&mut self, message: OutgoingMessage) {
        if self.tasks.len() >= MAX_TASKS {
            let method = message.method;
            tracing::warn!(method, "dropped a notification: too many messages to the server are in flight");
            return;
        }
        let (is_initialized, is_reply) =
            (message.method == "notifications/initialized", message.method.is_empty());
        let exchange = Exchange { connection: self.connection.clone(), message };
        let task = self.spawn_detached(exchange.send_notification());
        self.initialized = is_initialized.then_some(task.id());
        if is_reply {
            self.replies.insert(task.id());
        }
    }

    /// Returns whether another message may be sent.
    fn may_send(&self) -> bool {
        self.initialized.is_none() && self.replies.len() < MAX_REPLIES
    }

    fn spawn(&mut self, task: impl Future<Output = Option<HttpSseFallback>> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(task.in_current_span())
    }

    fn spawn_detached(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn(async {
            task.await;
            None
        })
    }

    /// Aborts the task of a request, which closes its HTTP request. If the server may answer the request with an MCP
    /// task, the answer is awaited for `TASK_ANSWER_TIMEOUT` first, without blocking the driver.
    fn abort_request(&mut self, request: &Raw) {
        let task = self.in_flight.iter().find(|(_, known)| known.id == request).map(|(task, _)| *task);
        let Some(request) = task.and_then(|task| self.in_flight.remove(&task)) else { return };
        if request.creates_task && self.tasks.len() < MAX_TASKS {
            self.spawn_detached(async move {
                sleep(TASK_ANSWER_TIMEOUT).await;
                request.task.abort();
            });
        } else {
            request.task.abort();
        }
    }

    fn on_task_end(&mut self, joined: Result<(Id, Option<HttpSseFallback>), JoinError>) {
        let (task, fallback) = joined.unwrap_or_else(|error| {
            if error.is_panic() {
                tracing::error!("the task of a remote connection panicked");
            }
            (error.id(), None)
        });
        let request = self.in_flight.remove(&task);
        self.replies.remove(&task);
        if self.initialized.take_if(|initialized| *initialized == task).is_some() {
            self.open_get_stream();
        }
        if let Some(HttpSseFallback { message, stream }) = fallback {
            self.connection.found_transport(HttpTransportKind::Sse);
            drop(self.connection.sse_endpoint.set(stream.endpoint));
            self.spawn_detached(http_sse::read(self.connection.clone(), stream.events));
            let exchange = Exchange { connection: self.connection.clone(), message };
            let task = self.spawn(exchange.send_request());
            self.in_flight.extend(request.map(|request| (task.id(), InFlightRequest { task, ..request })));
        }
    }

    /// Opens the server's own stream and learns how it answers a `ping`, after the handshake. HTTP+SSE has its stream already.
    fn open_get_stream(&mut self) {
        if self.connection.sse_endpoint.get().is_none() && !self.connection.has_ended() {
            self.spawn_detached(learn_ping(self.connection.clone()));
            self.spawn_detached(get_stream::run(self.connection.clone()));
        }
    }

    /// Ends the session, if there is one and the server has not ended it. Takes the time of the stop at most, or
    /// `DELETE_TIMEOUT`.
    async fn end_session(self) {
        if self.connection.session_id.get().is_none() || self.connection.has_ended() {
            return;
        }
        let time_limit = self.stop.borrow().unwrap_or(DELETE_TIMEOUT);
        if let Ok(Err(error)) = timeout(time_limit, self.connection.delete_session()).await {
            tracing::debug!(%error, "could not end the session");
        }
    }
}
