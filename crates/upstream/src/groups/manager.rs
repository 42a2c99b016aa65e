//! The manager: creates groups and hands out their handles.

use super::registry::{GroupRegistry, RegistryStage, RestoredGroup};
use super::startup_info::StartupInfo;
use super::surface::{Note, Surface};
use crate::cache::{Cache, CacheKey, CachedCatalogs};
use crate::catalog::{Catalog, CatalogSource, Tool};
use crate::clients::Clients;
use crate::connection::connector::{Connector, KnownEra};
use crate::connection::startup_output::StartupOutput;
use crate::handle::Upstream;
use crate::pins::PinStore;
use crate::pins::group::GroupPins;
use crate::task::common::SharedState;
use crate::task::{self, spec::GroupSpec};
use crate::transport::Transport;
use base::blocking;
use config::{Config, ConfigError, DiscoveryMode, Endpoint, GroupName, Mode, ServerConfig, SurfaceKind};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use process::launch;
use process::server_log::ServerLog;
use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::Raw;

/// How many groups connect at the same time without a request.
const START_SLOTS: usize = 8;
/// The age below which a cached catalog saves a hybrid group its connection at start.
const FRESH_CATALOG_AGE: Duration = Duration::from_secs(24 * 3600);
/// How long the definitions that the cache has may take to be read, before their groups connect instead.
const FILE_TIMEOUT: Duration = Duration::from_secs(2);

/// The groups of this instance.
pub struct GroupManager {
    /// The config in force.
    pub(super) config: watch::Sender<Arc<Config>>,
    /// What is wrong with the config file, while its last valid content is in force.
    pub(super) reload_errors: Mutex<Vec<ConfigError>>,
    /// The groups.
    pub(super) registry: Mutex<GroupRegistry>,
    /// Changes whenever a list of the client may have changed.
    list_version: watch::Sender<u64>,
    /// The tasks of the groups.
    pub(super) tasks: Mutex<JoinSet<()>>,
    /// The tasks of the logins that were offered.
    pub(super) login_tasks: Mutex<JoinSet<()>>,
    /// The parts of the program that the groups use.
    pub(super) environment: Environment,
    /// What is known of this instance before any config is read.
    startup: StartupInfo,
    /// Whether every connection is being closed.
    pub(super) shutting_down: AtomicBool,
}

/// The parts of the program that the groups use.
pub(super) struct Environment {
    /// Opens the transports.
    pub(super) transport: Transport,
    /// The clients in front.
    pub(super) clients: Arc<dyn Clients>,
    /// The catalogs on disk.
    pub(super) cache: Cache,
    /// What is remembered of the groups' tools.
    pub(super) pins: PinStore,
    /// What the tasks of all groups share.
    pub(super) shared: SharedState,
}

impl GroupManager {
    /// A manager without groups. `start` creates them when the first client is there, because the key of the cache
    /// contains what the client can do.
    pub fn new(
        config: Config,
        transport: Transport,
        clients: Arc<dyn Clients>,
        cache: Cache,
        pins: PinStore,
        startup: StartupInfo,
    ) -> Arc<Self> {
        let shared = SharedState::new(START_SLOTS);
        Arc::new(Self {
            config: watch::Sender::new(Arc::new(config)),
            reload_errors: Mutex::default(),
            registry: Mutex::default(),
            list_version: watch::Sender::default(),
            tasks: Mutex::default(),
            login_tasks: Mutex::default(),
            environment: Environment { transport, clients, cache, pins, shared },
            startup,
            shutting_down: AtomicBool::new(false),
        })
    }

