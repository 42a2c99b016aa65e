//! When a group connects, waits, retries and closes: events and time in, actions out. No I/O, no clock, no tasks.
//!
//! ```text
//!                attempt succeeded                 idle, lost, discovery finished
//!     Pending ─────────────────────▶ Connected ─────────────────▶ Discovered
//!        │                              ▲  ▲                          │
//!        │ attempt failed               │  ╰──────────────────────────╯
//!        ╰────────────▶ Failed ─────────╯   attempt succeeded
//! ```
//!
//! What is being done to connect is beside the state (`Effort`), because it can be so in three of the four.
//!
//! Failures come in rounds. A round is an attempt and up to three retries at growing gaps; who names the group
//! meanwhile waits for its outcome. After a round, eager groups (and hybrid ones of which nothing is known yet) go on
//! in the background at long gaps; whoever names the group then begins a new round, once the failure is 5 s old.

use super::error::UpstreamError;
use crate::config::{Mode, ServerConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Whoever names a group whose failure is younger than this gets that failure instead of a new attempt.
pub const COOL_DOWN: Duration = Duration::from_secs(5);
/// Gaps between the attempts of a round, before jitter.
const RETRIES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Gaps between attempts in the background: from the first to the last, doubling.
const BACKGROUND: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));
/// A connection that lived so long was sound, and its loss is no sign of a crash loop.
const SOUND: Duration = Duration::from_secs(60);

/// The rules of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// `None`: never closed for being idle.
    pub idle_timeout: Option<Duration>,
}

impl Policy {
    /// Of a group whose entry is wrong: nothing is ever attempted.
    pub const BROKEN: Self = Self { mode: Mode::Pure, idle_timeout: None };

    pub fn of(server: &ServerConfig) -> Self {
        let never = server.stateful || server.mode == Mode::Eager;
        Self { mode: server.mode, idle_timeout: server.idle_timeout.filter(|_| !never) }
    }
}

#[derive(Debug, Clone)]
pub enum State {
    /// Never reached, no catalog known.
    Pending,
    /// Catalog known, no connection held.
    Discovered,
    Connected,
    Failed(Failure),
}

impl State {
    /// The name that `get_status` and the log use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Discovered => "discovered",
            Self::Connected => "connected",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether a person who logs in mends it.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.error.needs_login())
    }
}

#[derive(Debug, Clone)]
pub struct Failure {
    pub error: Arc<UpstreamError>,
    pub at: Instant,
    /// Attempts in a row that failed.
    pub attempts: u32,
}

/// What is being done to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Rest,
    Attempting,
    /// An attempt is due by itself. In a round, callers wait for it; in the background they do not.
    Retry {
        at: Instant,
        in_round: bool,
    },
}

#[derive(Debug)]
pub enum Event {
    /// The client is there: connect what is to be connected at start.
    Start,
    /// A caller waits for the connection.
    Wanted,
    Succeeded,
    /// With the jitter of the gap that may follow, from -1 to 1.
    Failed(Arc<UpstreamError>, f64),
    /// The connection ended by itself.
    Lost,
    /// What the last failure was about is no more: somebody logged in.
    Mended,
    /// Time to look at the deadline, or the use of the connection changed.
    Tick,
    /// The config has other rules for this group now; `Start` follows where they have it connect.
    Rules(Policy),
}

/// How the live connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Leases given out and not returned.
    pub leases: usize,
    pub last_activity: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Connect,
    /// Tell all who wait that the connection is there.
    AnswerConnected,
    /// Tell all who wait why there is none.
    AnswerFailed(Arc<UpstreamError>),
    /// Close the connection for being idle; then say `closed`, or nothing if it got used meanwhile.
    CloseIdle(Duration),
    /// The catalog is known and nobody wants more; as above.
    CloseDiscovered,
}

