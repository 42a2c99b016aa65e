//! One upstream as the rest of the program sees it: a handle that anyone may hold, a snapshot of its state, and a
//! lease for whoever uses its connection.
//!
//! `lifecycle` decides, `task` is the one owner of an upstream's state and does what is decided, `session` makes
//! connections and `introduce` has their first words, in the era (`dialect`) that the server speaks; `connect` is the
//! seam between them, `catalog` is what was learnt, `error` is what went wrong. Calls never pass the mailbox: a lease is
//! taken from the snapshot by an atomic count, so no call waits behind another and an idle timer cuts none off.

use crate::config::{GroupName, Mode, ServerConfig};
use crate::protocol::Era;
use crate::rules::Rules;
use crate::wire::peer::{CallError, CallOptions, Peer};
use crate::wire::{Raw, Reply};
use catalog::Catalog;
use error::UpstreamError;
use lifecycle::{State, Usage};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

pub mod attendant;
pub mod audience;
pub mod catalog;
pub mod connect;
pub mod dialect;
pub mod error;
pub mod introduce;
pub mod lifecycle;
pub mod listening;
pub mod optional;
pub mod session;
pub mod stats;
pub mod task;
pub mod task_ids;

/// A handle on one group. Cheap to clone.
#[derive(Clone)]
pub struct Upstream {
    pub name: GroupName,
    mailbox: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    pub stats: Arc<stats::Stats>,
    /// Set when a stateful server that had been called was lost.
    lost_state: Arc<AtomicBool>,
}

/// What a group's task can be asked. The queue is bounded; who finds it full waits.
enum Command {
    /// Connect if need be and answer with a lease.
    Acquire(oneshot::Sender<Result<Lease, Arc<UpstreamError>>>),
    /// Read the catalog again and answer when it is published.
    Refresh(oneshot::Sender<()>),
    /// The client is there: connect if the mode says so.
    Start,
    /// Somebody logged in: connect, if the last attempt failed.
    Mended,
    /// The config says something else of this group that needs no new connection.
    Reconfigure(Arc<ServerConfig>),
    /// Close and end.
    Stop(Grace),
    /// Take no more callers, let those who are served finish, close and end.
    Drain,
}

/// How patiently a process is ended after its stdin was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// One upstream among many: it may finish what it does.
    Ordinary,
    /// All of us end: clients wait two seconds for that at best.
    Shutdown,
}

/// A group as it was at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// `None`: the entry in the config is wrong.
    pub server: Option<Arc<ServerConfig>>,
    /// What the config allows of this group's tools.
    pub rules: Arc<Rules>,
    pub state: State,
    /// Since when an attempt is under way.
    pub connecting: Option<Instant>,
    /// When the next attempt is due by itself.
    pub next_attempt: Option<Instant>,
    /// Attempts have been made, whatever their outcome.
    pub attempted: bool,
    /// Kept through failures, so that a failed group can still be described.
    pub catalog: Option<Arc<Catalog>>,
    live: Option<Arc<Live>>,
}

impl Snapshot {
    pub fn mode(&self) -> Mode {
        self.server.as_ref().map_or(Mode::Pure, |server| server.mode)
    }

    /// Whether nothing that anyone watches for is different.
    fn same_as(&self, other: &Self) -> bool {
        let same_state = match (&self.state, &other.state) {
            (State::Failed(a), State::Failed(b)) => a.at == b.at && a.attempts == b.attempts,
            (a, b) => a.name() == b.name(),
        };
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            a.map(Arc::as_ptr) == b.map(Arc::as_ptr)
        }
        same_state
            && self.connecting == other.connecting
            && self.next_attempt == other.next_attempt
            && self.attempted == other.attempted
            && same(self.server.as_ref(), other.server.as_ref())
            && same(self.catalog.as_ref(), other.catalog.as_ref())
            && same(self.live.as_ref(), other.live.as_ref())
    }

    /// How long a caller waits for a connection.
    pub fn wait(&self) -> Duration {
        self.server.as_ref().map_or(Duration::ZERO, |server| server.timeout.wait)
    }

    /// Since when the connection is unused; `None` while it is used or where there is none.
    pub fn idle(&self) -> Option<Duration> {
        let usage = self.live.as_ref()?.usage();
        (usage.leases == 0).then(|| usage.last_activity.elapsed())
    }
}

/// Why there is no lease.
#[derive(Debug, Clone)]
pub enum Unavailable {
    Failed(Arc<UpstreamError>),
    /// The attempt goes on; the caller waited this long.
    StillConnecting(Duration),
    /// The group has ended: the config has it otherwise or not at all, or we are shutting down.
    Gone,
}

impl Upstream {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// A lease on the live connection, if there is one right now.
    pub fn try_lease(&self) -> Option<Lease> {
        self.snapshot.borrow().live.as_ref()?.lease()
    }

    /// A lease, connecting first if need be. Waits at most `wait`; the attempt outlives the waiting.
    pub async fn acquire(&self, wait: Duration) -> Result<Lease, Unavailable> {
        if let Some(lease) = self.try_lease() {
            return Ok(lease);
        }
        let started = Instant::now();
        let asked = async {
            let (answer, answered) = oneshot::channel();
            self.mailbox.send(Command::Acquire(answer)).await.map_err(|_| Unavailable::Gone)?;
            answered.await.map_err(|_| Unavailable::Gone)?.map_err(Unavailable::Failed)
        };
        tokio::time::timeout(wait, asked)
            .await
            .unwrap_or_else(|_| Err(Unavailable::StillConnecting(started.elapsed())))
    }

