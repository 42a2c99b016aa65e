//! A group's state at one moment, as its task publishes it.

use crate::catalog::Catalog;
use crate::catalog::tool::Tool;
use crate::catalog::tool_findings;
use crate::connection::lease::LiveConnection;
use crate::connection::malformed_lines::LastUnreadable;
use crate::connection::milestones::Need;
use crate::error::UpstreamError;
use crate::lifecycle::{Policy, State};
use crate::pins::changes::RefusedTools;
use crate::pins::group::GroupPins;
use crate::transport::ServerProcess;
use config::tool_rules::Rules;
use config::{Endpoint, Mode, ServerConfig};
use process::launch::direct::LauncherUse;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time that a caller waits for a start because the last one took so long.
const LONGEST_USUAL_WAIT: Duration = Duration::from_secs(55);

/// A group's state at one moment.
#[derive(Clone)]
pub struct Snapshot {
    /// The group's configuration. `None`: its entry in the config is invalid.
    pub server: Option<Arc<ServerConfig>>,
    /// The config's rules for the group's tools.
    pub rules: Arc<Rules>,
    /// The state of the lifecycle.
    pub state: State,
    /// When the attempt in progress began.
    pub connecting: Option<Instant>,
    /// When the first attempt began since the group was connected or its callers were answered.
    pub starting: Option<Instant>,
    /// When the next attempt is due without a request.
    pub next_attempt: Option<Instant>,
    /// Whether an attempt has ended, in success or failure.
    pub attempted: bool,
    /// Why the last connection was lost, until another one is made.
    pub lost: Option<Arc<UpstreamError>>,
    /// What is known of the server. It outlives failures, so that a failed group can still be described.
    pub catalog: Option<Arc<Catalog>>,
    /// What is remembered of its tools. Unlike the rest of a snapshot it changes: an approval counts at once.
    pub pins: Arc<GroupPins>,
    /// The live connection, if there is one.
    pub(super) live: Option<Arc<LiveConnection>>,
}

impl Snapshot {
    /// The group's mode. A group whose entry is invalid counts as pure: it never connects.
    pub fn mode(&self) -> Mode {
        self.server.as_ref().map_or(Mode::Pure, |server| server.common.mode)
    }

    /// Returns whether the server is a remote one.
    pub(crate) fn is_remote(&self) -> bool {
        self.server.as_ref().is_some_and(|server| matches!(server.endpoint, Endpoint::Http(_)))
    }

    /// The tools that are refused now because they changed.
    pub fn refused(&self) -> RefusedTools {
        self.server.as_ref().map(|server| self.pins.refused(server)).unwrap_or_default()
    }

    /// Returns what the user should know of the server although it works. Names no tool that may not be called.
    pub fn findings(&self) -> Vec<String> {
        self.findings_naming(|tool| self.rules.allows_own(tool))
    }

    /// Returns the findings for the owner of the config, who may know which tools the rules hide.
    pub fn findings_for_owner(&self) -> Vec<String> {
        let hidden = self.catalog.as_ref().and_then(|catalog| tool_findings::hidden(catalog, &self.rules));
        self.findings_naming(|_| true).into_iter().chain(hidden).collect()
    }

    fn findings_naming(&self, may_name: impl Fn(&str) -> bool) -> Vec<String> {
        let Some(catalog) = &self.catalog else { return Vec::new() };
        let refused = self.refused();
        let is_callable =
            |tool: &&Tool| self.rules.allows(&tool.name) && !tool.app_only && !refused.contains(&tool.name);
        let unlistable = tool_findings::unlistable(catalog.tools.iter().filter(is_callable));
        let globs = self.server.as_ref().map_or(&[][..], |server| &server.own_globs);
        let unused = tool_findings::unused(globs, catalog, &self.rules, may_name);
        let of_connection = self.live.as_ref().and_then(|live| live.finding());
        let findings = unlistable.into_iter().chain(of_connection);
        findings.chain(catalog.findings.iter().cloned()).chain(unused).collect()
    }

    /// Returns the warnings about the group's config entry.
    pub fn config_warnings(&self) -> impl Iterator<Item = String> {
        let warnings = self.server.iter().flat_map(|server| &server.warnings);
        warnings.map(|warning| format!("config warning: {warning}"))
    }