#[derive(Debug)]
pub struct Lifecycle {
    policy: Policy,
    state: State,
    effort: Effort,
    /// Somebody waits for the attempt.
    wanted: bool,
    /// A catalog is known, from this run or from the cache.
    discovered: bool,
    /// What was wrong was mended after the attempt began: if it fails, another one follows at once.
    mended: bool,
    /// Failed attempts of the present round.
    in_round: usize,
    /// Attempts made in the background since the last round.
    background: u32,
    /// Connections in a row that did not live long, and since when the present one lives.
    losses: u32,
    connected: Option<Instant>,
}

impl Lifecycle {
    /// `discovered`: a catalog is known from the cache.
    pub fn new(policy: Policy, discovered: bool) -> Self {
        Self {
            policy,
            state: if discovered { State::Discovered } else { State::Pending },
            effort: Effort::Rest,
            wanted: false,
            discovered,
            mended: false,
            in_round: 0,
            background: 0,
            losses: 0,
            connected: None,
        }
    }

    /// A group that cannot work before its config changes.
    pub fn broken(policy: Policy, error: UpstreamError, now: Instant) -> Self {
        let failure = Failure { error: Arc::new(error), at: now, attempts: 0 };
        Self { state: State::Failed(failure), ..Self::new(policy, false) }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// When the next attempt is due by itself.
    pub fn next_attempt(&self) -> Option<Instant> {
        match self.effort {
            Effort::Retry { at, .. } => Some(at),
            Effort::Rest | Effort::Attempting => None,
        }
    }

    /// The only place where a group's state changes, but for `closed`.
    pub fn on(&mut self, event: Event, usage: Option<Usage>, now: Instant) -> Option<Action> {
        match event {
            Event::Start => self.begin(),
            Event::Wanted => self.want(now),
            Event::Succeeded => Some(self.succeed(now)),
            Event::Failed(error, jitter) => self.fail(error, jitter, now),
            Event::Lost => {
                self.lose(now);
                None
            }
            Event::Mended => self.mend(),
            Event::Tick => self.tick(usage, now),
            Event::Rules(policy) => {
                self.policy = policy;
                if matches!(self.effort, Effort::Retry { in_round: false, .. }) && !self.goes_on() {
                    self.effort = Effort::Rest;
                }
                None
            }
        }
    }

    /// The connection is gone: closed for being idle, or lost.
    pub fn closed(&mut self) {
        if matches!(self.state, State::Connected) {
            self.state = State::Discovered;
        }
    }

    /// When something is due by itself.
    pub fn deadline(&self, usage: Option<Usage>) -> Option<Instant> {
        if let Some(at) = self.next_attempt() {
            return Some(at);
        }
        let usage = usage.filter(|usage| usage.leases == 0)?;
        matches!(self.state, State::Connected).then_some(usage.last_activity + self.policy.idle_timeout?)
    }

    /// Eager groups connect; hybrid ones do for their catalog. Who decides that a cached one is fresh enough does not
    /// send this.
    fn begin(&mut self) -> Option<Action> {
        let idle = self.effort == Effort::Rest && !matches!(self.state, State::Connected);
        (idle && self.policy.mode != Mode::Pure && !self.hopeless()).then(|| self.attempt())
    }

    fn want(&mut self, now: Instant) -> Option<Action> {
        self.wanted = true;
        match (&self.state, self.effort) {
            (State::Connected, _) => Some(self.answer_connected()),
            (_, Effort::Attempting | Effort::Retry { in_round: true, .. }) => None,
            (State::Failed(failure), _)
                if self.hopeless() || now < failure.at + cool_down(&failure.error) =>
            {
                Some(self.answer_failed())
            }
            _ => {
                self.in_round = 0;
                Some(self.attempt())
            }
        }
    }

    /// Whoever asks from now on waits for a new attempt, however young the failure is.
    fn mend(&mut self) -> Option<Action> {
        if self.effort == Effort::Attempting {
            self.mended = true;
            return None;
        }
        let failed = matches!(self.state, State::Failed(_)) && !self.hopeless();
        failed.then(|| {
            self.in_round = 0;
            self.attempt()
        })
    }

    fn attempt(&mut self) -> Action {
        self.effort = Effort::Attempting;
        self.mended = false;
        Action::Connect
    }

    fn succeed(&mut self, now: Instant) -> Action {
        self.effort = Effort::Rest;
        self.state = State::Connected;
        self.discovered = true;
        (self.in_round, self.background) = (0, 0);
        self.connected = Some(now);
        if self.policy.mode == Mode::Hybrid && !self.wanted {
            return Action::CloseDiscovered;
        }
        self.answer_connected()
    }

    fn fail(&mut self, error: Arc<UpstreamError>, jitter: f64, now: Instant) -> Option<Action> {
        let attempts = match &self.state {
            State::Failed(failure) => failure.attempts + 1,
            _ => 1,
        };
        let mendable = error.retryable();
        let asked = error.retry_after().unwrap_or_default().min(BACKGROUND.1);
        self.state = State::Failed(Failure { error, at: now, attempts });
        self.effort = Effort::Rest;
        if self.mended {
            self.in_round = 0;
            return Some(self.attempt());
        }
        if !mendable {
            return Some(self.answer_failed());
        }
        // Who waits for a round does not wait for a server that wants to be left alone for longer than one.
        if let Some(gap) = RETRIES.get(self.in_round).filter(|_| asked <= RETRIES[RETRIES.len() - 1]) {
            self.in_round += 1;
            self.effort = Effort::Retry { at: now + jittered(*gap, jitter).max(asked), in_round: true };
            return None;
        }
        if self.goes_on() {
            let gap = BACKGROUND.0.saturating_mul(1 << self.background.min(8)).min(BACKGROUND.1);
            self.background += 1;
            self.effort = Effort::Retry { at: now + jittered(gap, jitter).max(asked), in_round: false };
        }
        Some(self.answer_failed())
    }

    /// Whether attempts go on in the background after a round.
    fn goes_on(&self) -> bool {
        match self.policy.mode {
            Mode::Eager => true,
            Mode::Hybrid => !self.discovered,
            Mode::Pure => false,
        }
    }

    /// Eager groups come back: at once after a sound connection, else at growing gaps.
    fn lose(&mut self, now: Instant) {
        self.closed();
        let lived = self.connected.take().map_or(Duration::ZERO, |since| now - since);
        self.losses = if lived >= SOUND { 0 } else { self.losses + 1 };
        if self.policy.mode == Mode::Eager {
            let gap = match self.losses {
                0 => Duration::ZERO,
                n => RETRIES[0].saturating_mul(1 << (n - 1).min(9)).min(BACKGROUND.1),
            };
            // Nobody is made to wait for a long gap: who names the group then has it connected at once.
            self.effort = Effort::Retry { at: now + gap, in_round: gap <= RETRIES[2] };
        }
    }

    fn tick(&mut self, usage: Option<Usage>, now: Instant) -> Option<Action> {
        if self.deadline(usage)? > now {
            return None;
        }
        match self.effort {
            Effort::Retry { .. } => Some(self.attempt()),
            Effort::Rest | Effort::Attempting => Some(Action::CloseIdle(self.policy.idle_timeout?)),
        }
    }

    /// Its entry in the config is wrong: there is nothing to attempt.
    fn hopeless(&self) -> bool {
        match &self.state {
            State::Failed(failure) => matches!(*failure.error, UpstreamError::Config(_)),
            _ => false,
        }
    }

    fn answer_connected(&mut self) -> Action {
        self.wanted = false;
        Action::AnswerConnected
    }

    fn answer_failed(&mut self) -> Action {
        self.wanted = false;
        match &self.state {
            State::Failed(failure) => Action::AnswerFailed(failure.error.clone()),
            _ => Action::AnswerFailed(Arc::new(UpstreamError::Internal)),
        }
    }
}

/// How long after this failure whoever names the group gets it instead of a new attempt.
pub fn cool_down(error: &UpstreamError) -> Duration {
    error.retry_after().unwrap_or_default().clamp(COOL_DOWN, BACKGROUND.1)
}

/// `gap` ± 20 %.
fn jittered(gap: Duration, jitter: f64) -> Duration {
    gap.mul_f64(1.0 + 0.2 * jitter.clamp(-1.0, 1.0))
}

#[cfg(test)]
#[path = "lifecycle/tests.rs"]
mod tests;
