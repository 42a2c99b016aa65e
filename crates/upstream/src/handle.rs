//! The handle of one group: all that the rest of the program holds of it, and the commands that its task obeys.

use crate::catalog::Catalog;
use crate::connection::lease::Lease;
use crate::connection::milestones::Need;
use crate::connection::startup_output::StartupOutput;
use crate::connection::{Grace, handshake};
use crate::error::UpstreamError;
use crate::login::{LoginFlow, LoginPurpose, LoginStage};
use crate::snapshot::Snapshot;
use crate::start_progress::StartProgress;
use crate::stats::GroupStats;
use base::fair::Shares;
use config::tool_rules::Rules;
use config::{GroupName, ServerConfig};
use parking_lot::Mutex;
use process::server_log::{LogCursor, LogPage, ServerLog};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// A handle of one group. Cheap to clone.
#[derive(Clone)]
pub struct Upstream(pub(crate) Arc<GroupHandle>);

/// What the clones of a handle share.
pub struct GroupHandle {
    /// The group's name.
    pub name: GroupName,
    /// Sends commands to the group's task.
    pub(crate) mailbox: mpsc::Sender<Command>,
    /// The state that the group's task published last.
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Counts and times of the group's calls.
    pub stats: Arc<GroupStats>,
    /// The requests in flight, which the users over HTTP share.
    pub in_flight: Shares,
    /// The losses of a stateful server.
    pub(crate) lost_state: Arc<LostState>,
    /// What the group's processes wrote to stderr.
    pub(crate) log: ServerLog,
    /// What the process of the attempt in progress prints.
    pub(crate) startup: StartupOutput,
    /// What the work that no request causes has seen of the group.
    pub(crate) seen: Mutex<SeenGroup>,
    /// The last login that was offered for the group.
    pub(crate) login: Mutex<Option<LoginFlow>>,
}

/// What the work that no request causes has seen of a group.
#[derive(Default)]
pub(crate) struct SeenGroup {
    /// The last catalog that was read.
    pub catalog: Option<Arc<Catalog>>,
    /// The rules.
    pub rules: Option<Arc<Rules>>,
    /// Why the last attempt failed, if it did.
    pub failure: Option<Arc<UpstreamError>>,
}

/// The losses of a stateful server that had been called.
#[derive(Default)]
pub(crate) struct LostState {
    /// How many there were.
    pub losses: AtomicU64,
    /// How many of them callers know of.
    pub known: AtomicU64,
}

/// Answers a caller that waits for a lease.
pub(crate) type LeaseSender = oneshot::Sender<Result<Lease, Arc<UpstreamError>>>;

/// A command to a group's task. The mailbox is bounded; a sender that finds it full waits.
pub(crate) enum Command {
    /// Connects if there is no connection, and answers with a lease once that has what the caller needs.
    Acquire(Need, LeaseSender),
    /// Reads the catalog again, and answers when what the caller needs of it is published.
    Refresh(Need, oneshot::Sender<()>),
    /// The same, unless that was done just now.
    RefreshIfOld(oneshot::Sender<()>),
    /// Connects if the group's mode connects at start.
    Start,
    /// Connects for a call that is expected, if the config allows it.
    Prefetch,
    /// Connects if the last attempt failed, because somebody has logged in.
    LoggedIn,
    /// Closes the connection, if there is one, and connects again.
    Reconnect,
    /// Applies settings that do not need a new connection.
    Reconfigure(Arc<ServerConfig>),
    /// Closes the connection and ends the task.
    Stop(Grace),
    /// Rejects new callers, lets open calls finish, then closes the connection and ends the task.
    Drain,
}

/// Why there is no lease.
#[derive(Debug, Clone)]
pub enum AcquireError {
    /// The last attempt to connect failed.
    Failed(Arc<UpstreamError>),
    /// The attempt is still in progress, or the next one is planned.
    StillConnecting(Box<StartProgress>),
    /// The group has ended: the config changed or removed it, or the proxy shuts down.
    Gone,
    /// The group has ended, because the session ends.
    ShuttingDown,
}

impl Deref for Upstream {
    type Target = GroupHandle;

