//! Connects one group: opens its transport, does the handshake in the server's era, and reads its lists.
//!
//! The first attempt uses the era in which the server was last found, the handshake era by default. If the server turns
//! out to belong to the other era, a second process or connection is opened for that.

use super::handshake::{self, EraError, OtherEra, PROBE_TIMEOUT};
use super::lease::LiveConnection;
use super::list_subscription::keep_subscribed;
use super::milestones::Milestones;
use super::reader::{Reader, ReaderContext};
use super::roots::{AsksAtStart, RootsExchange};
use super::session::Session;
use super::startup_output::StartupOutput;
use super::{AttemptError, AttemptResult, Connect, Connection, Grace};
use crate::catalog::{Catalog, ServerInfo};
use crate::clients::Clients;
use crate::error::UpstreamError;
use crate::transport::{OpenTransport, Transport, TransportHandle};
use config::{GroupName, ServerConfig};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use process::server_log::ServerLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;
use wire::lines::LineReader;
use wire::peer::Peer;
use wire::protocol::{Era, capability, is_stateless};
use wire::{Raw, raw};

/// Connects one group.
#[derive(Clone)]
pub(crate) struct Connector {
    /// The group's name.
    pub group: GroupName,
    /// Opens its transport.
    pub transport: Transport,
    /// The clients that the server speaks to.
    pub clients: Arc<dyn Clients>,
    /// The limit for one message, in bytes.
    pub(crate) max_message: usize,
    /// What is known of the server's era.
    pub era: Arc<KnownEra>,
    /// Whether the server asked for roots at its last start.
    pub(crate) asks_for_roots: AsksAtStart,
    /// Whether the next attempt is private, because the shared process did not answer the last one in time.
    pub(crate) private_next: Arc<AtomicBool>,
    /// The transport of the attempt in progress, so that it can be ended if the attempt is dropped.
    pub(crate) attempt: Arc<Mutex<Option<TransportHandle>>>,
    /// Where the attempt reports its milestones; `None` before it begins.
    pub(crate) milestones: Option<Milestones>,
    /// Gets what its processes write to stderr.
    pub log: ServerLog,
    /// Watches what its processes print before they answer.
    pub startup: StartupOutput,
}

/// The era in which a server was found, kept from one connection to the next.
#[derive(Default)]
pub(crate) struct KnownEra {
    /// Whether the server was last found in the stateless era.
    is_stateless: AtomicBool,
    /// Whether the server works only in this era, although it names a revision of the other one.
    is_certain: AtomicBool,
}

impl KnownEra {
    /// The era of a server, as its cached catalog tells it; the handshake era if there is none.
    pub(crate) fn new(cached: Option<&ServerInfo>) -> Arc<Self> {
        let era = cached.map_or(Era::Handshake, |info| info.era);
        let names_other_era = cached.is_some_and(|info| is_stateless(&info.protocol_version));
        Arc::new(Self {
            is_stateless: AtomicBool::new(era == Era::Stateless),
            is_certain: AtomicBool::new(era == Era::Handshake && names_other_era),
        })
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        server: Arc<ServerConfig>,
        milestones: Milestones,
    ) -> BoxFuture<'static, AttemptResult> {
        let connector = Self { milestones: Some(milestones), ..self.clone() };
        let clients = self.clients.clone();
        Box::pin(async move {
            let outcome = connector.open_with_secrets(server).await;
            outcome.map_err(|failed| AttemptError { error: failed.error.shown_to(&*clients), ..failed })
        })
    }

    fn abandon(&self, grace: Grace) -> Option<BoxFuture<'static, ()>> {
        let handle = self.attempt.lock().take()?;
        Some(Box::pin(async move { handle.stop(grace).await }))
    }
}

impl Connector {
    /// Fetches the secrets that the config names, and connects. After a failure, the secrets are fetched again by the
    /// next attempt, unless they were fetched just now.
    ///
    /// # Errors
    ///
    /// `Launch` if a secret is not known. Otherwise those of `open`.
    async fn open_with_secrets(self, server: Arc<ServerConfig>) -> AttemptResult {
        let secrets = self.transport.secrets.clone();
        let resolved = secrets.resolve(server.clone()).await;
        let resolved = resolved.map_err(|error| {
            // A retry would only ask the user again.
            let (message, brief) = (error.to_string(), "a secret of its config is not known");
            UpstreamError::Launch { message, brief }
        })?;
        let outcome = self.open(resolved).await;
        if outcome.is_err() {
            secrets.forget_old(&server);
        }
        outcome
    }