    /// Reads the catalog of the live connection again. Returns when that is done or cannot be done.
    pub async fn refresh(&self) {
        let (answer, answered) = oneshot::channel();
        if self.mailbox.send(Command::Refresh(answer)).await.is_ok() {
            // A dropped answer means that there is no connection to read from.
            drop(answered.await);
        }
    }

    /// Counts as use of the connection, if there is one.
    pub fn touch(&self) {
        drop(self.try_lease());
    }

    /// Whether a stateful server was lost since the last call. True once: whoever hears it tells the model.
    pub fn take_lost_state(&self) -> bool {
        self.lost_state.swap(false, Ordering::AcqRel)
    }

    /// The client is there: eager and hybrid groups connect.
    pub async fn start(&self) {
        drop(self.mailbox.send(Command::Start).await);
    }

    /// Somebody logged in: a group that failed tries again, and who asks for it from now on waits for that.
    pub async fn mended(&self) {
        drop(self.mailbox.send(Command::Mended).await);
    }

    /// Other rules, the same connection.
    pub async fn reconfigure(&self, server: Arc<ServerConfig>) {
        drop(self.mailbox.send(Command::Reconfigure(server)).await);
    }

    /// Lets those who are served finish, then closes and ends.
    pub async fn drain(&self) {
        drop(self.mailbox.send(Command::Drain).await);
    }

    /// Asks the group's task to close its connection and end.
    pub async fn stop(&self, grace: Grace) {
        drop(self.mailbox.send(Command::Stop(grace)).await);
    }

    pub fn has_ended(&self) -> bool {
        self.snapshot.has_changed().is_err()
    }

    /// Resolves when the group's task has ended, and with it everything it had started.
    pub async fn ended(&self) {
        let mut snapshot = self.snapshot.clone();
        while snapshot.changed().await.is_ok() {}
    }
}

/// The right to use a connection; while one is held, the connection is not closed for being idle.
pub struct Lease(Arc<Live>);

impl Lease {
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// How the server speaks.
    pub fn era(&self) -> Era {
        self.0.era
    }

    /// Asks the server on behalf of somebody who speaks as `from` does.
    pub async fn call(
        &self,
        method: &str,
        params: Option<Raw>,
        from: Era,
        options: CallOptions,
    ) -> Result<Reply, CallError> {
        self.0.peer.call(method, dialect::request(params, from, self.0.era), options).await
    }

    /// Resolves when the connection has ended, or is to end as soon as nobody uses it.
    pub async fn ended(&self) {
        loop {
            let gone = self.0.gone.notified();
            if self.0.leases.load(Ordering::Acquire) & CLOSED != 0 {
                return;
            }
            gone.await;
        }
    }

    /// Why the connection ended, once it has.
    pub fn lost(&self) -> Option<Arc<UpstreamError>> {
        self.0.lost.get().cloned()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A live connection and the count of its users.
pub struct Live {
    peer: Arc<Peer>,
    pub(crate) era: Era,
    /// Leases given out; `CLOSED` is set once no more may be.
    leases: AtomicUsize,
    since: Instant,
    /// Nanoseconds from `since`.
    last_activity: AtomicU64,
    /// Told when the last lease comes back.
    unused: Notify,
    /// Told when it gives out no more leases.
    gone: Notify,
    /// Why it ended, if it did so by itself.
    pub(crate) lost: OnceLock<Arc<UpstreamError>>,
}

const CLOSED: usize = 1 << (usize::BITS - 1);

impl Live {
    pub(crate) fn new(peer: Arc<Peer>, era: Era) -> Arc<Self> {
        Arc::new(Self {
            peer,
            era,
            leases: AtomicUsize::new(0),
            since: Instant::now(),
            last_activity: AtomicU64::new(0),
            unused: Notify::new(),
            gone: Notify::new(),
            lost: OnceLock::new(),
        })
    }

    fn lease(self: &Arc<Self>) -> Option<Lease> {
        let open = |leases: usize| (leases & CLOSED == 0).then_some(leases + 1);
        self.leases.fetch_update(Ordering::AcqRel, Ordering::Acquire, open).ok()?;
        self.touch();
        Some(Lease(self.clone()))
    }

    fn release(&self) {
        self.touch();
        if self.leases.fetch_sub(1, Ordering::AcqRel) & !CLOSED == 1 {
            self.unused.notify_one();
        }
    }

    fn touch(&self) {
        let elapsed = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_activity.store(elapsed, Ordering::Release);
    }

    fn usage(&self) -> Usage {
        Usage {
            leases: self.leases.load(Ordering::Acquire) & !CLOSED,
            last_activity: self.since + Duration::from_nanos(self.last_activity.load(Ordering::Acquire)),
        }
    }

    /// Gives out no more leases, if none is out now. False: it is used.
    fn close_if_unused(&self) -> bool {
        self.leases.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives out no more leases.
    pub(crate) fn close(&self) {
        self.leases.fetch_or(CLOSED, Ordering::AcqRel);
        self.gone.notify_waiters();
    }

    /// Says why the connection ended and gives out no more leases.
    pub(crate) fn lose(&self, error: UpstreamError) {
        drop(self.lost.set(Arc::new(error)));
        self.close();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