    fn deref(&self) -> &GroupHandle {
        &self.0
    }
}

impl Upstream {
    /// Returns the state that the group's task published last.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Returns a lease if there is a live connection now.
    pub fn try_lease(&self) -> Option<Lease> {
        self.snapshot.borrow().live.as_ref()?.lease()
    }

    /// Returns the state and a lease if there is a live connection now.
    pub fn if_connected(&self) -> Option<(Arc<Snapshot>, Lease)> {
        let snapshot = self.snapshot();
        let lease = snapshot.live.as_ref()?.lease()?;
        Some((snapshot, lease))
    }

    /// Returns a lease, connecting first if there is no connection, once that has what the caller needs. Waits at most
    /// `wait`; the attempt continues after that.
    ///
    /// # Errors
    ///
    /// `Failed` with the last failure, also if that is too recent for a new attempt. `StillConnecting` if `wait` is
    /// over. `Gone` if the group has ended or is about to. Never `ShuttingDown`, which a caller makes of `Gone`.
    pub async fn acquire(&self, need: Need, wait: Duration) -> Result<Lease, AcquireError> {
        if let Some(lease) = self.try_lease() {
            return Ok(lease);
        }
        let started = Instant::now();
        let answer = async {
            let (sender, receiver) = oneshot::channel();
            self.mailbox.send(Command::Acquire(need, sender)).await.map_err(|_| AcquireError::Gone)?;
            receiver.await.map_err(|_| AcquireError::Gone)?.map_err(AcquireError::Failed)
        };
        tokio::time::timeout(wait, answer).await.unwrap_or_else(|_| {
            let waited = started.elapsed();
            Err(AcquireError::StillConnecting(Box::new(self.connecting_progress(waited))))
        })
    }

    /// Returns how far the attempt to connect has come, for a caller that waited for this long.
    fn connecting_progress(&self, waited: Duration) -> StartProgress {
        let snapshot = self.snapshot();
        let limit = |server: &Arc<ServerConfig>| handshake::first_answer_timeout(server, None);
        StartProgress {
            elapsed: snapshot.starting.map_or(waited, |since| since.elapsed().max(waited)),
            stderr: self.startup.last_line(),
            hint: self.startup.hint(),
            wait: snapshot.wait(),
            attempt_limit: snapshot.server.as_ref().map(limit).unwrap_or_default(),
            last_failure: snapshot.last_failure().cloned(),
        }
    }

    /// Reads the catalog of the live connection again. Returns when what is needed of it is published or could not be
    /// read; at once if there is no connection or the group has ended. If a read is in progress, waits for that one.
    pub async fn refresh(&self, need: Need) {
        self.send_and_wait(|sender| Command::Refresh(need, sender)).await;
    }

    /// Reads the tools again as [`refresh`](Self::refresh) does, unless that was done within the last 10 s and the server
    /// reports no change.
    pub async fn refresh_if_old(&self) {
        self.send_and_wait(Command::RefreshIfOld).await;
    }

    /// Sends a command, and waits until it is answered or dropped, as without a connection to read from.
    async fn send_and_wait(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) {
        let (sender, receiver) = oneshot::channel();
        if self.mailbox.send(command(sender)).await.is_ok() {
            drop(receiver.await);
        }
    }

    /// Waits until the connection, if there is one, is 500 ms old: some servers add tools right after the handshake.
    pub async fn settled(&self) {
        let settled = self.snapshot.borrow().live.as_ref().map(|live| live.settled());
        if let Some(settled) = settled {
            settled.await;
        }
    }

    /// Tells the group that a call is expected: restarts the idle timer of the connection or, if there is none, starts the
    /// server if the config allows it. Returns at once. A failure has no consequences.
    pub fn expect_call(&self) {
        match &self.snapshot.borrow().live {
            Some(live) => live.touch(),
            // A group with so many commands is busy enough.
            None => drop(self.mailbox.try_send(Command::Prefetch)),
        }
    }

    /// Returns how many losses of a stateful server callers know of. A call that begins now relies on what came after
    /// them.
    pub fn known_losses(&self) -> u64 {
        self.lost_state.known.load(Ordering::Acquire)
    }

