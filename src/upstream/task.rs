//! The loop that owns one upstream. It turns everything that can happen into an event, asks `lifecycle` what to do,
//! does it and publishes the snapshot; nobody else changes an upstream's state.

use super::catalog::Catalog;
use super::error::UpstreamError;
use super::lifecycle::{Action, Event, Lifecycle, Policy, Usage};
use super::stats::Stats;
use super::{Command, Grace, Lease, Live, Snapshot, Upstream};
use crate::config::{GroupName, Problem, Server};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Commands that may wait in a mailbox; callers beyond that wait to send theirs.
const MAILBOX: usize = 64;

/// Makes connections to one upstream: the seam that tests replace.
pub trait Connect: Send + 'static {
    fn connect(&self, server: Arc<Server>) -> BoxFuture<Result<Connection, FailedAttempt>>;
}

/// A connection that has introduced itself and told its catalog.
pub struct Connection {
    pub live: Arc<Live>,
    pub catalog: Catalog,
    /// Resolves when the connection ended by itself; `live.lost` says why.
    pub ended: BoxFuture<()>,
    /// Told when the upstream says that its tools changed.
    pub tools_changed: Arc<Notify>,
    /// Reads the catalog again.
    pub reread: Box<dyn Fn() -> BoxFuture<Result<Catalog, UpstreamError>> + Send>,
    /// Closes it and resolves when nothing of it is left.
    pub close: Box<dyn FnOnce(Grace) -> BoxFuture<()> + Send>,
}

/// An attempt that failed, with what is still to be awaited before the next one.
pub struct FailedAttempt {
    pub error: UpstreamError,
    pub closing: Option<BoxFuture<()>>,
}

/// Starts the task of one group. It ends when told to stop, or when every handle is gone.
pub fn start(
    name: GroupName,
    server: Result<Server, Problem>,
    connect: impl Connect,
) -> (Upstream, impl Future<Output = ()> + Send) {
    let (mailbox, commands) = mpsc::channel(MAILBOX);
    let (server, broken) = match server {
        Ok(server) => (Some(Arc::new(server)), None),
        Err(problem) => (None, Some(UpstreamError::Config(problem))),
    };
    let policy = server.as_deref().map_or(Policy::BROKEN, Policy::of);
    let lifecycle = match broken {
        None => Lifecycle::new(policy),
        Some(error) => Lifecycle::broken(policy, error, Instant::now()),
    };
    let state = lifecycle.state().clone();
    let (publish, snapshot) = watch::channel(Arc::new(Snapshot {
        server: server.clone(),
        state,
        connecting: None,
        catalog: None,
        live: None,
    }));
    let span = tracing::info_span!("upstream", group = %name);
    let task = Task {
        name: name.clone(),
        connect,
        server,
        lifecycle,
        commands,
        publish,
        waiting: Vec::new(),
        attempt: None,
        connection: None,
        closing: None,
        reread: None,
        rereaders: Vec::new(),
        catalog: None,
    };
    let upstream = Upstream { name, mailbox, snapshot, stats: Arc::new(Stats::default()) };
    (upstream, task.run().instrument(span))
}

struct Task<C> {
    name: GroupName,
    connect: C,
    server: Option<Arc<Server>>,
    lifecycle: Lifecycle,
    commands: mpsc::Receiver<Command>,
    publish: watch::Sender<Arc<Snapshot>>,
    /// Callers who wait for the attempt.
    waiting: Vec<oneshot::Sender<Result<Lease, Arc<UpstreamError>>>>,
    attempt: Option<(Instant, BoxFuture<Result<Connection, FailedAttempt>>)>,
    connection: Option<Connection>,
    /// The end of the last connection; the next attempt begins after it.
    closing: Option<BoxFuture<()>>,
    reread: Option<BoxFuture<Result<Catalog, UpstreamError>>>,
    /// Callers who wait for the catalog.
    rereaders: Vec<oneshot::Sender<()>>,
    catalog: Option<Arc<Catalog>>,
}

/// One thing that happened.
enum Happening {
    Command(Option<Command>),
    Attempted(Result<Connection, FailedAttempt>),
    Ended,
    Tick,
    ToolsChanged,
    Reread(Result<Catalog, UpstreamError>),
    Closed,
}