    /// The number of known tools that the config allows. `None`: the tools are not known.
    pub fn allowed_tools(&self) -> Option<usize> {
        let tools = &self.catalog.as_ref()?.tools;
        Some(tools.iter().filter(|tool| self.rules.allows(&tool.name)).count())
    }

    /// An estimate of the tokens of the known tools that the config allows, as a client of the server alone shows them.
    pub fn tool_tokens(&self) -> usize {
        let tools = self.catalog.iter().flat_map(|catalog| &catalog.tools);
        tools.filter(|tool| self.rules.allows(&tool.name)).map(|tool| tool.tokens as usize).sum()
    }

    /// What every request needs of a connection. A server that asks for roots has read them once it has answered the
    /// lists.
    pub fn least_need(&self) -> Need {
        match self.catalog.as_ref().is_some_and(|catalog| catalog.info.asks_for_roots == Some(true)) {
            true => Need::Tools,
            false => Need::Handshake,
        }
    }

    /// How long a caller waits for a connection: `timeout.wait`, but long enough for a start like the last one, because it
    /// would fail after each idle close otherwise. Clients wait for 60 s.
    pub fn wait(&self) -> Duration {
        let last_start = self.catalog.as_ref().and_then(|catalog| catalog.connect_time);
        let enough = last_start.map_or(Duration::ZERO, |took| (took * 3 / 2).min(LONGEST_USUAL_WAIT));
        self.server.as_ref().map_or(Duration::ZERO, |server| server.timeout.wait.max(enough))
    }

    /// Returns why there is no connection: the failure of the last attempt, else the loss of the last connection.
    /// `None` if the group was never connected or its connection was closed on purpose.
    pub fn last_failure(&self) -> Option<&Arc<UpstreamError>> {
        self.state.failure().map(|failure| &failure.error).or(self.lost.as_ref())
    }

    /// How long the connection has been unused; `None` while it is in use, or if there is none.
    pub fn idle(&self) -> Option<Duration> {
        let usage = self.live.as_ref()?.usage();
        (usage.leases == 0).then(|| usage.last_activity.elapsed())
    }

    /// Returns how soon the connection is closed if it stays unused. `None` while it is in use, if there is none, and
    /// if the group keeps it open.
    pub fn closes_in(&self) -> Option<Duration> {
        let limit = Policy::of(self.server.as_deref()?).idle_limit(self.live.as_ref()?.usage())?;
        Some(limit.saturating_sub(self.idle()?))
    }

    /// How many requests of clients are in flight, and how long the first of them has been. `None` if there are none.
    pub fn in_flight(&self) -> Option<(usize, Duration)> {
        let (count, first) = self.live.as_ref()?.calls_in_flight();
        Some((count, first?.elapsed()))
    }

    /// The server's process, while it is connected and on this machine.
    pub fn process(&self) -> Option<ServerProcess> {
        self.live.as_ref()?.process()
    }

    /// What `"launcher": "direct"` did for the server's process, if the config has it.
    pub fn launcher(&self) -> Option<&LauncherUse> {
        self.live.as_ref()?.launcher()
    }

    /// The last message of the live connection that could not be read and belongs to no call, if there was one.
    pub fn unreadable(&self) -> Option<LastUnreadable> {
        self.live.as_ref()?.unreadable.last()
    }

    /// Returns whether the two differ in nothing that an observer could see.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same_state = match (&self.state, &other.state) {
            (State::Failed(a), State::Failed(b)) => a.at == b.at && a.attempts == b.attempts,
            (a, b) => a.name() == b.name(),
        };
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            a.map(Arc::as_ptr) == b.map(Arc::as_ptr)
        }
        same_state
            && self.connecting == other.connecting
            && self.starting == other.starting
            && self.next_attempt == other.next_attempt
            && self.attempted == other.attempted
            && same(self.server.as_ref(), other.server.as_ref())
            && same(self.catalog.as_ref(), other.catalog.as_ref())
            && same(self.live.as_ref(), other.live.as_ref())
            && same(self.lost.as_ref(), other.lost.as_ref())
    }
}
