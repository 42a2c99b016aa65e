//! The task that owns one group.
//!
//! # Theory of operation
//!
//! `next` waits for one thing to happen and returns it as a `TaskEvent`; none of its branches does more than that.
//! `handle` asks the lifecycle what to do and does it, and `publish` publishes the snapshot. Nothing else changes a
//! group's state. `early_callers` answers callers that need not wait for all lists, `refresh` reads the catalog again, and
//! `stopping` ends the task; `measured_close` closes an unused
//! connection and notes how much memory that frees. `spec` is what a task starts with, `common` what the tasks of all
//! groups share.

use crate::backoff::jitter;
use crate::catalog::{Catalog, CatalogSource};
use crate::connection::lease::LiveConnection;
use crate::connection::milestones::{Milestone, Milestones, Need};
use crate::connection::{AttemptError, AttemptResult, Connect, Connection, Grace};
use crate::error::UpstreamError;
use crate::handle::{Command, GroupHandle, LeaseSender, LostState, Upstream};
use crate::lifecycle::{Action, Event, KeptFor, Lifecycle, Policy, Usage};
use crate::select::{notified_after, optional, until};
use crate::snapshot::Snapshot;
use crate::stats::GroupStats;
use crate::transport::remote::driver::MAX_IN_FLIGHT_REQUESTS;
use base::clock::{unix_time_s, utc_minute};
use base::fair::Shares;
use common::{SharedState, in_slot};
use config::tool_rules::Rules;
use config::{GroupName, ServerConfig};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use spec::GroupSpec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

pub mod common;
mod early_callers;
mod measured_close;
mod refresh;
pub mod spec;
mod stopping;

/// How many commands a mailbox holds. Senders wait when it is full.
const MAILBOX_SIZE: usize = 64;
/// The shortest interval between two reads of the catalog that the server asks for. Some servers report that their
/// tools changed each time they list them.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// After so many closes in which it had to be killed, a server in a container stays connected.
pub const MAX_KILLS: u64 = 2;

/// Creates a group: its handle and its task, which the caller spawns. The task ends on `Stop` or `Drain`, or when every
/// handle is dropped.
pub fn create(
    GroupSpec { name, server, cached, pins, predecessor, log, startup }: GroupSpec,
    connect: impl Connect,
    shared: SharedState,
) -> (Upstream, BoxFuture<'static, ()>) {
    let (mailbox, commands) = mpsc::channel(MAILBOX_SIZE);
    let (server, lifecycle) = match server {
        Ok(server) => {
            let lifecycle = Lifecycle::new(Policy::of(&server), cached.is_some());
            (Some(server), lifecycle)
        }
        Err(error) => {
            let error = UpstreamError::Config(error);
            (None, Lifecycle::misconfigured(Policy::MISCONFIGURED, error, Instant::now()))
        }
    };
    let rules = Arc::new(server.as_ref().map_or_else(Rules::default, |server| server.rules()));
    let span = tracing::info_span!("upstream", group = %name);
    let (stats, lost_state) = (Arc::<GroupStats>::default(), Arc::<LostState>::default());
    let first = Snapshot {
        server,
        rules,
        state: lifecycle.state().clone(),
        connecting: None,
        starting: None,
        next_attempt: None,
        attempted: false,
        lost: None,
        catalog: cached,
        pins,
        live: None,
    };
    let (publisher, snapshot) = watch::channel(Arc::new(first.clone()));
    let known = snapshot.clone();
    let known = Arc::new(move || known.borrow().catalog.clone());
    let (reporter, milestones) = Milestones::new(first.pins.clone(), known);
    let task = Task {
        name: name.clone(),
        connect,
        shared,
        snapshot: first,
        lifecycle,
        commands,
        publisher,
        stats: stats.clone(),
        lost_state: lost_state.clone(),
        waiting: Vec::new(),
        attempt: None,
        reporter,
        milestones,
        reached: None,
        urgent: Arc::default(),
        connection: None,
        last_use: None,
        closing: predecessor,
        refresh_not_before: None,
        refresh: None,
        refresh_waiting: Vec::new(),
    };
    let in_flight = Shares::new(MAX_IN_FLIGHT_REQUESTS);
    let (seen, login) = (Mutex::default(), Mutex::default());
    let handle =
        GroupHandle { name, mailbox, snapshot, stats, in_flight, lost_state, log, startup, seen, login };
    let upstream = Upstream(Arc::new(handle));
    // Boxed, because it is large and moved several times before it runs.
    (upstream, Box::pin(task.run().instrument(span)))
}