impl<C: Connect> Task<C> {
    async fn run(mut self) {
        let grace = loop {
            match self.next().await {
                Happening::Command(Some(Command::Stop(grace))) => break grace,
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
        let Self { commands, attempt, connection, closing, reread, .. } = self;
        let (ended, live, tools_changed) = match connection {
            Some(c) => (Some(&mut c.ended), Some(&c.live), Some(&c.tools_changed)),
            None => (None, None, None),
        };
        tokio::select! {
            biased;
            () = maybe(ended) => Happening::Ended,
            outcome = maybe(attempt.as_mut().map(|(_, future)| future)) => Happening::Attempted(outcome),
            outcome = maybe(reread.as_mut()) => Happening::Reread(outcome),
            command = commands.recv() => Happening::Command(command),
            () = notified(live.map(|live| &live.unused)) => Happening::Tick,
            () = notified(tools_changed.map(|notify| &**notify)) => Happening::ToolsChanged,
            () = maybe(closing.as_mut()), if attempt.is_none() => Happening::Closed,
            () = until(deadline) => Happening::Tick,
        }
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Command(Some(Command::Acquire(caller))) => {
                self.waiting.push(caller);
                self.decide(Event::Wanted);
            }
            Happening::Command(Some(Command::Refresh(caller))) => {
                self.rereaders.push(caller);
                self.reread();
            }
            Happening::Command(_) => {}
            Happening::Attempted(outcome) => self.attempted(outcome),
            Happening::Ended => self.lost(),
            Happening::Tick => self.decide(Event::Tick),
            Happening::ToolsChanged => self.reread(),
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
            Some(Action::CloseIdle(idle)) => self.close_idle(idle),
        }
    }

    fn attempt(&mut self) {
        let Some(server) = self.server.clone() else { return };
        tracing::info!("Connecting to {} on-demand...", self.name);
        let closing = self.closing.take();
        let connecting = self.connect.connect(server);
        let attempt = async move {
            // What the last connection holds (a port, a lock file) is free before its successor needs it.
            if let Some(closing) = closing {
                closing.await;
            }
            connecting.await
        };
        self.attempt = Some((Instant::now(), Box::pin(attempt)));
    }

    fn attempted(&mut self, outcome: Result<Connection, FailedAttempt>) {
        self.attempt = None;
        match outcome {
            Ok(connection) => {
                tracing::info!("Discovered {}: {} tools", self.name, connection.catalog.tools.len());
                self.catalog = Some(Arc::new(connection.catalog.clone()));
                self.connection = Some(connection);
                self.decide(Event::Succeeded);
            }
            Err(FailedAttempt { error, closing }) => {
                tracing::warn!(%error, "connect failed");
                self.closing = closing;
                self.decide(Event::Failed(Arc::new(error)));
            }
        }
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
        self.closing = Some((connection.close)(Grace::Ordinary));
        self.forget_reread();
        self.decide(Event::Lost);
        if !self.waiting.is_empty() {
            self.decide(Event::Wanted);
        }
    }

    fn close_idle(&mut self, idle: Duration) {
        if !self.connection.as_ref().is_some_and(|c| c.live.close_if_unused()) {
            return;
        }
        let Some(connection) = self.connection.take() else { return };
        tracing::info!("Server {} idle for {}s, disconnecting...", self.name, idle.as_secs());
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
            Ok(catalog) => self.catalog = Some(Arc::new(catalog)),
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

    /// Closes whatever there is. An attempt under way is dropped, which ends its process.
    async fn stop(mut self, grace: Grace) {
        self.commands.close();
        for caller in self.waiting.drain(..) {
            drop(caller.send(Err(Arc::new(UpstreamError::ShuttingDown))));
        }
        self.attempt = None;
        let closing = self.connection.take().map(|connection| {
            connection.live.close();
            (connection.close)(grace)
        });
        self.lifecycle.closed();
        self.publish();
        tokio::join!(maybe_done(self.closing.take()), maybe_done(closing));
    }

    fn usage(&self) -> Option<Usage> {
        self.connection.as_ref().map(|connection| connection.live.usage())
    }

    /// The one place that publishes, and that logs a change of state.
    fn publish(&self) {
        let next = Snapshot {
            server: self.server.clone(),
            state: self.lifecycle.state().clone(),
            connecting: self.attempt.as_ref().map(|(since, _)| *since),
            catalog: self.catalog.clone(),
            live: self.connection.as_ref().map(|connection| connection.live.clone()),
        };
        self.publish.send_if_modified(|last| {
            if last.same_as(&next) {
                return false;
            }
            if last.state.name() != next.state.name() {
                tracing::debug!(from = last.state.name(), to = next.state.name(), "state changed");
            }
            *last = Arc::new(next);
            true
        });
    }
}

async fn maybe<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn maybe_done(future: Option<BoxFuture<()>>) {
    if let Some(future) = future {
        future.await;
    }
}

async fn notified(notify: Option<&Notify>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

#[cfg(test)]
#[path = "task/tests.rs"]
mod tests;