    /// Connects in the known era, then in the other one if the server may belong to that. If the other one is the
    /// stateless era, its first answer may take at most `PROBE_TIMEOUT` longer than the first attempt. A server that
    /// names the other era and fails there is used in the first one all the same.
    ///
    /// # Errors
    ///
    /// Returns the failure of the era that the server seems to belong to; if that is not known, the one of the first
    /// era.
    async fn open(self, server: Arc<ServerConfig>) -> AttemptResult {
        let (first, other) = match self.era.is_stateless.load(Ordering::Relaxed) {
            false => (Era::Handshake, Era::Stateless),
            true => (Era::Stateless, Era::Handshake),
        };
        let is_certain = self.era.is_certain.load(Ordering::Relaxed);
        let started = Instant::now();
        let outcome = self.open_in(first, &server, None, is_certain).await;
        let EraError { error: first_failure, other: hint } = match outcome {
            Ok(connected) => return Ok(connected),
            Err(EraError { error, other: OtherEra::No }) => return Err(error),
            Err(error) => error,
        };
        let took = started.elapsed();
        let first_error = first_failure.ended().await;
        // Callers should get the first error soon, unless the server was known to belong to the other era.
        let limit = (other == Era::Stateless).then(|| took + PROBE_TIMEOUT);
        let EraError { error: failed, other: second_hint } =
            match self.open_in(other, &server, limit, true).await {
                Ok(connected) => {
                    self.era.is_stateless.store(other == Era::Stateless, Ordering::Relaxed);
                    return Ok(connected);
                }
                Err(error) => error,
            };
        // A server that asks for a login in the second era belongs to that era.
        let needs_person = matches!(&failed.error, UpstreamError::Remote(error) if error.needs_person());
        match hint {
            _ if needs_person => Err(failed),
            OtherEra::Preferred => {
                failed.ended().await;
                let connected = self.open_in(first, &server, None, true).await;
                self.era.is_certain.store(connected.is_ok(), Ordering::Relaxed);
                connected.map_err(|error| error.error)
            }
            _ if second_hint == OtherEra::No => Err(failed),
            // The server's first answer says more than its answer to a probe.
            _ => Err(AttemptError { error: first_error, ..failed }),
        }
    }

    /// Connects in one era, to a shared process if there may be one. A server that fails without its launcher is
    /// started through it, if time is left. `limit` bounds the first answer in addition to the config, and includes the
    /// attempt with a shared process. `is_certain`: the server counts as belonging to this era, regardless of the
    /// revision that it names.
    ///
    /// # Errors
    ///
    /// Fails if the transport cannot be opened, the handshake fails, or the tools cannot be read. A failure of a shared
    /// process counts only if the process did not answer in time or no time is left; otherwise the server gets a
    /// process of its own.
    async fn open_in(
        &self,
        era: Era,
        server: &Arc<ServerConfig>,
        limit: Option<Duration>,
        is_certain: bool,
    ) -> Result<(Connection, Catalog), EraError<AttemptError>> {
        let (began, whole) = (Instant::now(), handshake::first_answer_timeout(server, limit));
        let rest = || in_tenths(whole.saturating_sub(began.elapsed()));
        if era == Era::Handshake
            && !self.private_next.swap(false, Ordering::Relaxed)
            && let Some(opened) =
                self.transport.open_shared(server, self.max_message, whole / 2, &self.log).await
        {
            // A process that is shared is offered no capabilities.
            let offered = Raw::from_static(b"{}");
            match self.connect_on(opened, offered, era, server, Some(rest()), is_certain).await {
                Ok(connected) => return Ok(connected),
                Err(EraError { error: failed, other })
                    if matches!(failed.error, UpstreamError::TimedOut { .. }) || rest().is_zero() =>
                {
                    // No time is left for a process of its own, so callers get the reason now.
                    self.private_next.store(true, Ordering::Relaxed);
                    return Err(EraError { error: failed, other });
                }
                Err(EraError { error: failed, .. }) => {
                    let error = &failed.error;
                    tracing::debug!(%error, "the shared process cannot be used; the server gets one of its own");
                    failed.ended().await;
                }
            }
        }
        let (outcome, handle) = self.open_private(era, server, Some(rest()), is_certain).await?;
        // If no time is left, the next attempt is through the launcher.
        if outcome.is_err() && handle.forget_direct_start().await && !rest().is_zero() {
            tracing::debug!("the server failed without its launcher; it is started through it");
            if let Err(EraError { error: failed, .. }) = outcome {
                failed.ended().await;
            }
            return self.open_private(era, server, Some(rest()), is_certain).await?.0;
        }
        outcome
    }

