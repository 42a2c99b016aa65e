//! Makes a connection to an upstream: opens the transport, lets both introduce themselves (`introduce`), reads the
//! lists; then attends to it until it ends.

use super::attendant::{Attendant, Attends};
use super::audience::Audience;
use super::catalog::{self, Catalog, Introduction, Lists};
use super::connect::{Attempted, BoxFuture, Connect, Connecting, Connection, FailedAttempt};
use super::error::UpstreamError;
use super::introduce::{Other, PROBE, Unknown, supported};
use super::listening::listen;
use super::{Grace, Live, dialect};
use crate::config::{GroupName, ServerConfig};
use crate::protocol::{Era, code};
use crate::transport::warden::StopTimeouts;
use crate::transport::{Transport, TransportHandle};
use crate::wire::lines::LineReader;
use crate::wire::peer::{CallError, CallOptions, Peer};
use crate::wire::{Raw, Reply, raw};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

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
    /// How the server was last found.
    pub found: Arc<Found>,
}

/// What of a server's eras is remembered from one connection to the next.
#[derive(Default)]
pub struct Found {
    stateless: AtomicBool,
    /// It names a revision of the other era and goes on in this one alone.
    insists: AtomicBool,
}

impl Found {
    pub fn new(era: Era) -> Arc<Self> {
        Arc::new(Self { stateless: AtomicBool::new(era == Era::Stateless), insists: AtomicBool::default() })
    }
}

impl Connect for Connector {
    fn connect(&self, server: Arc<ServerConfig>) -> Connecting {
        let connector = self.clone();
        Box::pin(async move { connector.open(server).await }.in_current_span())
    }
}

/// An attempt in one era that failed.
struct Tried {
    failed: FailedAttempt,
    other: Other,
}

impl From<UpstreamError> for Tried {
    fn from(error: UpstreamError) -> Self {
        Self { failed: FailedAttempt { error, closing: None }, other: Other::No }
    }
}

impl Connector {
    /// Connects in the era that the server was last found in, `initialize` first; in the other one, with a process of
    /// its own, if the server says that it is of that one.
    async fn open(self, server: Arc<ServerConfig>) -> Attempted {
        let (first, other) = match self.found.stateless.load(Ordering::Relaxed) {
            false => (Era::Handshake, Era::Stateless),
            true => (Era::Stateless, Era::Handshake),
        };
        let insists = self.found.insists.load(Ordering::Relaxed);
        let started = Instant::now();
        let Tried { failed: refused, other: why } = match self.open_in(first, &server, None, insists).await {
            Ok(connected) => return Ok(connected),
            Err(Tried { failed, other: Other::No }) => return Err(failed),
            Err(tried) => tried,
        };
        let took = started.elapsed();
        if let Some(closing) = refused.closing {
            closing.await;
        }
        // Whoever waits for the group is to hear of the refusal soon, unless the server was known to be of the other era.
        let at_most = (other == Era::Stateless).then(|| took + PROBE);
        let Tried { failed, other: again } = match self.open_in(other, &server, at_most, true).await {
            Ok(connected) => {
                self.found.stateless.store(other == Era::Stateless, Ordering::Relaxed);
                return Ok(connected);
            }
            Err(tried) => tried,
        };
        // Who gets as far as to be asked for a login has found the server's era.
        let needs_person = matches!(&failed.error, UpstreamError::Remote(fault) if fault.needs_person());
        match why {
            _ if needs_person => Err(failed),
            Other::Rather => {
                if let Some(closing) = failed.closing {
                    closing.await;
                }
                let connected = self.open_in(first, &server, None, true).await;
                self.found.insists.store(connected.is_ok(), Ordering::Relaxed);
                connected.map_err(|tried| tried.failed)
            }
            _ if again == Other::No => Err(failed),
            // What the server said first is what it has to say.
            _ => Err(FailedAttempt { error: refused.error, closing: failed.closing }),
        }
    }