    /// The config in force.
    pub fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    /// Receives every config that comes into force.
    pub fn config_changes(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// What is wrong with the config file, while its last valid content is in force.
    pub fn reload_errors(&self) -> Vec<ConfigError> {
        self.reload_errors.lock().clone()
    }

    /// What is wrong with the command line and the environment variables of its options.
    pub fn usage_errors(&self) -> &[String] {
        &self.startup.errors
    }

    /// The log file, if one is written.
    pub fn log_file(&self) -> Option<&Path> {
        self.startup.log_file.get().map(PathBuf::as_path)
    }

    /// Where results are stored that are too large for memory.
    pub fn results_dir(&self) -> Option<PathBuf> {
        self.startup.results_dir.clone()
    }

    /// Returns the groups of the config, also those whose entry is invalid, in config order. There are none before
    /// `start`.
    pub fn all(&self) -> Vec<Upstream> {
        let (config, registry) = (self.config(), self.registry.lock());
        config.servers.iter().filter_map(|(name, _)| registry.get(name.as_str())).collect()
    }

    /// Returns a group.
    pub fn get(&self, name: &GroupName) -> Option<Upstream> {
        self.get_by_name(name.as_str())
    }

    /// Returns the group of exactly this name.
    pub fn get_by_name(&self, name: &str) -> Option<Upstream> {
        self.registry.lock().get(name)
    }

    /// What `tools/list` shows of each group.
    pub fn surfaces(&self) -> BTreeMap<GroupName, Arc<Surface>> {
        self.registry.lock().surfaces()
    }

    /// Why groups cannot be used, as `tools/list` says it. Groups whose entry is invalid are not among them.
    pub fn notes(&self) -> BTreeMap<GroupName, Note> {
        self.registry.lock().notes()
    }

    /// A number that changes whenever a list may have changed.
    pub fn list_version(&self) -> watch::Receiver<u64> {
        self.list_version.subscribe()
    }

    /// Returns whether start-up discovery is in progress.
    pub fn is_discovering(&self) -> bool {
        self.registry.lock().is_discovering()
    }

    /// Resolves when start-up discovery is over; at once if none is in progress.
    pub async fn discovery_ended(&self) {
        let mut version = self.list_version();
        // The manager has the sender.
        while self.is_discovering() && version.changed().await.is_ok() {}
    }

    /// Resolves when every group has been tried whose catalog is about to be read for the first time. One that failed in the
    /// last run is not waited for.
    pub async fn first_catalogs_read(&self) {
        let notes = self.notes();
        for group in self.all().into_iter().filter(|group| !notes.contains_key(&group.name)) {
            let mut snapshot = group.snapshot.clone();
            let is_untried = || self.expects_catalog(&group) && !group.snapshot().attempted;
            while is_untried() && snapshot.changed().await.is_ok() {}
        }
    }

    /// Shows in `tools/list` what start-up discovery found so far.
    pub fn show_discovered(&self) {
        let changed = self.registry.lock().show_found();
        self.lists_changed(changed);
    }

    /// Returns whether every connection is being closed.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Returns whether the catalog of a group is not known yet but about to be read.
    pub fn expects_catalog(&self, group: &Upstream) -> bool {
        let snapshot = group.snapshot();
        let is_coming = snapshot.connecting.is_some() || self.registry.lock().is_expected(&group.name);
        snapshot.catalog.is_none() && is_coming
    }

    /// Takes the catalogs that the cache has, because a client has connected and declared its capabilities. Their
    /// surfaces are shown from then on. Only the first call does anything.
    pub fn restore(&self) {
        let mut registry = self.registry.lock();
        if registry.stage != RegistryStage::NoClient {
            return;
        }
        registry.stage = RegistryStage::Restored;
        let known = self.environment.cache.take_known();
        let config = self.config();
        for (name, server) in config.servers.iter().filter(|_| !known.is_empty()) {
            let Ok(server) = server else { continue };
            let pins = self.pins_of(&mut registry, name, server);
            let restored = self.restored(server, &pins, &known);
            let catalog = registry.list_restored(name, restored);
            registry.entry(name).restored = catalog;
        }
    }

    /// Creates the groups, because a client has connected and declared its capabilities, and tells those to connect
    /// that `discover` chooses. Returns before they are connected. Only the first call does anything. The first poll
    /// creates all groups.
    pub async fn start(self: &Arc<Self>) {
        self.restore();
        let mut starting = Vec::new();
        {
            let mut registry = self.registry.lock();
            let config = self.config();
            if registry.stage == RegistryStage::Started {
                return;
            }
            registry.stage = RegistryStage::Started;
            for (name, server) in &config.servers {
                let cached = registry.entry(name).restored.take();
                let group = self.spawn(&mut registry, name, server, cached, None);
                let connects = |server: &Arc<ServerConfig>| server.common.mode != Mode::Pure;
                starting.extend(server.as_ref().is_ok_and(connects).then_some(group));
            }
        }
        self.discover(&starting).await;
    }

    /// Returns what is remembered of the tools of an entry of the config, and sets whether they are pinned.
    pub(super) fn pins_of(
        &self,
        registry: &mut GroupRegistry,
        name: &GroupName,
        server: &ServerConfig,
    ) -> Arc<GroupPins> {
        let pins = &mut registry.entry(name).pins;
        drop(pins.take_if(|known| !known.is_about(server)));
        let pins = pins.get_or_insert_with(|| self.environment.pins.group(name, server)).clone();
        pins.set_pinned(server.common.pin_tools);
        pins
    }

    /// Returns what the cache has of a server, and compares its catalog with the pins.
    pub(super) fn restored(
        &self,
        server: &ServerConfig,
        pins: &GroupPins,
        known: &CachedCatalogs,
    ) -> RestoredGroup {
        let key = self.cache_key(server, None);
        let note = known.failure(&key).map(|reason| reason.to_owned().into());
        let note = note.map(|reason| Note { is_of_last_run: true, ..Note::new(reason) });
        let catalog = known.get(&key).map(|catalog| {
            pins.observe_cached(catalog.tools.iter().map(|tool| (tool.name.as_str(), &tool.digest)));
            let catalog = catalog.overridden(&server.tools.overrides);
            let surface = Surface::of(&catalog, &server.rules(), &pins.refused(server));
            (catalog, surface)
        });
        RestoredGroup { note, catalog }
    }

    /// Finds the servers whose program certainly cannot be started, and notes that for `tools/list`. If the file system
    /// does not answer in time, notes none.
    pub async fn check_commands(&self, config: &Config) {
        let stdio =
            config.servers.iter().filter_map(|(name, server)| match &server.as_ref().ok()?.endpoint {
                Endpoint::Stdio(stdio) => Some((name, stdio)),
                Endpoint::Http(_) => None,
            });
        let broken = launch::find_broken(stdio, &self.environment.transport.process_env).await;
        let mut registry = self.registry.lock();
        for (name, error) in broken {
            registry.entry(&name).listing.note = Some(Note::new(error.brief().into()));
        }
    }

    /// Tells those of `groups` to connect that connect at start: the eager ones, and the hybrid ones whose catalog has
    /// to be read. Returns before they are connected.
    pub(super) async fn discover(&self, groups: &[Upstream]) {
        if groups.is_empty() {
            return;
        }
        let config = self.config();
        let mode_of = |(name, server): &(GroupName, Result<Arc<ServerConfig>, _>)| {
            Some((name.clone(), server.as_ref().ok()?.common.mode))
        };
        let modes: HashMap<_, _> = config.servers.iter().filter_map(mode_of).collect();
        let always = config.settings.discovery == DiscoveryMode::Always;
        let notes = self.notes();
        let is_fresh = |group: &Upstream| {
            // What is known of a group with a note is that it failed, which may have changed.
            let catalog = group.snapshot().catalog.clone().filter(|_| !notes.contains_key(&group.name));
            let is_own = |known: &Catalog| !matches!(known.source, CatalogSource::Borrowed(_));
            catalog
                .is_some_and(|known| is_own(&known) && known.age().is_some_and(|age| age < FRESH_CATALOG_AGE))
        };
        let mode = |group: &Upstream| modes.get(&group.name).copied().unwrap_or(Mode::Pure);
        let started = groups.iter().filter(|group| mode(group) != Mode::Pure).cloned();
        let (fresh, starting): (Vec<_>, Vec<_>) =
            started.partition(|group| mode(group) == Mode::Hybrid && !always && is_fresh(group));
        self.connect_at_start(starting).await;
        // `tools/list` lacks the tools whose definitions the cache has lost, until they are read again.
        let lists_all = config.settings.surface == SurfaceKind::Flat;
        let is_broken = move |group: &Upstream| {
            let snapshot = group.snapshot();
            let lists = |tool: &Tool| lists_all || tool.has_app || snapshot.rules.exposes(&tool.name);
            let catalog = snapshot.catalog.as_ref().filter(|catalog| catalog.tools.iter().any(lists));
            catalog.is_some_and(|catalog| catalog.definitions().is_none())
        };
        let checked = fresh.clone();
        let broken =
            blocking::run(FILE_TIMEOUT, move || checked.into_iter().filter(is_broken).collect()).await;
        self.connect_at_start(broken.unwrap_or(fresh)).await;
    }

    async fn connect_at_start(&self, groups: Vec<Upstream>) {
        let names = groups.iter().map(|group| group.name.clone());
        self.registry.lock().start_discovery(names, Instant::now());
        for group in groups {
            group.start().await;
            // If its attempt ended before, no other change will come.
            self.environment.shared.changes.add(&group.name);
        }
    }

    /// Creates a group and spawns its task, in place of an earlier task of this group.
    pub(super) fn spawn(
        self: &Arc<Self>,
        registry: &mut GroupRegistry,
        name: &GroupName,
        server: &Result<Arc<ServerConfig>, ConfigError>,
        cached: Option<Arc<Catalog>>,
        predecessor: Option<BoxFuture<'static, ()>>,
    ) -> Upstream {
        let (log, startup) = (ServerLog::default(), StartupOutput::default());
        let connector = Connector {
            group: name.clone(),
            log: log.clone(),
            startup: startup.clone(),
            transport: self.environment.transport.clone(),
            clients: self.environment.clients.clone(),
            max_message: self.config().settings.max_message_bytes,
            era: KnownEra::new(cached.as_ref().map(|catalog| &catalog.info)),
            asks_for_roots: Arc::new(cached.as_ref().and_then(|known| known.info.asks_for_roots).into()),
            private_next: Arc::default(),
            attempt: Arc::default(),
            milestones: None,
        };
        let pins = match server {
            Ok(server) => self.pins_of(registry, name, server),
            Err(_) => GroupPins::none(name),
        };
        let spec =
            GroupSpec { pins, name: name.clone(), server: server.clone(), cached, predecessor, log, startup };
        let (group, task) = task::create(spec, connector, self.environment.shared.clone());
        let (manager, handle) = (Arc::downgrade(self), Arc::downgrade(&group.0));
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let panicked = AssertUnwindSafe(task).catch_unwind().await.is_err();
            if let (Some(manager), Some(handle)) = (manager.upgrade(), handle.upgrade()) {
                manager.task_ended(&Upstream(handle), panicked);
            }
        });
        let entry = registry.entry(name);
        (entry.handle, entry.is_retired) = (Some(group.clone()), false);
        group
    }

    /// Forgets the group of a task that has ended, if the config no longer has it. Replaces the task if it panicked,
    /// which is a bug, so that the group works on its next use.
    fn task_ended(self: &Arc<Self>, group: &Upstream, panicked: bool) {
        let mut registry = self.registry.lock();
        registry.forget(group);
        if !panicked || self.is_shutting_down() {
            return;
        }
        let name = &group.name;
        tracing::error!(group = %name, "the task of this group panicked; the group starts again");
        let config = self.config();
        if let (Some(_), Some(server)) = (registry.entry_of(group), config.server(name)) {
            let changed = registry.attempt_ended(name, None);
            self.lists_changed(changed);
            self.spawn(&mut registry, name, server, group.snapshot().catalog.clone(), None);
        }
    }

    /// Returns the key under which the cache has the server's catalog. `offered`: the capabilities of the clients when
    /// it was read; `None`: those of now.
    pub(super) fn cache_key(&self, server: &ServerConfig, offered: Option<&Raw>) -> CacheKey {
        let now = || self.environment.clients.offered_capabilities();
        let offered = offered.cloned().unwrap_or_else(now);
        CacheKey::of_server(server, &self.environment.transport.process_env, &offered)
    }

    /// Announces that a list may have changed, if it `changed`.
    pub(super) fn lists_changed(&self, changed: bool) {
        if changed {
            self.list_version.send_modify(|version| *version += 1);
        }
    }
}