struct Task<C> {
    /// The group's name.
    name: GroupName,
    /// Makes the connections.
    connect: C,
    /// What the tasks of all groups share.
    shared: SharedState,
    /// What the handles see next, but for what the lifecycle, the attempt and the connection tell: `next_snapshot` adds
    /// it.
    snapshot: Snapshot,
    /// The state machine.
    lifecycle: Lifecycle,
    /// The receiving end of the mailbox.
    commands: mpsc::Receiver<Command>,
    /// Publishes snapshots to the handles.
    publisher: watch::Sender<Arc<Snapshot>>,
    /// Counts and times of the group's calls, shared with the handles.
    stats: Arc<GroupStats>,
    /// The losses of a stateful server, shared with the handles.
    lost_state: Arc<LostState>,
    /// Callers that wait for a lease.
    waiting: Vec<(Need, LeaseSender)>,
    /// The attempt in progress, and when it began.
    attempt: Option<(Instant, BoxFuture<'static, AttemptResult>)>,
    /// Reports the milestones of that attempt, and later of its connection.
    reporter: Milestones,
    /// What was reported.
    milestones: mpsc::Receiver<Milestone>,
    /// The connection of the attempt in progress once its handshake is done, and what callers can have of it.
    reached: Option<(Arc<LiveConnection>, Need)>,
    /// Notified when a caller waits for an attempt that began without one: it needs no slot any more.
    urgent: Arc<Notify>,
    /// The live connection.
    connection: Option<Connection>,
    /// When a connection was made or, since the last one ended, last used.
    last_use: Option<Instant>,
    /// The end of the last connection. The next attempt begins after it.
    closing: Option<BoxFuture<'static, ()>>,
    /// When the catalog may be read again at the server's request.
    refresh_not_before: Option<Instant>,
    /// The catalog being read again.
    refresh: Option<BoxFuture<'static, Result<Catalog, UpstreamError>>>,
    /// Callers that wait for the catalog to be read again.
    refresh_waiting: Vec<(Need, oneshot::Sender<()>)>,
}

/// One thing that happened.
enum TaskEvent {
    /// A command came, or (`None`) the last handle was dropped.
    Command(Option<Command>),
    /// The attempt in progress, or the connection, has reached this.
    Milestone(Milestone),
    /// The attempt in progress succeeded or failed.
    AttemptEnded(AttemptResult),
    /// The connection ended by itself.
    ConnectionEnded,
    /// The deadline of the lifecycle came, or the use of the connection changed.
    Tick,
    /// The server said that one of its lists changed.
    ListsChanged,
    /// The catalog was read again, or that failed.
    Refreshed(Result<Catalog, UpstreamError>),
    /// The last connection is closed and gone.
    Closed,
}

impl<C: Connect> Task<C> {
    async fn run(mut self) {
        let grace = loop {
            match self.next().await {
                TaskEvent::Command(Some(Command::Stop(grace))) => break grace,
                TaskEvent::Command(Some(Command::Drain)) => break self.drain().await,
                TaskEvent::Command(None) => break Grace::Ordinary,
                event => self.handle(event),
            }
            self.publish();
        };
        self.stop(grace).await;
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self) -> TaskEvent {
        let usage = self.connection.as_ref().map(|connection| connection.live.watch_usage());
        let deadline = self.lifecycle.deadline(usage);
        let Self { commands, attempt, milestones, connection, closing, refresh, refresh_not_before, .. } =
            self;
        let (ended, live, lists_changed) = match connection {
            Some(c) => (Some(&mut c.ended), Some(&*c.live), Some(&c.lists_changed)),
            None => (None, None, None),
        };
        tokio::select! {
            biased;
            () = optional(ended) => TaskEvent::ConnectionEnded,
            // The last connection may hold a port or a lock file that its successor needs.
            () = optional(closing.as_mut()) => TaskEvent::Closed,
            Some(milestone) = milestones.recv() => TaskEvent::Milestone(milestone),
            outcome = optional(attempt.as_mut().map(|(_, future)| future)), if closing.is_none() => {
                TaskEvent::AttemptEnded(outcome)
            }
            outcome = optional(refresh.as_mut()) => TaskEvent::Refreshed(outcome),
            command = commands.recv() => TaskEvent::Command(command),
            () = LiveConnection::until_unused(live) => TaskEvent::Tick,
            // Not while the lists are read: a change may concern a page that was read already.
            () = notified_after(lists_changed.map(|notify| &**notify), *refresh_not_before), if refresh.is_none() => {
                TaskEvent::ListsChanged
            }
            () = until(deadline) => TaskEvent::Tick,
        }
    }

