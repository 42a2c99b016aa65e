//! The loop of one remote connection: takes what the peer writes, has each message sent, ends everything with the
//! connection.

use super::exchange::{Done, Exchange};
use super::post::Post;
use super::{headers, legacy, standing};
use crate::transport::connection::FailedRequest;
use crate::wire::lines::LineReader;
use crate::wire::peer::{CallError, RetryHint};
use crate::wire::{Message, Raw, raw};
use reqwest::Method;
use reqwest::header::HeaderMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

/// Requests under way. One more fails at once.
const OPEN: usize = 1024;
/// Once nothing more can be sent: what is still on its way to us learns that it was not sent,
const SETTLE: Duration = Duration::from_millis(50);
/// and what was sent may still be answered.
const LAST: Duration = Duration::from_secs(1);

pub struct Driver {
    exchange: Arc<Exchange>,
    lines: LineReader<DuplexStream>,
    /// How long the end may take, once it is to come.
    stop: watch::Receiver<Option<Duration>>,
    work: JoinSet<Done>,
    /// The requests that are under way.
    open: HashMap<Id, (Raw, AbortHandle)>,
    /// The end of the handshake: nothing overtakes it.
    handshake: Option<Id>,
    over: Option<Instant>,
}

impl Driver {
    pub fn new(
        exchange: Exchange,
        lines: LineReader<DuplexStream>,
        stop: watch::Receiver<Option<Duration>>,
    ) -> Self {
        Self {
            exchange: Arc::new(exchange),
            lines,
            stop,
            work: JoinSet::new(),
            open: HashMap::new(),
            handshake: None,
            over: None,
        }
    }

    pub async fn run(mut self) {
        loop {
            if self.exchange.over.get().is_some() {
                self.over.get_or_insert_with(Instant::now);
            }
            let end = self.over.map(|since| since + if self.open.is_empty() { SETTLE } else { LAST });
            tokio::select! {
                biased;
                _ = self.stop.changed() => break,
                Some(done) = self.work.join_next_with_id() => self.done(done),
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => break,
                line = self.lines.next(), if self.handshake.is_none() => match line {
                    Some(Ok(line)) => self.take(line),
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        self.work.shutdown().await;
        self.leave().await;
    }

    fn spawn(&mut self, work: impl Future<Output = Done> + Send + 'static) -> AbortHandle {
        self.work.spawn(work.in_current_span())
    }

    /// Has a message of ours sent.
    fn take(&mut self, line: Raw) {
        let (id, method, params) = match Message::parse(&line) {
            Ok(Message::Request(request)) => (Some(request.id), request.method, request.params),
            Ok(Message::Notification { method, params }) => (None, method, params),
            // An answer, or several in a batch. Stateless servers ask nothing that could be answered so.
            _ => (None, String::new(), None),
        };
        if id.is_some() {
            self.exchange.stateless.get_or_init(|| method != "initialize");
        }
        let stateless = self.exchange.is_stateless();
        let headers = match method.as_str() {
            _ if stateless => headers::of(&method, params.as_ref(), &self.exchange.annotations),
            // Nobody knows the server's era yet.
            "initialize" => headers::method(&method),
            _ => HeaderMap::new(),
        };
        let cancelled = params.filter(|_| method == "notifications/cancelled");
        let cancelled = cancelled.and_then(|params| raw::get(&params, "requestId"));
        if let Some(cancelled) = &cancelled {
            self.cancel(cancelled);
        }
        if stateless && (cancelled.is_some() || method.is_empty()) {
            return;
        }
        let post = Post { id, method, line, headers };
        let exchange = self.exchange.clone();
        match &post.id {
            Some(_) if self.open.len() >= OPEN => self.refuse(&post),
            Some(id) => {
                let id = id.clone();
                let task = self.spawn(exchange.ask(post));
                self.open.insert(task.id(), (id, task));
            }
            None if self.work.len() >= 2 * OPEN => {
                tracing::warn!(method = %post.method, "dropped a notification");
            }
            None => {
                let handshake = post.method == "notifications/initialized";
                let task = self.spawn(exchange.tell(post));
                self.handshake = handshake.then_some(task.id());
            }
        }
    }

    /// Lets go of a request's answer. To a stateless server that is the cancellation; others are told in words.
    fn cancel(&mut self, request: &Raw) {
        let task = self.open.iter().find(|(_, (id, _))| id == request).map(|(task, _)| *task);
        if let Some((_, task)) = task.and_then(|task| self.open.remove(&task)) {
            task.abort();
        }
    }

    fn refuse(&self, post: &Post) {
        let why = format!("{OPEN} requests of this server are under way already");
        let error = CallError::Failed { why, hint: RetryHint::Never };
        // If even this finds no room, the call runs out of its time.
        drop(self.exchange.failures.try_send(FailedRequest { id: post.id.clone(), error }));
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        let (task, done) = match done {
            Ok((task, done)) => (task, done),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!("a request to a remote server failed inside dynamic-mcp");
                }
                (error.id(), Done::Handled)
            }
        };
        let request = self.open.remove(&task);
        if self.handshake.take_if(|handshake| *handshake == task).is_some() {
            let exchange = self.exchange.clone();
            if exchange.endpoint.get().is_none() && exchange.over.get().is_none() {
                self.spawn(async move {
                    standing::listen(exchange).await;
                    Done::Handled
                });
            }
        }
        if let Done::Legacy(turned) = done {
            let (post, opened) = *turned;
            tracing::debug!("the server speaks the legacy HTTP+SSE transport");
            let exchange = self.exchange.clone();
            drop(exchange.endpoint.set(opened.endpoint));
            let reader = exchange.clone();
            self.spawn(async move {
                legacy::read(reader, opened.events).await;
                Done::Handled
            });
            let task = self.spawn(exchange.ask(post));
            self.open.extend(request.map(|(id, _)| (task.id(), (id, task))));
        }
    }

    /// Ends the session, if there is one that the server has not ended itself.
    async fn leave(&self) {
        let session = self.exchange.session.get().is_some() && self.exchange.over.get().is_none();
        let within = self.stop.borrow().unwrap_or(LAST);
        if session {
            let request = super::http::Request {
                method: Method::DELETE,
                url: self.exchange.http.url.clone(),
                headers: self.exchange.of_session(),
                body: None,
                patience: Duration::ZERO,
            };
            // 405 says that sessions end by themselves.
            let left = tokio::time::timeout(within, self.exchange.http.send(request)).await;
            if let Ok(Err(fault)) = left {
                tracing::debug!(%fault, "the session could not be ended");
            }
        }
    }
}
