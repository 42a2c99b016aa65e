//! The loop that owns one upstream. It turns everything that can happen into an event, asks `lifecycle` what to do,
//! does it and publishes the snapshot; nobody else changes an upstream's state.

use super::catalog::Catalog;
use super::connect::{Attempted, BoxFuture, Connect, Connecting, Connection, FailedAttempt, in_slot};
use super::error::UpstreamError;
use super::lifecycle::{Action, Event, Lifecycle, Policy, Usage};
use super::optional::{maybe, notified, told, until};
use super::stats::Stats;
use super::{Command, Grace, Lease, Snapshot, Upstream};
use crate::config::{ConfigError, GroupName, ServerConfig};
use crate::rules::Rules;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

/// Commands that may wait in a mailbox; callers beyond that wait to send theirs.
const MAILBOX: usize = 64;

/// Some servers say that their tools changed each time they list them.
const REREAD_GAP: Duration = Duration::from_secs(1);

mod ending;
mod shared;

pub use shared::Shared;

/// What a group begins with.
pub struct Beginning {
    pub name: GroupName,
    pub server: Result<Arc<ServerConfig>, ConfigError>,
    /// What an earlier process learnt of it.
    pub cached: Option<Arc<Catalog>>,
    /// The end of the group of this name that had another config; the first attempt begins after it.
    pub predecessor: Option<BoxFuture<()>>,
}

/// Starts the task of one group. It ends when told to stop, or when every handle is gone.
pub fn start(
    Beginning { name, server, cached, predecessor }: Beginning,
    connect: impl Connect,
    shared: Shared,
) -> (Upstream, impl Future<Output = ()> + Send) {
    let (mailbox, commands) = mpsc::channel(MAILBOX);
    let (server, lifecycle) = match server {
        Ok(server) => {
            let lifecycle = Lifecycle::new(Policy::of(&server), cached.is_some());
            (Some(server), lifecycle)
        }
        Err(problem) => {
            let error = UpstreamError::Config(problem);
            (None, Lifecycle::broken(Policy::BROKEN, error, Instant::now()))
        }
    };
    let rules = Arc::new(server.as_ref().map_or_else(Rules::default, |server| server.rules()));
    let span = tracing::info_span!("upstream", group = %name);
    let stats = Arc::new(Stats::default());
    let lost_state = Arc::new(AtomicBool::new(false));
    let (publish, snapshot) = watch::channel(Arc::new(Snapshot {
        server: server.clone(),
        rules: rules.clone(),
        state: lifecycle.state().clone(),
        connecting: None,
        next_attempt: None,
        attempted: false,
        catalog: cached.clone(),
        live: None,
    }));
    let task = Task {
        name: name.clone(),
        connect,
        shared,
        server,
        rules,
        lifecycle,
        commands,
        publish,
        stats: stats.clone(),
        lost_state: lost_state.clone(),
        waiting: Vec::new(),
        attempt: None,
        attempted: false,
        urgent: Arc::default(),
        connection: None,
        closing: predecessor,
        reread_at: None,
        reread: None,
        rereaders: Vec::new(),
        catalog: cached,
    };
    let upstream = Upstream { name, mailbox, snapshot, stats, lost_state };
    (upstream, task.run().instrument(span))
}

struct Task<C> {
    name: GroupName,
    connect: C,
    shared: Shared,
    server: Option<Arc<ServerConfig>>,
    rules: Arc<Rules>,
    lifecycle: Lifecycle,
    commands: mpsc::Receiver<Command>,
    publish: watch::Sender<Arc<Snapshot>>,
    stats: Arc<Stats>,
    lost_state: Arc<AtomicBool>,
    /// Callers who wait for the attempt.
    waiting: Vec<oneshot::Sender<Result<Lease, Arc<UpstreamError>>>>,
    attempt: Option<(Instant, Connecting)>,
    attempted: bool,
    /// Told when somebody waits for an attempt that nobody had asked for: it need not wait for a slot.
    urgent: Arc<Notify>,
    connection: Option<Connection>,
    /// The end of the last connection; the next attempt begins after it.
    closing: Option<BoxFuture<()>>,
    /// Not before this are the tools read again because the upstream says that they changed.
    reread_at: Option<Instant>,
    reread: Option<BoxFuture<Result<Catalog, UpstreamError>>>,
    /// Callers who wait for the catalog.
    rereaders: Vec<oneshot::Sender<()>>,
    catalog: Option<Arc<Catalog>>,
}

