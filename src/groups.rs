//! The GroupManager: which groups there are, what the config and their catalogs make of them, and that they end.
//!
//! `surface` says what of the catalogs stands in `tools/list`, `reload` what a changed config changes.

use crate::cache::{Cache, Key, Known};
use crate::config::{Config, ConfigError, DiscoveryMode, Endpoint, GroupName, Mode, ServerConfig};
use crate::protocol::Era;
use crate::rules::Rules;
use crate::schema::validate::ArgumentValidator;
use crate::transport::{Transport, launch, warden};
use crate::upstream::audience::Audience;
use crate::upstream::catalog::{Catalog, Read};
use crate::upstream::connect::BoxFuture;
use crate::upstream::optional::until;
use crate::upstream::session::{Connector, Found};
use crate::upstream::task::{self, Beginning, Shared};
use crate::upstream::{Grace, Upstream};
use crate::wire::Raw;
use dashmap::DashMap;
use login_flows::Invitations;
use logins::Awaited;
use named::Named;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surface::{Shown, Surface, Surfaces};
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

pub mod login_flows;
mod logins;
pub mod named;
pub mod reload;
pub mod surface;

/// What all of shutting down may take: OpenCode sends SIGTERM 2 s after it closed our stdin, others at once.
const SHUTDOWN: Duration = Duration::from_millis(1400);
/// Groups that connect at the same time without being asked for.
const SLOTS: usize = 8;
/// How old a cached catalog may be for a hybrid group not to be started at start-up.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// Catalogs learnt within this time of each other are written together.
const GATHER: Duration = Duration::from_millis(500);

pub struct GroupManager {
    config: watch::Sender<Arc<Config>>,
    /// Handles only: no state is in here, and no guard is held across an await.
    groups: DashMap<GroupName, Upstream>,
    tasks: Mutex<Tasks>,
    transport: Transport,
    shared: Shared,
    cache: Cache,
    surfaces: Mutex<Surfaces>,
    /// Counts what may have changed a list.
    listed: watch::Sender<u64>,
    /// Start-up has begun: a client is there.
    started: AtomicBool,
    shutting_down: AtomicBool,
    /// Where URIs came from.
    named: Mutex<Named>,
    /// What is wrong with the config file as it is now, while an older state of it is in force.
    reload_problems: Mutex<Vec<ConfigError>>,
    invitations: Mutex<Invitations>,
    pub audience: Arc<Audience>,
    /// Checks the arguments of calls, by the schemas of tools that were called before.
    pub argument_validator: ArgumentValidator,
}

/// Groups as they were when they were looked at last.
#[derive(Default)]
struct Seen {
    catalogs: HashMap<GroupName, Arc<Catalog>>,
    rules: HashMap<GroupName, Arc<Rules>>,
}

/// The groups' tasks, and whose they are.
#[derive(Default)]
struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, GroupName>,
    /// Told when there is a task to wait for.
    added: Arc<Notify>,
    /// Groups that are gone from the config and have not ended.
    retired: HashMap<GroupName, Upstream>,
}

impl GroupManager {
    /// Knows the config; the groups come with the first client (`start_up`), because what it can do belongs to what
    /// the cache remembers of them.
    pub fn new(config: Config, transport: Transport, cache: Cache) -> Arc<Self> {
        Arc::new(Self {
            config: watch::Sender::new(Arc::new(config)),
            groups: DashMap::new(),
            tasks: Mutex::default(),
            transport,
            shared: Shared::new(SLOTS),
            cache,
            surfaces: Mutex::default(),
            listed: watch::Sender::new(0),
            started: AtomicBool::new(false),
            shutting_down: AtomicBool::new(false),
            named: Mutex::default(),
            reload_problems: Mutex::default(),
            invitations: Mutex::default(),
            audience: Arc::default(),
            argument_validator: ArgumentValidator::default(),
        })
    }

    pub fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    /// Every group, in config order.
    pub fn all(&self) -> Vec<Upstream> {
        let config = self.config();
        let names = config.servers.iter().map(|(name, _)| name);
        names.filter_map(|name| self.get(name)).collect()
    }

    pub fn get(&self, name: &GroupName) -> Option<Upstream> {
        self.groups.get(name).map(|group| group.clone())
    }

    /// The group called exactly so.
    pub fn named(&self, name: &str) -> Option<Upstream> {
        self.groups.get(name).map(|group| group.clone())
    }

    /// What of the catalogs stands in `tools/list`.
    pub fn shown(&self) -> Shown {
        self.surfaces.lock().shown()
    }

