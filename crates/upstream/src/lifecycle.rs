//! When a group connects, retries and closes: events and time in, actions out. It has no I/O, clock, task or log.
//!
//! ```text
//!                attempt succeeded                 idle, lost, discovery finished
//!     Pending ─────────────────────▶ Connected ─────────────────▶ Discovered
//!        │                              ▲  ▲                          │
//!        │ attempt failed               │  ╰──────────────────────────╯
//!        ╰────────────▶ Failed ─────────╯   attempt succeeded
//! ```
//!
//! An attempt can be made in three of the four states, so it is kept beside the state (`Connecting`).
//!
//! Failures come in rounds: an attempt and up to three retries at growing intervals. A request that names the group
//! meanwhile waits for the outcome. After a round, eager groups retry in the background at long intervals, and so do
//! hybrid groups without a catalog. If a process ends twice before it answers, with the same words, callers get those
//! words without waiting, and only the retries in the background follow. A request begins a new round once the last failure
//! is 5 s old.
//!
//! A call that is only expected makes an attempt, too (`Event::Prefetch`). Nothing but the connection comes of it: a failure
//! leaves the group as it was, and a connection that no request uses is closed soon.

use crate::backoff;
use crate::error::UpstreamError;
use config::{Mode, ServerConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod state;

pub use state::{AttemptFailure, State};

/// The loss of a connection that lived this long is no sign of a crash loop.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// How long a connection is kept for a call that is expected: a model that has read about a tool calls it in this time.
const PREFETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server that announces changes of its tools may take to add some after the handshake.
const LATE_TOOLS_TIMEOUT: Duration = Duration::from_millis(250);

/// The settings that the lifecycle of a group depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// When the group connects.
    pub mode: Mode,
    /// How long a connection may be unused; `None`: without limit.
    pub idle_timeout: Option<Duration>,
}

impl Policy {
    /// For a group whose entry in the config is invalid: no attempt is ever made.
    pub(crate) const MISCONFIGURED: Self = Self { mode: Mode::Pure, idle_timeout: None };

    /// The policy that the config asks for. Eager and stateful groups have no idle timeout.
    pub fn of(server: &ServerConfig) -> Self {
        let never = server.common.stateful || server.common.mode == Mode::Eager;
        Self { mode: server.common.mode, idle_timeout: server.common.idle_timeout.filter(|_| !never) }
    }

    /// The policy for a server that stays connected once it is.
    pub(crate) fn without_idle_close(self) -> Self {
        Self { idle_timeout: None, ..self }
    }

    /// How long a connection that is used like this may be unused; `None`: without limit.
    pub(crate) fn idle_limit(&self, usage: Usage) -> Option<Duration> {
        let of_purpose = match usage.kept_for {
            _ if self.mode != Mode::Hybrid => None,
            KeptFor::Use => None,
            KeptFor::Call => Some(PREFETCH_TIMEOUT),
            KeptFor::LateTools => Some(LATE_TOOLS_TIMEOUT),
        };
        self.idle_timeout.into_iter().chain(of_purpose).min()
    }
}

/// Whether the group is being connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connecting {
    /// Nothing is done or planned.
    No,
    /// An attempt is in progress.
    Attempting,
    /// An attempt is planned. Callers wait for one of a round, but not for one in the background.
    Scheduled { at: Instant, in_round: bool },
}

/// Something that happened to a group.
#[derive(Debug)]
pub enum Event {
    /// A client is there: groups that connect at start do so.
    Start,
    /// A caller waits for a connection.
    Requested,
    /// A call is expected, because a model reads about the tools.
    Prefetch,
    /// The attempt succeeded.
    Succeeded,
    /// The attempt failed. The number is the jitter of the interval that may follow, from -1 to 1.
    Failed(Arc<UpstreamError>, f64),
    /// The connection ended by itself. The flag: whether callers still wait for a connection.
    Lost(bool),
    /// The connection was closed, as an action asked or because the group ends.
    Closed,
    /// Somebody has logged in, so the last failure says nothing about the next attempt.
    LoggedIn,
    /// The deadline has come, or the use of the connection changed.
    Tick,
    /// The config changed the policy. `Start` follows if the new mode connects at start.
    PolicyChanged(Policy),
}

