//! Makes a connection to an upstream: opens the transport, shakes hands, reads the tools; then attends to it until
//! it ends.
//!
//! Phases (DESIGN of the seed): nothing but `initialize` is sent before its answer, then
//! `notifications/initialized`, then requests. What the upstream sends meanwhile is answered if it is a `ping`,
//! else refused or ignored.

use super::attendant::{Attendant, Attends};
use super::audience::Audience;
use super::catalog::{self, Catalog, Introduction, Lists};
use super::connect::{Attempted, BoxFuture, Connect, Connecting, Connection, FailedAttempt};
use super::error::UpstreamError;
use super::{Grace, Live};
use crate::config::{GroupName, Server};
use crate::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, code};
use crate::transport::Transport;
use crate::transport::child::Child;
use crate::transport::warden;
use crate::wire::lines::Lines;
use crate::wire::peer::{CallError, CallOptions, Peer};
use crate::wire::{Raw, Reply, raw};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
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
    pub group: GroupName,
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
        let lists_changed = Arc::new(Notify::new());
        let offer = self.audience.offer();
        let attendant = Attendant::new(Attends {
            group: self.group,
            peer: peer.clone(),
            live: live.clone(),
            audience: self.audience.clone(),
            lists_changed: lists_changed.clone(),
            child: child.clone(),
        });
        let lines = Lines::new(opened.input, self.max_message);
        let attended = Attended(tokio::spawn(attendant.run(lines, opened.writer).in_current_span()));
        let session = Session { peer: peer.clone(), live: live.clone(), child: child.clone(), server };
        let outcome = session.introduce(&offer, &self.audience).await;
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
                    lists_changed,
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
    async fn introduce(&self, offer: &Raw, audience: &Audience) -> Result<Catalog, UpstreamError> {
        let answer = self.initialize(offer).await?;
        let introduction = Introduction::read(&answer);
        check_introduction(&answer, &introduction);
        self.peer.notify("notifications/initialized", None);
        let logs = introduction.declares("logging");
        let level = audience.level().filter(|_| logs);
        self.set_level(level.as_deref()).await;
        let catalog = self.catalog(introduction).await?;
        // Whoever sets another meanwhile does not find this connection yet.
        let now = audience.level().filter(|now| logs && level.as_ref() != Some(now));
        self.set_level(now.as_deref()).await;
        Ok(catalog)
    }

    async fn set_level(&self, level: Option<&str>) {
        let Some(level) = level else { return };
        let params = serde_json::json!({ "level": level }).to_string();
        let options = CallOptions::within(self.server.timeout.list);
        // Its answer says nothing that matters here.
        drop(self.peer.call("logging/setLevel", Some(params.into()), options).await);
    }

    /// `initialize`; again with a revision the server names when it refuses ours.
    async fn initialize(&self, offer: &Raw) -> Result<Raw, UpstreamError> {
        let reply = self.ask_initialize(LATEST_HANDSHAKE, offer).await?;
        let Err(refusal) = &reply else { return self.accept("initialize", reply) };
        let supported = raw::get(refusal, "data").and_then(|data| raw::get(&data, "supported"));
        let supported: Vec<String> =
            supported.and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default();
        let common = HANDSHAKE_REVISIONS.iter().rev().find(|known| supported.iter().any(|s| s == *known));
        match common {
            Some(revision) => self.accept("initialize", self.ask_initialize(revision, offer).await?),
            None => self.accept("initialize", reply),
        }
    }

    async fn ask_initialize(&self, revision: &str, offer: &Raw) -> Result<Reply, UpstreamError> {
        let params = serde_json::json!({
            "protocolVersion": revision,
            "clientInfo": { "name": "dynamic-mcp", "title": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") },
        });
        let default = match self.server.endpoint {
            crate::config::Endpoint::Stdio(_) => INITIALIZE_CHILD,
            crate::config::Endpoint::Http(_) => INITIALIZE_REMOTE,
        };
        let time = self.server.timeout.initialize.unwrap_or(default);
        let options = CallOptions { cancellable: false, ..CallOptions::within(time) };
        let params = raw::set(&params.to_string().into(), "capabilities", offer);
        self.ask("initialize", Some(params), options).await
    }

    /// Every list that the catalog holds, all pages.
    async fn catalog(&self, introduction: Introduction) -> Result<Catalog, UpstreamError> {
        let features = self.server.features;
        let (resources, prompts) = (features.resources, features.prompts);
        let (tools, resources, templates, prompts) = tokio::join!(
            self.list("tools/list", features.tools && introduction.offers("tools"), &introduction),
            self.list("resources/list", resources && introduction.declares("resources"), &introduction),
            self.list(
                "resources/templates/list",
                resources && introduction.declares("resources"),
                &introduction
            ),
            self.list("prompts/list", prompts && introduction.declares("prompts"), &introduction),
        );
        let tools = tools?.iter().flat_map(catalog::read_tools).collect();
        // Without these lists a group still works.
        let rest = |list: Result<Vec<Raw>, UpstreamError>, what: &str, key: &str| {
            let pages = list.unwrap_or_else(|error| {
                tracing::warn!(%error, "the server's {what} cannot be read");
                Vec::new()
            });
            pages.iter().flat_map(|page| catalog::read_listed(page, what, key)).collect()
        };
        let lists = Lists {
            resources: rest(resources, "resources", "uri"),
            templates: rest(templates, "resourceTemplates", "uriTemplate"),
            prompts: rest(prompts, "prompts", "name"),
        };
        Ok(Catalog::new(introduction, tools, lists))
    }

    /// All pages of one list; none where it is not `asked` for.
    async fn list(
        &self,
        method: &'static str,
        asked: bool,
        introduction: &Introduction,
    ) -> Result<Vec<Raw>, UpstreamError> {
        let (mut pages, mut cursor, mut seen) = (Vec::new(), None::<Raw>, HashSet::new());
        while asked && pages.len() < PAGES {
            let params = cursor.as_ref().map(|c| raw::set(&Raw::from_static(b"{}"), "cursor", c));
            let reply = self.ask(method, params, CallOptions::within(self.server.timeout.list)).await?;
            if let Err(refusal) = &reply
                && !(method == "tools/list" && introduction.declares("tools"))
                && error_code(refusal) == code::METHOD_NOT_FOUND
            {
                // It did not say that it has any (or has resources and no templates): that agrees.
                break;
            }
            let page = self.accept(method, reply)?;
            let next = raw::get(&page, "nextCursor").filter(|cursor| &cursor[..] != b"null");
            catalog::check_page(&page, method).map_err(|what| self.protocol(method, what))?;
            pages.push(page);
            match next {
                Some(next) if seen.insert(next.clone()) => cursor = Some(next),
                Some(_) => {
                    tracing::warn!("the server's {method} repeats a cursor; what it gave so far is used");
                    break;
                }
                None => break,
            }
        }
        if pages.len() == PAGES {
            tracing::warn!(pages = PAGES, "the server's {method} does not end; what it gave so far is used");
        }
        Ok(pages)
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