    /// `at_most`: for the first answer, whatever the config says. `insists`: the other era was tried.
    async fn open_in(
        &self,
        era: Era,
        server: &Arc<ServerConfig>,
        at_most: Option<Duration>,
        insists: bool,
    ) -> Result<(Connection, Catalog), Tried> {
        let opened =
            self.transport.open(&self.group, server, self.max_message).await.map_err(UpstreamError::from)?;
        let (peer, link) = (Peer::new(opened.output), opened.handle);
        let live = Live::new(peer.clone(), era);
        let lists_changed = Arc::new(Notify::new());
        let offer = self.audience.offer();
        let attendant = Attendant::new(Attends {
            group: self.group.clone(),
            peer: peer.clone(),
            live: live.clone(),
            audience: self.audience.clone(),
            lists_changed: lists_changed.clone(),
            link: link.clone(),
            failures: opened.failures,
        });
        let lines = LineReader::new(opened.input, self.max_message);
        let attended = Owned(tokio::spawn(attendant.run(lines, opened.writer).in_current_span()));
        let session = Session {
            peer: peer.clone(),
            live: live.clone(),
            link: link.clone(),
            server: server.clone(),
            era,
            at_most,
            insists,
        };
        let outcome = session.introduce(&offer, &self.audience).await;
        let output = peer.output().clone();
        let close = move |grace| -> BoxFuture<()> {
            output.close();
            Box::pin(async move { link.stop(stop_timeouts(grace)).await })
        };
        match outcome {
            Ok(catalog) => {
                let reader = Arc::new(session);
                let introduction = catalog.introduction.clone();
                let listening = (era == Era::Stateless)
                    .then(|| Owned(tokio::spawn(listen(peer, introduction.clone()).in_current_span())));
                let connection = Connection {
                    live,
                    ended: Box::pin(async move {
                        attended.end().await;
                        drop(listening);
                    }),
                    lists_changed,
                    reread: Box::new(move || {
                        let (reader, introduction) = (reader.clone(), introduction.clone());
                        Box::pin(async move { reader.catalog(introduction).await })
                    }),
                    close: Box::new(close),
                };
                Ok((connection, catalog))
            }
            Err(Unknown { error, other }) => {
                Err(Tried { failed: FailedAttempt { error, closing: Some(close(Grace::Ordinary)) }, other })
            }
        }
    }
}

fn stop_timeouts(grace: Grace) -> StopTimeouts {
    match grace {
        Grace::Ordinary => StopTimeouts::ORDINARY,
        Grace::Shutdown => StopTimeouts::FAST,
    }
}

/// A task that ends with its owner.
struct Owned(JoinHandle<()>);

impl Owned {
    async fn end(mut self) {
        drop((&mut self.0).await);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks on a fresh connection, in the order the specification has.
pub(super) struct Session {
    pub(super) peer: Arc<Peer>,
    live: Arc<Live>,
    link: TransportHandle,
    pub(super) server: Arc<ServerConfig>,
    pub(super) era: Era,
    pub(super) at_most: Option<Duration>,
    /// Whatever revision the server names, it is taken for one of this era.
    pub(super) insists: bool,
}

impl Session {
    /// Every list that the catalog holds, all pages.
    pub(super) async fn catalog(&self, introduction: Introduction) -> Result<Catalog, UpstreamError> {
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

    pub(super) async fn ask(
        &self,
        step: &'static str,
        params: Option<Raw>,
        options: CallOptions,
    ) -> Result<Reply, UpstreamError> {
        let params = dialect::request(params, Era::Handshake, self.era);
        self.peer.call(step, params, options).await.map_err(|error| match error {
            CallError::TimedOut(after) => {
                UpstreamError::TimedOut { step, after, stderr: self.link.stderr_tail() }
            }
            CallError::Failed { why, .. } => UpstreamError::Unanswered { step, why },
            CallError::TooLong { .. } => self.protocol(step, error.to_string()),
            CallError::Closed { .. } => {
                self.live.lost.get().map_or(UpstreamError::Internal, |lost| lost.while_waiting_for(step))
            }
        })
    }

    pub(super) fn accept(&self, step: &'static str, reply: Reply) -> Result<Raw, UpstreamError> {
        let error = match reply {
            Ok(result) if result.first() == Some(&b'{') => return Ok(result),
            Ok(_) => return Err(self.protocol(step, "a result that is no object".to_owned())),
            Err(error) => error,
        };
        let mut message = raw::get_str(&error, "message").unwrap_or_else(|| "no message".to_owned());
        let named = supported(&error);
        if !named.is_empty() {
            message = format!("{message}; it speaks {}", named.join(", "));
        }
        Err(UpstreamError::Refused {
            step,
            code: error_code(&error),
            message,
            stderr: self.link.stderr_tail(),
        })
    }

    pub(super) fn protocol(&self, step: &'static str, what: String) -> UpstreamError {
        UpstreamError::Protocol { step, what, stderr: self.link.stderr_tail() }
    }
}

pub(super) fn error_code(error: &Raw) -> i64 {
    raw::get(error, "code").and_then(|code| serde_json::from_slice(&code).ok()).unwrap_or_default()
}