/// How the live connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// How many leases exist.
    pub leases: usize,
    /// When it was last used.
    pub(crate) last_activity: Instant,
    /// What it is kept for.
    pub(crate) kept_for: KeptFor,
}

/// What a connection is kept for, before a request uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum KeptFor {
    /// For as long as it is used.
    #[default]
    Use,
    /// For a call that is expected.
    Call,
    /// For tools that the server may add after the handshake.
    LateTools,
}

impl KeptFor {
    /// Returns the one of this number.
    pub(crate) fn of(number: u8) -> Self {
        [Self::Call, Self::LateTools]
            .into_iter()
            .find(|kept_for| *kept_for as u8 == number)
            .unwrap_or_default()
    }
}

/// What the group's task has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Make an attempt.
    Connect,
    /// Give every waiting caller a lease.
    AnswerConnected,
    /// Keep the connection for the call that is expected. No caller waits.
    AwaitCall,
    /// Tell every waiting caller why there is no connection.
    AnswerFailed(Arc<UpstreamError>),
    /// Close the connection, which was idle for this long. `Closed` follows, unless it is used again by then.
    CloseIdle(Duration),
    /// Close the connection: its catalog is known and no caller waits. `Closed` follows as above.
    CloseDiscovered,
}

/// The state machine of one group.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// The settings that the lifecycle depends on.
    policy: Policy,
    /// The state, as users see it.
    state: State,
    /// Whether the group is being connected.
    connecting: Connecting,
    /// Whether a caller waits for the connection.
    requested: bool,
    /// Whether the attempt in progress is made for a call that is expected, and no caller waits for it.
    is_prefetch: bool,
    /// Whether a catalog is known, from this run or from the cache.
    discovered: bool,
    /// Whether somebody logged in after the attempt began. If it fails, another one follows at once.
    logged_in: bool,
    /// How many attempts of the current round failed.
    round_failures: usize,
    /// How many attempts were made in the background since the last round.
    background_attempts: u32,
    /// How many connections in a row were lost before they were stable.
    early_losses: u32,
    /// When the current connection was made.
    connected_at: Option<Instant>,
}

impl Lifecycle {
    /// Makes the lifecycle of a group at start. `discovered`: the cache has a catalog.
    pub(crate) fn new(policy: Policy, discovered: bool) -> Self {
        Self {
            policy,
            state: if discovered { State::Discovered } else { State::Pending },
            connecting: Connecting::No,
            requested: false,
            is_prefetch: false,
            discovered,
            logged_in: false,
            round_failures: 0,
            background_attempts: 0,
            early_losses: 0,
            connected_at: None,
        }
    }

    /// Makes the lifecycle of a group that cannot connect before its config changes.
    pub(crate) fn misconfigured(policy: Policy, error: UpstreamError, now: Instant) -> Self {
        let failure = AttemptFailure { error: Arc::new(error), at: now, attempts: 0 };
        Self { state: State::Failed(failure), ..Self::new(policy, false) }
    }