    /// Returns whether the state of a stateful server was lost that a call relies on. `known`: how many losses callers
    /// knew of when the call began. From now on, callers know of this one as well.
    pub fn lost_state_since(&self, known: u64) -> bool {
        let losses = self.lost_state.losses.load(Ordering::Acquire);
        if losses > known {
            self.lost_state.known.fetch_max(losses, Ordering::AcqRel);
        }
        losses > known
    }

    /// Tells the group that a client has connected: an eager or hybrid group connects, unless it is connected or an
    /// attempt is in progress or planned. Returns before that.
    pub async fn start(&self) {
        drop(self.mailbox.send(Command::Start).await);
    }

    /// Tells the group that somebody has logged in: a failed group connects at once, and callers wait for that. Returns
    /// before that.
    pub(crate) async fn logged_in(&self) {
        drop(self.mailbox.send(Command::LoggedIn).await);
    }

    /// Returns the address of the group's open login, if logging in would help.
    pub fn login_url(&self) -> Option<String> {
        let flow = self.login.lock().clone()?;
        let helps = flow.purpose == LoginPurpose::MoreScopes || self.snapshot().state.needs_login();
        flow.open_url().filter(|_| helps)
    }

    /// Ends the group's login, if the group waits for one: the group has connected, or another process has logged in.
    pub(crate) fn end_awaited_login(&self) {
        if let Some(flow) = self.login.lock().as_ref().filter(|flow| flow.is_awaited()) {
            flow.enter(LoginStage::LoggedIn(Instant::now()));
        }
    }

    /// Ends the group's login, because the config has another entry now.
    pub(crate) fn expire_login(&self) {
        if let Some(flow) = &*self.login.lock() {
            flow.enter(LoginStage::Expired);
        }
    }

    /// Tells the group to close its connection, if there is one, and to connect again. Open calls fail. Returns before
    /// that.
    pub async fn reconnect(&self) {
        drop(self.mailbox.send(Command::Reconnect).await);
    }

    /// Tells the group to apply settings that do not need a new connection. Returns before they are applied. Does
    /// nothing if the group has ended.
    pub(crate) async fn reconfigure(&self, server: Arc<ServerConfig>) {
        drop(self.mailbox.send(Command::Reconfigure(server)).await);
    }

    /// Tells the group to let open calls finish, then to close the connection and to end. `ended` waits for that.
    pub async fn drain(&self) {
        drop(self.mailbox.send(Command::Drain).await);
    }

    /// Tells the group to close the connection and to end. `ended` waits for that.
    pub async fn stop(&self, grace: Grace) {
        drop(self.mailbox.send(Command::Stop(grace)).await);
    }

    /// Returns what the group's server wrote to stderr, from `after` on. The log of a shared server comes from its
    /// host; if the host does not answer within a second, this instance's own log is used. Reading the log does not
    /// count as a use of the connection.
    pub async fn log_page(&self, after: Option<LogCursor>) -> LogPage {
        let live = self.snapshot.borrow().live.clone();
        let shared = live.filter(|live| live.process().is_some_and(|process| process.is_shared));
        let page = match shared {
            Some(live) => live.read_log(after).await,
            None => None,
        };
        page.unwrap_or_else(|| self.log.after(after))
    }

    /// Warns that the process of the attempt in progress prints what HTTP servers print. `None` if it does not.
    pub fn startup_hint(&self) -> Option<String> {
        self.startup.hint()
    }

    /// The last line that the process of the attempt in progress wrote to stderr, in quotes.
    pub fn startup_line(&self) -> Option<String> {
        self.startup.last_line()
    }

    /// Returns whether both are handles of one task: no reload replaced the group in between.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether its server is a remote one.
    pub(crate) fn is_remote(&self) -> bool {
        self.snapshot().is_remote()
    }

    /// Returns whether the group's task has ended.
    pub fn has_ended(&self) -> bool {
        self.snapshot.has_changed().is_err()
    }

    /// Resolves when the group's task has ended, and with it every process that it started.
    pub async fn ended(&self) {
        let mut snapshot = self.snapshot.clone();
        while snapshot.changed().await.is_ok() {}
    }
}