/// One thing that happened.
enum Happening {
    Command(Option<Command>),
    Attempted(Attempted),
    Ended,
    Tick,
    ListsChanged,
    Reread(Result<Catalog, UpstreamError>),
    Closed,
}

impl<C: Connect> Task<C> {
    async fn run(mut self) {
        let grace = loop {
            match self.next().await {
                Happening::Command(Some(Command::Stop(grace))) => break grace,
                Happening::Command(Some(Command::Drain)) => break self.drain().await,
                Happening::Command(None) => break Grace::Ordinary,
                happening => self.handle(happening),
            }
            self.publish();
        };
        self.stop(grace).await;
    }

    /// Waits for the next thing to happen. No arm does anything but say so.
    async fn next(&mut self) -> Happening {
        let usage = self.usage();
        let deadline = self.lifecycle.deadline(usage);
        let Self { commands, attempt, connection, closing, reread, reread_at, .. } = self;
        let (ended, live, lists_changed) = match connection {
            Some(c) => (Some(&mut c.ended), Some(&c.live), Some(&c.lists_changed)),
            None => (None, None, None),
        };
        tokio::select! {
            biased;
            () = maybe(ended) => Happening::Ended,
            // What the last connection holds (a port, a lock file) is free before its successor needs it.
            () = maybe(closing.as_mut()) => Happening::Closed,
            outcome = maybe(attempt.as_mut().map(|(_, future)| future)), if closing.is_none() => {
                Happening::Attempted(outcome)
            }
            outcome = maybe(reread.as_mut()) => Happening::Reread(outcome),
            command = commands.recv() => Happening::Command(command),
            () = notified(live.map(|live| &live.unused)) => Happening::Tick,
            // Not while they are read: what is said meanwhile may concern a page that was read already.
            () = told(lists_changed.map(|notify| &**notify), *reread_at), if reread.is_none() => {
                Happening::ListsChanged
            }
            () = until(deadline) => Happening::Tick,
        }
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Command(Some(Command::Acquire(caller))) => {
                self.waiting.push(caller);
                self.decide(Event::Wanted);
                self.urgent.notify_one();
            }
            Happening::Command(Some(Command::Start)) => self.decide(Event::Start),
            Happening::Command(Some(Command::Mended)) => self.decide(Event::Mended),
            Happening::Command(Some(Command::Reconfigure(server))) => {
                let policy = Policy::of(&server);
                self.rules = Arc::new(server.rules());
                self.server = Some(server);
                self.decide(Event::Rules(policy));
            }
            Happening::Command(Some(Command::Refresh(caller))) => {
                self.rereaders.push(caller);
                self.reread();
            }
            Happening::Command(_) => {}
            Happening::Attempted(outcome) => self.attempted(outcome),
            Happening::Ended => self.lost(),
            Happening::Tick => self.decide(Event::Tick),
            Happening::ListsChanged => {
                self.reread_at = Some(Instant::now() + REREAD_GAP);
                self.reread();
            }
            Happening::Reread(outcome) => self.read_again(outcome),
            Happening::Closed => self.closing = None,
        }
    }

    fn decide(&mut self, event: Event) {
        let usage = self.usage();
        match self.lifecycle.on(event, usage, Instant::now()) {
            None => {}
            Some(Action::Connect) => self.attempt(),
            Some(Action::AnswerConnected) => self.answer_connected(),
            Some(Action::AnswerFailed(error)) => {
                for caller in self.waiting.drain(..) {
                    drop(caller.send(Err(error.clone())));
                }
            }
            Some(Action::CloseIdle(idle)) => self.close_unused(Some(idle)),
            Some(Action::CloseDiscovered) => self.close_unused(None),
        }
    }

    fn attempt(&mut self) {
        let Some(server) = self.server.clone() else { return };
        let wanted = !self.waiting.is_empty();
        if wanted {
            tracing::info!("Connecting to {} on-demand...", self.name);
        } else {
            tracing::debug!("connecting unasked");
        }
        self.urgent = Arc::default();
        let slot = (!wanted).then(|| (self.shared.slots.clone(), self.urgent.clone()));
        let connecting = self.connect.connect(server);
        let attempt = async move {
            match slot {
                Some((slots, urgent)) => in_slot(slots, &urgent, connecting).await,
                None => connecting.await,
            }
        };
        self.attempt = Some((Instant::now(), Box::pin(attempt)));
    }

    fn attempted(&mut self, outcome: Attempted) {
        let took = self.attempt.take().map(|(since, _)| since.elapsed());
        self.attempted = true;
        match outcome {
            Ok((connection, mut catalog)) => {
                catalog.took = took;
                self.learn(catalog);
                self.connection = Some(connection);
                self.decide(Event::Succeeded);
            }
            Err(FailedAttempt { error, closing }) => {
                tracing::warn!(%error, "connect failed");
                self.closing = closing;
                self.decide(Event::Failed(Arc::new(error), jitter()));
            }
        }
    }

    /// Takes a catalog that was just read, with the time at which it was.
    fn learn(&mut self, mut catalog: Catalog) {
        catalog.took = catalog.took.or_else(|| self.catalog.as_ref()?.took);
        if !self.catalog.as_ref().is_some_and(|known| known.says_the_same(&catalog)) {
            tracing::info!("Discovered {}: {} tools", self.name, catalog.tools.len());
        }
        self.catalog = Some(Arc::new(catalog));
    }

    /// Those for whom the connection was lost again before they got their lease stay waiting.
    fn answer_connected(&mut self) {
        let Some(live) = self.connection.as_ref().map(|c| c.live.clone()) else { return };
        let waiting = std::mem::take(&mut self.waiting);
        for caller in waiting {
            match live.lease() {
                Some(lease) => drop(caller.send(Ok(lease))),
                None => self.waiting.push(caller),
            }
        }
    }

    fn lost(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let why = connection.live.lost.get().map(ToString::to_string).unwrap_or_default();
        tracing::warn!(%why, "connection lost, will reconnect on use");
        let stateful = self.server.as_ref().is_some_and(|server| server.stateful);
        if stateful && self.stats.calls() > 0 {
            self.lost_state.store(true, Ordering::Release);
        }
        self.closing = Some((connection.close)(Grace::Ordinary));
        self.forget_reread();
        self.decide(Event::Lost);
        if !self.waiting.is_empty() {
            self.decide(Event::Wanted);
        }
    }

    /// Closes the connection, unless it got used meanwhile. `idle`: how long it was not.
    fn close_unused(&mut self, idle: Option<Duration>) {
        if !self.connection.as_ref().is_some_and(|c| c.live.close_if_unused()) {
            return;
        }
        let Some(connection) = self.connection.take() else { return };
        if let Some(idle) = idle {
            tracing::info!("Server {} idle for {}s, disconnecting...", self.name, idle.as_secs());
        }
        tracing::info!("Disconnected {} (lazy mode, will reconnect on use)", self.name);
        self.closing = Some((connection.close)(Grace::Ordinary));
        self.forget_reread();
        self.lifecycle.closed();
    }

    fn reread(&mut self) {
        match &self.connection {
            Some(connection) if self.reread.is_none() => self.reread = Some((connection.reread)()),
            Some(_) => {}
            None => self.rereaders.clear(),
        }
    }

    fn read_again(&mut self, outcome: Result<Catalog, UpstreamError>) {
        match outcome {
            Ok(catalog) => self.learn(catalog),
            Err(error) => tracing::warn!(%error, "the tools could not be read again; the last list stands"),
        }
        self.publish();
        self.forget_reread();
    }

    fn forget_reread(&mut self) {
        self.reread = None;
        for caller in self.rereaders.drain(..) {
            let _gone = caller.send(());
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.connection.as_ref().map(|connection| connection.live.usage())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            server: self.server.clone(),
            rules: self.rules.clone(),
            state: self.lifecycle.state().clone(),
            connecting: self.attempt.as_ref().map(|(since, _)| *since),
            next_attempt: self.lifecycle.next_attempt(),
            attempted: self.attempted,
            catalog: self.catalog.clone(),
            live: self.connection.as_ref().map(|connection| connection.live.clone()),
        }
    }

    /// The one place that publishes, and that logs a change of state.
    fn publish(&self) {
        let next = self.snapshot();
        let changed = self.publish.send_if_modified(|last| {
            if last.same_as(&next) {
                return false;
            }
            if last.state.name() != next.state.name() {
                tracing::debug!(from = last.state.name(), to = next.state.name(), "state changed");
            }
            *last = Arc::new(next);
            true
        });
        if changed {
            self.shared.changes.tell(&self.name);
        }
    }
}

/// From -1 to 1. The hasher's random keys are all the chance this needs.
fn jitter() -> f64 {
    (RandomState::new().hash_one(0) % 2001) as f64 / 1000.0 - 1.0
}

#[cfg(test)]
#[path = "task/tests.rs"]
mod tests;