    /// The state of the group.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// When the next attempt is due without a request.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        match self.connecting {
            Connecting::Scheduled { at, .. } => Some(at),
            Connecting::No | Connecting::Attempting => None,
        }
    }

    /// Returns whether the attempt in progress is made for a call that is expected, and no caller waits for it.
    pub(crate) fn is_prefetch(&self) -> bool {
        self.is_prefetch
    }

    /// Applies an event. This is the only place where a group's state changes. `usage`: that of the live connection, if
    /// there is one. Returns what the task has to do.
    pub(crate) fn on(&mut self, event: Event, usage: Option<Usage>, now: Instant) -> Option<Action> {
        match event {
            Event::Start => self.start(),
            Event::Requested => self.request(now),
            Event::Prefetch => self.prefetch(),
            Event::Succeeded => Some(self.succeed(now)),
            Event::Failed(error, jitter) => self.fail(error, jitter, now),
            Event::Lost(is_awaited) => {
                self.lose(is_awaited, now);
                None
            }
            Event::Closed => {
                self.close();
                None
            }
            Event::LoggedIn => self.log_in(),
            Event::Tick => self.tick(usage, now),
            Event::PolicyChanged(policy) => {
                self.policy = policy;
                if matches!(self.connecting, Connecting::Scheduled { in_round: false, .. })
                    && !self.retries_in_background()
                {
                    self.connecting = Connecting::No;
                }
                None
            }
        }
    }

    fn close(&mut self) {
        if matches!(self.state, State::Connected) {
            self.state = State::Discovered;
        }
    }

    /// When `Tick` is due: at the next attempt, or when the connection has been idle for too long.
    pub(crate) fn deadline(&self, usage: Option<Usage>) -> Option<Instant> {
        if let Some(at) = self.next_attempt() {
            return Some(at);
        }
        let usage = usage.filter(|usage| usage.leases == 0)?;
        matches!(self.state, State::Connected).then_some(usage.last_activity + self.policy.idle_limit(usage)?)
    }

    /// Eager and hybrid groups connect, unless they are connected or an attempt is in progress or planned. A hybrid
    /// group with a fresh cached catalog gets no `Start`.
    fn start(&mut self) -> Option<Action> {
        let idle = self.connecting == Connecting::No && !matches!(self.state, State::Connected);
        (idle && self.policy.mode != Mode::Pure && !self.is_misconfigured()).then(|| self.attempt())
    }

    fn request(&mut self, now: Instant) -> Option<Action> {
        (self.requested, self.is_prefetch) = (true, false);
        match (&self.state, self.connecting) {
            (State::Connected, _) => Some(self.answer_connected()),
            (_, Connecting::Attempting | Connecting::Scheduled { in_round: true, .. }) => None,
            (State::Failed(failure), _)
                if self.is_misconfigured() || now < failure.at + cool_down(&failure.error) =>
            {
                Some(self.answer_failed())
            }
            _ => {
                self.round_failures = 0;
                Some(self.attempt())
            }
        }
    }

    /// A group that is known connects, unless an attempt is in progress or planned.
    fn prefetch(&mut self) -> Option<Action> {
        let is_idle = matches!(self.state, State::Discovered) && self.connecting == Connecting::No;
        is_idle.then(|| {
            let connect = self.attempt();
            self.is_prefetch = true;
            connect
        })
    }

    /// Makes a new attempt if the last one failed, however recent that is. Callers wait for the attempt. An attempt in
    /// progress that fails is followed by another one.
    fn log_in(&mut self) -> Option<Action> {
        if self.connecting == Connecting::Attempting {
            self.logged_in = true;
            return None;
        }
        let failed = self.state.failure().is_some() && !self.is_misconfigured();
        failed.then(|| {
            self.round_failures = 0;
            self.attempt()
        })
    }

    fn attempt(&mut self) -> Action {
        self.connecting = Connecting::Attempting;
        (self.logged_in, self.is_prefetch) = (false, false);
        Action::Connect
    }

    fn succeed(&mut self, now: Instant) -> Action {
        self.connecting = Connecting::No;
        self.state = State::Connected;
        self.discovered = true;
        (self.round_failures, self.background_attempts) = (0, 0);
        self.connected_at = Some(now);
        if std::mem::take(&mut self.is_prefetch) {
            return Action::AwaitCall;
        }
        if self.policy.mode == Mode::Hybrid && !self.requested {
            return Action::CloseDiscovered;
        }
        self.answer_connected()
    }

    fn fail(&mut self, error: Arc<UpstreamError>, jitter: f64, now: Instant) -> Option<Action> {
        if std::mem::take(&mut self.is_prefetch) {
            // The call that was expected makes an attempt of its own, with all retries.
            self.connecting = Connecting::No;
            return Some(Action::AnswerFailed(error));
        }
        let attempts = self.state.failure().map_or(0, |failure| failure.attempts) + 1;
        let is_retryable = error.retryable();
        let crashes_again = self.crashes_again(&error);
        let retry_after = error.retry_after().unwrap_or_default().min(backoff::LONGEST);
        self.state = State::Failed(AttemptFailure { error, at: now, attempts });
        self.connecting = Connecting::No;
        if self.logged_in {
            self.round_failures = 0;
            return Some(self.attempt());
        }
        if !is_retryable {
            return Some(self.answer_failed());
        }
        // Callers wait for a round, unless the server asks for a longer pause (`Retry-After`) than a round has.
        let is_in_time = retry_after <= backoff::LONGEST_IN_ROUND;
        if let Some(interval) = backoff::in_round(self.round_failures, jitter).filter(|_| is_in_time) {
            self.round_failures += 1;
            if !crashes_again {
                self.schedule(now + interval.max(retry_after), true);
                return None;
            }
            // The next retries would give callers the same answer.
            if self.retries_in_background() {
                self.schedule(now + interval, false);
            }
            return Some(self.answer_failed());
        }
        if self.retries_in_background() {
            let interval = backoff::in_background(self.background_attempts, jitter);
            self.background_attempts += 1;
            self.schedule(now + interval.max(retry_after), false);
        }
        Some(self.answer_failed())
    }

    /// Returns whether a process failed before it answered, by its end or an answer that is not MCP, with the same words as
    /// the process before it.
    fn crashes_again(&self, error: &UpstreamError) -> bool {
        let Some(last) = self.state.failure() else { return false };
        let is_of_process =
            matches!(error.in_full(), UpstreamError::Exited { .. } | UpstreamError::Protocol { .. });
        is_of_process && last.error.has_same_words(error)
    }

    /// Returns whether attempts continue in the background after a round.
    fn retries_in_background(&self) -> bool {
        match self.policy.mode {
            Mode::Eager => true,
            Mode::Hybrid => !self.discovered,
            Mode::Pure => false,
        }
    }

    /// Eager groups reconnect: at once after a stable connection, else at growing intervals. So does a group whose callers
    /// have had nothing of the connection. It counts as a failed attempt, and they wait for the next one.
    fn lose(&mut self, is_awaited: bool, now: Instant) {
        self.close();
        let lived = self.connected_at.take().map_or(Duration::ZERO, |since| now - since);
        self.early_losses = if lived >= STABLE_AFTER { 0 } else { self.early_losses + 1 };
        let interval = backoff::after_loss(self.early_losses);
        if is_awaited {
            self.requested = true;
            self.schedule(now + interval.min(backoff::LONGEST_IN_ROUND), true);
        } else if self.policy.mode == Mode::Eager {
            // A caller does not wait for a long interval: its request connects the group at once.
            self.schedule(now + interval, interval <= backoff::LONGEST_IN_ROUND);
        }
    }

    fn schedule(&mut self, at: Instant, in_round: bool) {
        self.connecting = Connecting::Scheduled { at, in_round };
    }

    fn tick(&mut self, usage: Option<Usage>, now: Instant) -> Option<Action> {
        if self.deadline(usage)? > now {
            return None;
        }
        match self.connecting {
            Connecting::Scheduled { .. } => Some(self.attempt()),
            Connecting::No | Connecting::Attempting if usage?.kept_for == KeptFor::LateTools => {
                Some(Action::CloseDiscovered)
            }
            Connecting::No | Connecting::Attempting => {
                Some(Action::CloseIdle(self.policy.idle_limit(usage?)?))
            }
        }
    }

    /// Returns whether the group's entry in the config is invalid, so that no attempt is possible.
    fn is_misconfigured(&self) -> bool {
        self.state.failure().is_some_and(|failure| matches!(*failure.error, UpstreamError::Config(_)))
    }

    fn answer_connected(&mut self) -> Action {
        self.requested = false;
        Action::AnswerConnected
    }

    fn answer_failed(&mut self) -> Action {
        self.requested = false;
        let error = self.state.failure().map(|failure| failure.error.clone());
        Action::AnswerFailed(error.unwrap_or_else(|| Arc::new(UpstreamError::Internal)))
    }
}

/// How long after this failure a request gets the failure instead of a new attempt: as long as the server asks for, but
/// at least `COOL_DOWN` and at most `LONGEST`.
pub fn cool_down(error: &UpstreamError) -> Duration {
    error.retry_after().unwrap_or_default().clamp(backoff::COOL_DOWN, backoff::LONGEST)
}

#[cfg(test)]
#[path = "lifecycle/tests.rs"]
mod tests;
