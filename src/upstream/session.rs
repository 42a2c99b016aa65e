//! Makes a connection to an upstream: opens the transport, shakes hands, reads the tools; then attends to it until
//! it ends.
//!
//! Phases (DESIGN of the seed): nothing but `initialize` is sent before its answer, then
//! `notifications/initialized`, then requests. What the upstream sends meanwhile is answered if it is a `ping`,
//! else refused or ignored.

use super::audience::Audience;
use super::catalog::{self, Catalog, Introduction};
use super::connect::{Attempted, BoxFuture, Connect, Connecting, Connection, FailedAttempt};
use super::error::UpstreamError;
use super::{Grace, Live};
use crate::config::Server;
use crate::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, code};
use crate::transport::Transport;
use crate::transport::child::Child;
use crate::transport::warden;
use crate::wire::lines::Lines;
use crate::wire::output::Writer;
use crate::wire::peer::{CallError, CallOptions, Incoming, Peer, Text};
use crate::wire::{Raw, Reply, error_object, raw};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// `npx` and `uvx` download before they start what they run.
const INITIALIZE_CHILD: Duration = Duration::from_secs(60);
const INITIALIZE_REMOTE: Duration = Duration::from_secs(5);
/// More pages than any real server has; one that never ends its list is cut off here.
const PAGES: usize = 1000;

/// Connects one group.
#[derive(Clone)]
pub struct Connector {
    pub transport: Transport,
    pub audience: Arc<Audience>,
    /// Bytes of one message.
    pub max_message: usize,
}

impl Connect for Connector {
    fn connect(&self, server: Arc<Server>) -> Connecting {
        let connector = self.clone();
        Box::pin(async move { connector.open(server).await }.in_current_span())
    }
}

impl Connector {
    async fn open(self, server: Arc<Server>) -> Attempted {
        let fail = |error| FailedAttempt { error, closing: None };
        let opened = self.transport.open(&server).await.map_err(|e| fail(e.into()))?;
        let (peer, child) = (Peer::new(opened.output), opened.child);
        let live = Live::new(peer.clone());
        let tools_changed = Arc::new(Notify::new());
        let attendant = Attendant {
            peer: peer.clone(),
            live: live.clone(),
            audience: self.audience,
            tools_changed: tools_changed.clone(),
            child: child.clone(),
            said_garbage: false,
        };
        let lines = Lines::new(opened.input, self.max_message);
        let attended = Attended(tokio::spawn(attendant.run(lines, opened.writer).in_current_span()));
        let session = Session { peer: peer.clone(), live: live.clone(), child: child.clone(), server };
        let outcome = session.introduce().await;
        let output = peer.output().clone();
        let close = move |grace| -> BoxFuture<()> {
            output.close();
            Box::pin(async move { child.stop(timetable(grace)).await })
        };
        match outcome {
            Ok(catalog) => {
                let reader = Arc::new(session);
                let introduction = catalog.introduction.clone();
                let connection = Connection {
                    live,
                    ended: Box::pin(attended.end()),
                    tools_changed,
                    reread: Box::new(move || {
                        let (reader, introduction) = (reader.clone(), introduction.clone());
                        Box::pin(async move { reader.catalog(introduction).await })
                    }),
                    close: Box::new(close),
                };
                Ok((connection, catalog))
            }
            Err(error) => Err(FailedAttempt { error, closing: Some(close(Grace::Ordinary)) }),
        }
    }
}

fn timetable(grace: Grace) -> warden::Grace {
    match grace {
        Grace::Ordinary => warden::Grace::ORDINARY,
        Grace::Shutdown => warden::Grace::FAST,
    }
}

/// The reading task, ended with its owner.
struct Attended(JoinHandle<()>);

impl Attended {
    async fn end(mut self) {
        drop((&mut self.0).await);
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks on a fresh connection, in the order the specification has.
struct Session {
    peer: Arc<Peer>,
    live: Arc<Live>,
    child: Child,
    server: Arc<Server>,
}

impl Session {
    async fn introduce(&self) -> Result<Catalog, UpstreamError> {
        let answer = self.initialize().await?;
        let introduction = Introduction::read(&answer);
        check_introduction(&answer, &introduction);
        self.peer.notify("notifications/initialized", None);
        self.catalog(introduction).await
    }

    /// `initialize`; again with a revision the server names when it refuses ours.
    async fn initialize(&self) -> Result<Raw, UpstreamError> {
        let reply = self.ask_initialize(LATEST_HANDSHAKE).await?;
        let Err(refusal) = &reply else { return self.accept("initialize", reply) };
        let supported = raw::get(refusal, "data").and_then(|data| raw::get(&data, "supported"));
        let supported: Vec<String> =
            supported.and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default();
        let common = HANDSHAKE_REVISIONS.iter().rev().find(|known| supported.iter().any(|s| s == *known));
        match common {
            Some(revision) => self.accept("initialize", self.ask_initialize(revision).await?),
            None => self.accept("initialize", reply),
        }
    }

    async fn ask_initialize(&self, revision: &str) -> Result<Reply, UpstreamError> {
        let params = serde_json::json!({
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": { "name": "dynamic-mcp", "title": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") },
        });
        let default = match self.server.endpoint {
            crate::config::Endpoint::Stdio(_) => INITIALIZE_CHILD,
            crate::config::Endpoint::Http(_) => INITIALIZE_REMOTE,
        };
        let time = self.server.timeout.initialize.unwrap_or(default);
        let options = CallOptions { cancellable: false, ..CallOptions::within(time) };
        self.ask("initialize", Some(params.to_string().into()), options).await
    }

