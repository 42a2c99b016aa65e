//! When a group connects, waits, retries and closes: events and time in, actions out. No I/O, no clock, no tasks.
//!
//! ```text
//!                attempt succeeded                 idle, lost
//!     Pending ─────────────────────▶ Connected ─────────────────▶ Discovered
//!        │                              ▲  ▲                          │
//!        │ attempt failed               │  ╰──────────────────────────╯
//!        ╰────────────▶ Failed ─────────╯   attempt succeeded
//! ```
//!
//! Whether an attempt is under way is beside the state (`Effort`), because it can be so in three of the four.

use super::error::UpstreamError;
use crate::config::{Mode, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Whoever names a group whose failure is younger than this gets that failure instead of a new attempt.
pub const COOL_DOWN: Duration = Duration::from_secs(5);

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

    pub fn of(server: &Server) -> Self {
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

#[derive(Debug, Clone)]
pub struct Failure {
    pub error: Arc<UpstreamError>,
    pub at: Instant,
    /// Attempts in a row that failed.
    pub attempts: u32,
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
}

/// What is being done to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Rest,
    Attempting,
}

#[derive(Debug)]
pub enum Event {
    /// A caller waits for the connection.
    Wanted,
    Succeeded,
    Failed(Arc<UpstreamError>),
    /// The connection ended by itself.
    Lost,
    /// Time to look at the deadline, or the use of the connection changed.
    Tick,
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
}

#[derive(Debug)]
pub struct Lifecycle {
    policy: Policy,
    state: State,
    effort: Effort,
    /// Whether a catalog is known, so that a lost connection leaves a Discovered group.
    discovered: bool,
}

impl Lifecycle {
    pub fn new(policy: Policy) -> Self {
        Self { policy, state: State::Pending, effort: Effort::Rest, discovered: false }
    }

    /// A group that cannot work before its config changes.
    pub fn broken(policy: Policy, error: UpstreamError, now: Instant) -> Self {
        let failure = Failure { error: Arc::new(error), at: now, attempts: 0 };
        Self { state: State::Failed(failure), ..Self::new(policy) }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn connecting(&self) -> bool {
        self.effort == Effort::Attempting
    }

    /// The only place where a group's state changes, but for `closed`.
    pub fn on(&mut self, event: Event, usage: Option<Usage>, now: Instant) -> Option<Action> {
        match event {
            Event::Wanted => self.wanted(now),
            Event::Succeeded => {
                self.effort = Effort::Rest;
                self.state = State::Connected;
                self.discovered = true;
                Some(Action::AnswerConnected)
            }
            Event::Failed(error) => {
                self.effort = Effort::Rest;
                let attempts = match &self.state {
                    State::Failed(failure) => failure.attempts + 1,
                    _ => 1,
                };
                self.state = State::Failed(Failure { error: error.clone(), at: now, attempts });
                Some(Action::AnswerFailed(error))
            }
            Event::Lost => {
                self.closed();
                None
            }
            Event::Tick => {
                let idle = self.policy.idle_timeout?;
                let due = self.deadline(usage).is_some_and(|deadline| deadline <= now);
                due.then_some(Action::CloseIdle(idle))
            }
        }
    }

    fn wanted(&mut self, now: Instant) -> Option<Action> {
        match (&self.state, self.effort) {
            (State::Connected, _) => Some(Action::AnswerConnected),
            (_, Effort::Attempting) => None,
            (State::Failed(failure), Effort::Rest)
                if now < failure.at + COOL_DOWN && failure.attempts > 0 =>
            {
                Some(Action::AnswerFailed(failure.error.clone()))
            }
            (State::Failed(failure), Effort::Rest) if matches!(*failure.error, UpstreamError::Config(_)) => {
                Some(Action::AnswerFailed(failure.error.clone()))
            }
            (_, Effort::Rest) => {
                self.effort = Effort::Attempting;
                Some(Action::Connect)
            }
        }
    }

    /// The connection is gone: closed for being idle, or lost.
    pub fn closed(&mut self) {
        if matches!(self.state, State::Connected) {
            self.state = if self.discovered { State::Discovered } else { State::Pending };
        }
    }

    /// When something is due by itself.
    pub fn deadline(&self, usage: Option<Usage>) -> Option<Instant> {
        let usage = usage.filter(|usage| usage.leases == 0)?;
        matches!(self.state, State::Connected).then_some(usage.last_activity + self.policy.idle_timeout?)
    }
}

#[cfg(test)]
#[path = "lifecycle/tests.rs"]
mod tests;