    /// Remembers that this result of `group` names the URIs in it.
    pub fn note_uris(&self, group: &GroupName, result: &Raw) {
        self.named.lock().note(group, result);
    }

    /// The group whose result last named `uri`.
    pub fn named_by(&self, uri: &str) -> Option<GroupName> {
        self.named.lock().group(uri).cloned()
    }

    /// Changes whenever a list may have.
    pub fn listed(&self) -> watch::Receiver<u64> {
        self.listed.subscribe()
    }

    /// Whether start-up discovery goes on.
    pub fn discovering(&self) -> bool {
        self.surfaces.lock().discovering()
    }

    /// What is wrong with the config file as it is now, while its last good state is in force.
    pub fn reload_problems(&self) -> Vec<ConfigError> {
        self.reload_problems.lock().clone()
    }

    /// Whether every connection is being closed, so that a call that ends now says so.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Whether a group of which nothing is known is about to be.
    pub fn expects(&self, group: &Upstream) -> bool {
        let snapshot = group.snapshot();
        let coming = snapshot.connecting.is_some() || self.surfaces.lock().expects(&group.name);
        snapshot.catalog.is_none() && coming
    }

    /// A client is there, and has said what it can do: the task of every group begins, and eager and hybrid groups
    /// connect. Only the first call does anything; its first poll makes the groups.
    pub async fn start_up(&self) {
        if !self.started.swap(true, Ordering::Relaxed) {
            let known = self.cache.read();
            for (name, server) in &self.config().servers {
                self.add(name, server, &known, None);
            }
            let groups = self.all();
            self.begin(&groups).await;
        }
    }

    /// Connects those of `groups` that are to be connected at start.
    async fn begin(&self, groups: &[Upstream]) {
        let config = self.config();
        let always = config.settings.discovery == DiscoveryMode::Always;
        let fresh =
            |group: &Upstream| group.snapshot().catalog.as_ref().is_some_and(|catalog| catalog.age() < FRESH);
        let starts = |group: &&Upstream| match config.server(&group.name) {
            Some(Ok(ServerConfig { mode: Mode::Eager, .. })) => true,
            Some(Ok(ServerConfig { mode: Mode::Hybrid, .. })) => always || !fresh(group),
            _ => false,
        };
        let starting: Vec<_> = groups.iter().filter(starts).collect();
        self.surfaces.lock().discover(starting.iter().map(|group| group.name.clone()), Instant::now());
        for group in starting {
            group.start().await;
            // One whose attempt has ended before has no change to come.
            self.shared.changes.tell(&group.name);
        }
    }

    /// Makes a group of which the cache may know something.
    fn add(
        &self,
        name: &GroupName,
        server: &Result<ServerConfig, ConfigError>,
        known: &Known,
        predecessor: Option<BoxFuture<()>>,
    ) {
        let cached = server.as_ref().ok().and_then(|server| known.get(&self.key(server)));
        if let (Some(catalog), Ok(server)) = (&cached, server) {
            self.surfaces.lock().remember(name, Surface::of(catalog, &server.rules()));
        }
        self.launch(name, server, cached, predecessor);
    }

    /// Makes a group and starts its task.
    fn launch(
        &self,
        name: &GroupName,
        server: &Result<ServerConfig, ConfigError>,
        cached: Option<Arc<Catalog>>,
        predecessor: Option<BoxFuture<()>>,
    ) {
        let connector = Connector {
            group: name.clone(),
            transport: self.transport.clone(),
            audience: self.audience.clone(),
            max_message: self.config().settings.max_message_bytes,
            found: Found::new(cached.as_ref().map_or(Era::Handshake, |catalog| catalog.introduction.era)),
        };
        let beginning = Beginning {
            name: name.clone(),
            server: server.as_ref().map(|server| Arc::new(server.clone())).map_err(Clone::clone),
            cached,
            predecessor,
        };
        let (upstream, task) = task::start(beginning, connector, self.shared.clone());
        let mut tasks = self.tasks.lock();
        let id = tasks.running.spawn(task).id();
        tasks.names.insert(id, name.clone());
        tasks.added.notify_one();
        self.groups.insert(name.clone(), upstream);
    }

    /// Names what the cache has of a server.
    fn key(&self, server: &ServerConfig) -> Key {
        let cwd = match &server.endpoint {
            Endpoint::Stdio(stdio) => launch::directory(stdio, &self.transport.ambient),
            Endpoint::Http(_) => PathBuf::new(),
        };
        Key::new(server, &cwd, &self.audience.offer())
    }