    /// Every list that the catalog holds, all pages.
    async fn catalog(&self, introduction: Introduction) -> Result<Catalog, UpstreamError> {
        let mut tools = Vec::new();
        if self.server.features.tools && introduction.offers("tools") {
            self.read_tools(&mut tools, &introduction).await?;
        }
        Ok(Catalog::new(introduction, tools))
    }

    async fn read_tools(
        &self,
        tools: &mut Vec<(catalog::Tool, Raw)>,
        introduction: &Introduction,
    ) -> Result<(), UpstreamError> {
        let (mut cursor, mut seen) = (None::<Raw>, HashSet::new());
        for _ in 0..PAGES {
            let params = cursor.as_ref().map(|c| raw::set(&Raw::from_static(b"{}"), "cursor", c));
            let options = CallOptions::within(self.server.timeout.list);
            let reply = self.ask("tools/list", params, options).await?;
            if let Err(refusal) = &reply
                && !introduction.declares("tools")
                && error_code(refusal) == code::METHOD_NOT_FOUND
            {
                // It declared no capabilities and has no tools: that agrees.
                return Ok(());
            }
            let page = self.accept("tools/list", reply)?;
            let page = catalog::read_page(&page).map_err(|what| self.protocol("tools/list", what))?;
            tools.extend(page.tools);
            match page.next {
                Some(next) if seen.insert(next.clone()) => cursor = Some(next),
                Some(_) => {
                    tracing::warn!("the server's tools/list repeats a cursor; what it gave so far is used");
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        tracing::warn!(pages = PAGES, "the server's tools/list does not end; what it gave so far is used");
        Ok(())
    }

    async fn ask(
        &self,
        step: &'static str,
        params: Option<Raw>,
        options: CallOptions,
    ) -> Result<Reply, UpstreamError> {
        self.peer.call(step, params, options).await.map_err(|error| match error {
            CallError::TimedOut(after) => {
                UpstreamError::TimedOut { step, after, stderr: self.child.last_words() }
            }
            CallError::TooLong { .. } => self.protocol(step, error.to_string()),
            CallError::Closed { .. } => {
                self.live.lost.get().map_or(UpstreamError::Internal, |lost| lost.while_waiting_for(step))
            }
        })
    }

    fn accept(&self, step: &'static str, reply: Reply) -> Result<Raw, UpstreamError> {
        let error = match reply {
            Ok(result) if result.first() == Some(&b'{') => return Ok(result),
            Ok(_) => return Err(self.protocol(step, "a result that is no object".to_owned())),
            Err(error) => error,
        };
        let message = raw::get_str(&error, "message").unwrap_or_else(|| "no message".to_owned());
        Err(UpstreamError::Refused {
            step,
            code: error_code(&error),
            message,
            stderr: self.child.last_words(),
        })
    }

    fn protocol(&self, step: &'static str, what: String) -> UpstreamError {
        UpstreamError::Protocol { step, what, stderr: self.child.last_words() }
    }
}

fn error_code(error: &Raw) -> i64 {
    raw::get(error, "code").and_then(|code| serde_json::from_slice(&code).ok()).unwrap_or_default()
}

/// Old and sloppy servers are taken as they are; the log says so.
fn check_introduction(answer: &Raw, introduction: &Introduction) {
    if introduction.protocol_version.is_empty() {
        tracing::warn!("the server's answer to initialize has no protocolVersion");
    } else if !HANDSHAKE_REVISIONS.contains(&introduction.protocol_version.as_str()) {
        let revision = &introduction.protocol_version;
        tracing::warn!(%revision, "the server speaks a protocol revision that dynamic-mcp does not know");
    }
    if introduction.capabilities.is_none() {
        tracing::warn!("the server's answer to initialize has no capabilities");
    }
    if raw::get(answer, "tools").is_some() {
        tracing::warn!("the server's answer to initialize carries tools; those of tools/list are used");
    }
}

/// Reads what the upstream sends, until it ends.
struct Attendant {
    peer: Arc<Peer>,
    live: Arc<Live>,
    audience: Arc<Audience>,
    tools_changed: Arc<Notify>,
    child: Child,
    said_garbage: bool,
}

impl Attendant {
    async fn run(mut self, mut lines: Lines<impl AsyncRead + Unpin>, writer: Writer) {
        let child = self.child.clone();
        let writing = async {
            // A server that closed its stdin may still have answers to give.
            drop(writer.run().await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.read(&mut lines) => {}
            () = writing => {}
            () = child.drained() => {}
        }
        self.live.lose(child.ending().await.into());
        self.peer.end();
    }

    async fn read(&mut self, lines: &mut Lines<impl AsyncRead + Unpin>) {
        loop {
            self.audience.ready().await;
            match self.peer.receive(lines).await {
                None => return,
                Some(Incoming::Settled) => {}
                Some(Incoming::Request(request)) => {
                    let reply = match request.method.as_str() {
                        "ping" => Ok(Raw::from_static(b"{}")),
                        method => {
                            let message = format!("{method} is not supported by this client");
                            Err(error_object(code::METHOD_NOT_FOUND, &message, None))
                        }
                    };
                    self.peer.reply(&request.id, reply);
                }
                Some(Incoming::Notification { method, .. }) => match method.as_str() {
                    "notifications/tools/list_changed" => self.tools_changed.notify_one(),
                    method => tracing::debug!(method, "ignored a notification"),
                },
                Some(Incoming::Malformed(what, line)) => self.garbage(&what, &line),
            }
        }
    }

    fn garbage(&mut self, what: &crate::wire::Malformed, line: &Raw) {
        if self.said_garbage {
            tracing::debug!(?what, line = %Text(line), "skipped a line");
        } else {
            self.said_garbage = true;
            tracing::warn!(line = %Text(line), "skipped a line on the server's stdout that is not MCP (said once)");
        }
    }
}