    fn handle(&mut self, event: TaskEvent) {
        match event {
            TaskEvent::Command(Some(Command::Acquire(need, caller))) => {
                self.waiting.push((need, caller));
                self.apply(Event::Requested);
                self.answer_early();
                self.urgent.notify_one();
            }
            TaskEvent::Command(Some(Command::Start)) => self.apply(Event::Start),
            TaskEvent::Command(Some(Command::Prefetch)) => {
                if self.snapshot.server.as_ref().is_some_and(|server| server.may_prefetch()) {
                    self.apply(Event::Prefetch);
                }
            }
            TaskEvent::Command(Some(Command::LoggedIn)) => self.apply(Event::LoggedIn),
            TaskEvent::Command(Some(Command::Reconfigure(server))) => {
                let policy = self.policy(&server);
                self.snapshot.rules = Arc::new(server.rules());
                self.snapshot.pins.set_pinned(server.common.pin_tools);
                let overrides_changed = self
                    .snapshot
                    .server
                    .as_ref()
                    .is_none_or(|last| last.tools.overrides != server.tools.overrides);
                self.snapshot.server = Some(server);
                if overrides_changed {
                    self.override_again();
                }
                self.apply(Event::PolicyChanged(policy));
            }
            TaskEvent::Command(Some(Command::Reconnect)) => self.reconnect(),
            TaskEvent::Command(Some(Command::Refresh(need, caller))) => {
                self.refresh_waiting.push((need, caller));
                self.start_refresh();
            }
            TaskEvent::Command(Some(Command::RefreshIfOld(caller))) if self.was_just_read() => {
                let _gone = caller.send(());
            }
            TaskEvent::Command(Some(Command::RefreshIfOld(caller))) => {
                self.refresh_waiting.push((Need::Tools, caller));
                self.start_refresh();
            }
            TaskEvent::Command(_) => {}
            TaskEvent::Milestone(milestone) => self.handle_milestone(milestone),
            TaskEvent::AttemptEnded(outcome) => self.attempt_ended(outcome),
            TaskEvent::ConnectionEnded => self.connection_ended(),
            TaskEvent::Tick => self.apply(Event::Tick),
            TaskEvent::ListsChanged => {
                self.refresh_not_before = Some(Instant::now() + REFRESH_INTERVAL);
                self.start_refresh();
            }
            TaskEvent::Refreshed(outcome) => self.refreshed(outcome),
            TaskEvent::Closed => {
                self.closing = None;
                if let Some(server) = self.snapshot.server.clone().filter(|server| self.stays_open(server)) {
                    self.apply(Event::PolicyChanged(self.policy(&server)));
                }
            }
        }
    }

    /// The policy that the config asks for, but for a server that stays open.
    fn policy(&self, server: &ServerConfig) -> Policy {
        let policy = Policy::of(server);
        if self.stays_open(server) { policy.without_idle_close() } else { policy }
    }

    /// Returns whether the server is not closed any more, because each close leaves a container behind.
    fn stays_open(&self, server: &ServerConfig) -> bool {
        server.runs_container() && self.stats.kills() >= MAX_KILLS
    }

    /// Applies an event to the lifecycle and does what it asks for.
    fn apply(&mut self, event: Event) {
        let usage = self.usage();
        match self.lifecycle.on(event, usage, Instant::now()) {
            None => {}
            Some(Action::Connect) => self.start_attempt(),
            Some(Action::AnswerConnected) => self.answer_connected(),
            Some(Action::AwaitCall) => {
                if let Some(connection) = &self.connection {
                    connection.live.set_kept_for(KeptFor::Call);
                }
            }
            Some(Action::AnswerFailed(error)) => {
                self.snapshot.starting = None;
                for (_, caller) in self.waiting.drain(..) {
                    drop(caller.send(Err(error.clone())));
                }
            }
            Some(Action::CloseIdle(idle)) => {
                self.stats.note_idle_close();
                self.close_unused(Some(idle));
            }
            Some(Action::CloseDiscovered) => self.close_discovered(),
        }
    }