    /// Everything that goes on beside the requests of a client: what groups learnt enters the list and the cache, and
    /// a group whose task panicked gets another. Runs until it is dropped.
    pub async fn tend(&self) {
        let mut seen = Seen::default();
        let mut awaited = Awaited::default();
        let mut flush = None;
        loop {
            let due = self.surfaces.lock().deadline();
            tokio::select! {
                changed = self.shared.changes.next() => {
                    awaited.look(changed.iter().map(|name| (name, self.get(name))));
                    if self.look(&changed, &mut seen) {
                        flush.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                }
                ended = self.task_ended() => self.replace_panicked(ended),
                () = until(due) => {
                    let changed = self.surfaces.lock().tick(Instant::now());
                    self.announce(changed);
                }
                () = until(awaited.due()) => awaited.check(self).await,
                () = until(flush) => {
                    flush = None;
                    self.cache.flush().await;
                }
            }
        }
    }

    /// Looks at what changed since it was `seen` last. True: something is to be remembered.
    fn look(&self, changed: &BTreeSet<GroupName>, seen: &mut Seen) -> bool {
        let mut learnt = false;
        let config = self.config();
        for name in changed {
            let (Some(group), Some(Ok(server))) = (self.get(name), config.server(name)) else {
                seen.catalogs.remove(name);
                seen.rules.remove(name);
                continue;
            };
            let snapshot = group.snapshot();
            let rules = seen.rules.insert(name.clone(), snapshot.rules.clone());
            // They may expose other tools.
            self.announce(rules.is_none_or(|last| !Arc::ptr_eq(&last, &snapshot.rules)));
            if let Some(catalog) = &snapshot.catalog
                && matches!(catalog.read, Read::Here(_))
                && seen.catalogs.get(name).is_none_or(|last| !Arc::ptr_eq(last, catalog))
            {
                learnt = true;
                seen.catalogs.insert(name.clone(), catalog.clone());
                self.cache.put(self.key(server), catalog.clone());
                let surface = Surface::of(catalog, &server.rules());
                self.surfaces.lock().learnt(name, server.mode, surface);
                // Its other lists may be new as well; who lists compares.
                self.announce(true);
            }
            if snapshot.attempted {
                let changed = self.surfaces.lock().attempted(name);
                self.announce(changed);
            }
        }
        learnt
    }

    fn announce(&self, changed: bool) {
        if changed {
            self.listed.send_modify(|count| *count += 1);
        }
    }

    async fn task_ended(&self) -> Result<(Id, ()), JoinError> {
        let added = self.tasks.lock().added.clone();
        loop {
            let ended = std::future::poll_fn(|context| {
                let mut tasks = self.tasks.lock();
                match tasks.running.poll_join_next_with_id(context) {
                    std::task::Poll::Ready(None) => std::task::Poll::Ready(None),
                    other => other,
                }
            });
            tokio::select! {
                biased;
                Some(ended) = ended => return ended,
                () = added.notified() => {}
            }
        }
    }

    /// A panic is a bug of ours; the group gets a new task, so that it works on the next use.
    fn replace_panicked(&self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let name = {
            let mut tasks = self.tasks.lock();
            tasks.retired.retain(|_, group| !group.has_ended());
            tasks.names.remove(&id)
        };
        let (Err(error), Some(name)) = (ended, name) else { return };
        if !error.is_panic() || self.is_shutting_down() {
            return;
        }
        tracing::error!(group = %name, "the task of this group panicked; it starts afresh");
        let changed = self.surfaces.lock().attempted(&name);
        self.announce(changed);
        if let (Some(server), Some(group)) = (self.config().server(&name), self.get(&name)) {
            self.launch(&name, server, group.snapshot().catalog.clone(), None);
        }
    }

    /// Closes every upstream at once and returns when nothing of them is left and new tokens are kept, or when time is
    /// up: then the warden ends what is left as soon as we are gone.
    pub async fn shutdown(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
        let mut running = std::mem::take(&mut self.tasks.lock().running);
        let closing = async {
            for group in self.all() {
                group.stop(Grace::Shutdown).await;
            }
            while running.join_next().await.is_some() {}
            self.transport.warden.shutdown(warden::Grace::FAST).await;
            // What was learnt in the last moment.
            self.cache.flush().await;
        };
        let all = async { tokio::join!(closing, self.cache.flush(), self.transport.logins.settled()) };
        if tokio::time::timeout(SHUTDOWN, all).await.is_err() {
            tracing::warn!("not everything ended in time; what is left is cut off");
        }
    }
}