    /// Connects without sharing. Returns the outcome of the handshake and of reading the lists, and the handle of the
    /// transport.
    ///
    /// # Errors
    ///
    /// Fails if the transport cannot be opened.
    async fn open_private(
        &self,
        era: Era,
        server: &Arc<ServerConfig>,
        limit: Option<Duration>,
        is_certain: bool,
    ) -> Result<
        (Result<(Connection, Catalog), EraError<AttemptError>>, TransportHandle),
        EraError<AttemptError>,
    > {
        let shell_time = handshake::first_answer_timeout(server, limit);
        let opened =
            self.transport.open(&self.group, server, self.max_message, shell_time, &self.log).await?;
        let handle = opened.handle.clone();
        let offered = self.clients.offered_capabilities();
        Ok((self.connect_on(opened, offered, era, server, limit, is_certain).await, handle))
    }

    /// Does the handshake on an open transport, and reads the lists.
    ///
    /// # Errors
    ///
    /// Fails if the handshake fails or the tools cannot be read. `closing` of the error ends the connection.
    async fn connect_on(
        &self,
        opened: OpenTransport,
        offered: Raw,
        era: Era,
        server: &Arc<ServerConfig>,
        limit: Option<Duration>,
        is_certain: bool,
    ) -> Result<(Connection, Catalog), EraError<AttemptError>> {
        let ((peer, deadlines), handle) = (Peer::new(opened.output), opened.handle);
        *self.attempt.lock() = Some(handle.clone());
        let lists_changed = Arc::new(Notify::new());
        let (can, stream) = (self.clients.offered_capabilities(), handle.server_stream());
        let roots = self.roots_exchange(&offered, &lists_changed);
        let live = LiveConnection::new(peer.clone(), era, handle.process(), &can, roots, stream);
        let reader = Reader::new(ReaderContext {
            group: self.group.clone(),
            peer: peer.clone(),
            live: live.clone(),
            clients: self.clients.clone(),
            lists_changed: lists_changed.clone(),
            handle: handle.clone(),
            failures: opened.failures,
        });
        let lines = LineReader::new(opened.input, self.max_message);
        let reading = OwnedTask(tokio::spawn(reader.run(lines, opened.writer, deadlines).in_current_span()));
        let session = Session {
            live: live.clone(),
            handle: handle.clone(),
            server: server.clone(),
            limit,
            is_certain,
            startup: self.startup.clone(),
            milestones: self.milestones.clone(),
        };
        let attempt = handshake::connect(&session, &offered, &*self.clients);
        let outcome = self.startup.watch(&handle, &live, self.clients.see_processes(), attempt).await;
        *self.attempt.lock() = None;
        let output = peer.output().clone();
        let close = move |grace| -> BoxFuture<'static, ()> {
            output.close();
            Box::pin(async move { handle.stop(grace).await })
        };
        match outcome {
            Ok(catalog) => {
                let (session, info) = (Arc::new(session), catalog.info.clone());
                let listening = listen(era, peer, &info, &lists_changed);
                let connection = Connection {
                    live,
                    ended: Box::pin(async move {
                        reading.end().await;
                        drop(listening);
                    }),
                    lists_changed,
                    refresh: Box::new(move || {
                        let (session, info) = (session.clone(), info.clone());
                        Box::pin(async move { session.catalog(info, false, false).await })
                    }),
                    close: Box::new(close),
                };
                Ok((connection, catalog))
            }
            Err(EraError { error, other }) => {
                let error = AttemptError { error, closing: Some(close(Grace::Ordinary)) };
                Err(EraError { error, other })
            }
        }
    }

    /// Creates the exchange of roots with a server that is offered these capabilities.
    fn roots_exchange(&self, offered: &Raw, lists_changed: &Arc<Notify>) -> Arc<RootsExchange> {
        let may_ask = raw::get(offered, capability::ROOTS).is_some();
        RootsExchange::new(self.asks_for_roots.clone(), may_ask, lists_changed.clone())
    }
}

/// Starts to listen to changes of a stateless server's lists; others report them unasked.
fn listen(era: Era, peer: Arc<Peer>, info: &ServerInfo, lists_changed: &Arc<Notify>) -> Option<OwnedTask> {
    let listening = keep_subscribed(peer, info.clone(), lists_changed.clone()).in_current_span();
    (era == Era::Stateless).then(|| OwnedTask(tokio::spawn(listening)))
}

/// Rounds up to tenths of a second, because messages name it.
fn in_tenths(duration: Duration) -> Duration {
    const TENTH_NANOS: u32 = 100_000_000;
    Duration::new(duration.as_secs(), duration.subsec_nanos().div_ceil(TENTH_NANOS) * TENTH_NANOS)
}

/// A task that is aborted when its owner is dropped.
struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    async fn end(mut self) {
        drop((&mut self.0).await);
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