    fn start_attempt(&mut self) {
        let Some(server) = self.snapshot.server.clone() else { return };
        let requested = !self.waiting.is_empty();
        // Its lines, and those of the connection that it makes, have its number.
        let span = tracing::info_span!("attempt", attempt = self.stats.begin_attempt());
        span.in_scope(|| match requested {
            true => tracing::info!("Connecting to {} on-demand...", self.name),
            false => tracing::debug!("connecting without a request"),
        });
        self.urgent = Arc::default();
        let slots = match self.lifecycle.is_prefetch() {
            true => &self.shared.prefetch_slot,
            false => &self.shared.slots,
        };
        let slot = (!requested).then(|| (slots.clone(), self.urgent.clone()));
        self.skip_milestones();
        let connecting = self.connect.connect(server, self.reporter.clone());
        let attempt = refresh::connect_and_observe(connecting, self.reporter.clone(), self.worked_until());
        let attempt = async move {
            match slot {
                Some((slots, urgent)) => in_slot(slots, &urgent, Box::pin(attempt)).await,
                None => attempt.await,
            }
        };
        let now = Instant::now();
        self.snapshot.starting.get_or_insert(now);
        self.attempt = Some((now, Box::pin(attempt.instrument(span))));
    }

    fn attempt_ended(&mut self, outcome: AttemptResult) {
        let took = self.attempt.take().map(|(since, _)| since.elapsed());
        self.snapshot.attempted = true;
        self.skip_milestones();
        self.end_refresh();
        match outcome {
            Ok((connection, mut catalog)) => {
                catalog.set_connect_time(took);
                self.set_catalog(catalog);
                self.last_use = Some(Instant::now());
                (self.connection, self.snapshot.lost, self.snapshot.starting) =
                    (Some(connection), None, None);
                self.read_missing_later();
                self.apply(Event::Succeeded);
            }
            Err(AttemptError { error, closing }) => {
                self.closing = closing;
                self.apply(Event::Failed(Arc::new(error), jitter()));
            }
        }
    }

    /// Says when a connection with this config last worked, here or in an earlier process. `None`: never, or the clock
    /// was set back since.
    fn worked_until(&self) -> Option<String> {
        let ago = match (self.last_use, self.snapshot.catalog.as_ref()?.source) {
            (Some(last_use), _) => last_use.elapsed(),
            (None, CatalogSource::Cached(read_at)) => read_at.elapsed().ok()?,
            (None, CatalogSource::Live(_) | CatalogSource::Borrowed(_)) => return None,
        };
        let until = utc_minute(unix_time_s().saturating_sub(ago.as_secs()));
        Some(format!("it worked until {until}"))
    }

    /// Gives every waiting caller a lease. If the connection is lost already, they continue to wait.
    fn answer_connected(&mut self) {
        let Some(live) = self.connection.as_ref().map(|c| c.live.clone()) else { return };
        let waiting = std::mem::take(&mut self.waiting);
        for (need, caller) in waiting {
            match live.lease() {
                Some(lease) => drop(caller.send(Ok(lease))),
                None => self.waiting.push((need, caller)),
            }
        }
    }

    fn connection_ended(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        self.last_use = Some(connection.live.usage().last_activity);
        self.snapshot.lost = connection.live.lost.get().cloned();
        let why = self.snapshot.lost.as_ref().map(|lost| lost.in_full().to_string()).unwrap_or_default();
        tracing::warn!(%why, "connection lost, will reconnect on use");
        let stateful = self.snapshot.server.as_ref().is_some_and(|server| server.common.stateful);
        if stateful && self.stats.was_called() {
            self.lost_state.losses.fetch_add(1, Ordering::Release);
        }
        self.closing = Some((connection.close)(Grace::Ordinary));
        self.end_refresh();
        self.waiting.retain(|(_, caller)| !caller.is_closed());
        self.apply(Event::Lost(!self.waiting.is_empty()));
    }

    fn usage(&self) -> Option<Usage> {
        self.connection.as_ref().map(|connection| connection.live.usage())
    }

    fn next_snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.lifecycle.state().clone(),
            connecting: self.attempt.as_ref().map(|(since, _)| *since),
            next_attempt: self.lifecycle.next_attempt(),
            live: self.connection.as_ref().map(|connection| connection.live.clone()),
            ..self.snapshot.clone()
        }
    }

    /// Publishes the snapshot if it changed. Only this function publishes and logs a change of state.
    fn publish(&self) {
        let next = self.next_snapshot();
        let changed = self.publisher.send_if_modified(|last| {
            if last.is_same(&next) {
                return false;
            }
            if last.state.name() != next.state.name() {
                tracing::debug!(from = last.state.name(), to = next.state.name(), "state changed");
            }
            *last = Arc::new(next);
            true
        });
        if changed {
            self.shared.changes.add(&self.name);
        }
    }
}

#[cfg(test)]
#[path = "task/tests.rs"]
mod tests;
