//! Applies a changed config: which groups stay, which are reconfigured, and which are replaced.

use super::manager::GroupManager;
use super::registry::{GroupRegistry, RegistryStage, RestoredGroup};
use super::surface::Surface;
use crate::cache::CachedCatalogs;
use crate::clients::LogLevel;
use crate::handle::Upstream;
use config::{Config, ConfigError, GroupName, Mode, ServerConfig};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An entry of the config: a server, or why it is invalid.
type ConfigEntry = Result<Arc<ServerConfig>, ConfigError>;

/// How an entry of the config changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// Not at all.
    None,
    /// Only settings that do not need a new connection.
    Settings,
    /// The server itself.
    Server,
    /// It is new.
    Added,
}

impl Change {
    fn between(old: Option<&ConfigEntry>, new: &ConfigEntry) -> Self {
        let Some(old) = old else { return Self::Added };
        match (old, new) {
            _ if old == new => Self::None,
            (Ok(old), Ok(new))
                if old.endpoint == new.endpoint
                    && old.secrets == new.secrets
                    && old.common.features == new.common.features =>
            {
                Self::Settings
            }
            _ => Self::Server,
        }
    }
}

impl GroupManager {
    /// Puts a config into force that was read again. A file that cannot be read is reported and changes nothing. Without
    /// the profile in use, no server is left. An entry that has become invalid is reported too, and its group keeps the
    /// last valid entry. Returns before removed groups have ended and new ones are connected.
    pub async fn apply(self: &Arc<Self>, mut config: Config) {
        if config.lacks_profile() {
            config.errors.iter().for_each(|error| self.report_error(&error.to_string()));
        } else if !config.errors.is_empty() {
            // Whoever reads of an error in the log finds it in the status.
            self.reload_errors.lock().clone_from(&config.errors);
            for error in &config.errors {
                self.report_error(&format!("config not reloaded: {error}"));
            }
            return;
        }
        let old = self.config();
        let errors = keep_valid_entries(&old, &mut config);
        self.reload_errors.lock().clone_from(&errors);
        for error in &errors {
            self.report_error(&format!("{error}; the group goes on as it was"));
        }
        if *old == config {
            tracing::debug!("the content of the config has not changed");
            return;
        }
        for warning in config.all_warnings() {
            tracing::warn!("{warning}");
            self.environment.clients.log(None, LogLevel::Warning, &format!("config warning: {warning}"));
        }
        self.load_pins(&config).await;
        let config = Arc::new(config);
        if self.apply_without_client(&config) {
            tracing::info!("the config changed before a client came");
            return self.check_commands(&config).await;
        }
        // If the groups do not exist yet, they are about to be created with what the cache has for the old config.
        self.start().await;
        let known = self.environment.cache.flush_and_read().await;
        if self.is_shutting_down() {
            return;
        }
        let starting = self.change_groups(&old, &config, &known).await;
        self.check_commands(&config).await;
        self.lists_changed(true);
        self.discover(&starting).await;
    }

    /// Puts a config into force if no client has come. Then there are no groups yet, and the notes are about the old
    /// servers. Returns whether it did.
    fn apply_without_client(&self, config: &Arc<Config>) -> bool {
        let mut registry = self.registry.lock();
        let has_no_client = registry.stage == RegistryStage::NoClient;
        if has_no_client {
            registry.unlist_all();
            self.config.send_replace(config.clone());
        }
        has_no_client
    }

    fn report_error(&self, message: &str) {
        tracing::error!("{message}");
        self.environment.clients.log(None, LogLevel::Error, message);
    }

    /// Puts a config into force and changes the groups. Returns those that may have to connect now: new ones, and ones
    /// with another server or mode.
    async fn change_groups(
        self: &Arc<Self>,
        old: &Config,
        new: &Arc<Config>,
        known: &CachedCatalogs,
    ) -> Vec<Upstream> {
        let before: HashMap<_, _> = old.servers.iter().map(|(name, server)| (name, server)).collect();
        let (mut replaced, mut reconfigured) = (Vec::new(), Vec::new());
        for (name, server) in &new.servers {
            match (Change::between(before.get(name).copied(), server), server) {
                (Change::None, _) => {}
                (Change::Settings, Ok(server)) => {
                    tracing::info!(group = %name, "the settings of this group changed");
                    reconfigured.push((name, server));
                }
                (change, _) => {
                    let what = match change {
                        Change::Added => "the group was added to the config",
                        _ => "the server of this group changed",
                    };
                    tracing::info!(group = %name, "{what}");
                    let restored = server.as_ref().ok().map(|server| {
                        let pins = self.pins_of(&mut self.registry.lock(), name, server);
                        self.restored(server, &pins, known)
                    });
                    replaced.push((name, server, restored));
                }
            }
        }
        let (ending, mut starting) = self.replace_groups(old, new, replaced);
        for group in ending {
            group.expire_login();
            group.drain().await;
        }
        for (name, server) in reconfigured {
            let Some(group) = self.get(name) else { continue };
            let is_other_mode =
                before[name].as_ref().is_ok_and(|before| before.common.mode != server.common.mode);
            self.replace_surface(&group, server, is_other_mode && server.common.mode != Mode::Pure);
            group.reconfigure(server.clone()).await;
            starting.extend(is_other_mode.then_some(group));
        }
        starting
    }

    /// Puts a config into force, and replaces and removes groups for it, all at the same moment. `replaced`: the new
    /// entries, and what the cache has of them. Returns the groups that have to end, and the new ones.
    fn replace_groups(
        self: &Arc<Self>,
        old: &Config,
        new: &Arc<Config>,
        replaced: Vec<(&GroupName, &ConfigEntry, Option<RestoredGroup>)>,
    ) -> (Vec<Upstream>, Vec<Upstream>) {
        let (mut ending, mut starting) = (Vec::new(), Vec::new());
        let names: HashSet<_> = new.servers.iter().map(|(name, _)| name).collect();
        let mut registry = self.registry.lock();
        self.config.send_replace(new.clone());
        for (name, _) in old.servers.iter().filter(|(name, _)| !names.contains(name)) {
            tracing::info!(group = %name, "the group was removed from the config");
            ending.extend(registry.retire(name));
        }
        for (name, server, restored) in replaced {
            let last = registry.entry(name).handle.take();
            starting.push(self.replace_group(&mut registry, name, server, restored, last.clone()));
            ending.extend(last);
        }
        (ending, starting)
    }

    /// Creates the group called `name`. Its predecessor, `last`, has to reject new callers and let open calls finish. If
    /// that is a process, which may hold a port or a lock file, the first attempt begins when it has ended; beside a
    /// remote connection it begins at once.
    fn replace_group(
        self: &Arc<Self>,
        registry: &mut GroupRegistry,
        name: &GroupName,
        server: &ConfigEntry,
        restored: Option<RestoredGroup>,
        last: Option<Upstream>,
    ) -> Upstream {
        let ended = last
            .filter(|last| !last.is_remote())
            .map(|last| -> BoxFuture<'static, ()> { Box::pin(async move { last.ended().await }) });
        registry.unlist(name);
        let cached = restored.and_then(|restored| registry.list_restored(name, restored));
        self.spawn(registry, name, server, cached, ended)
    }

    /// Replaces the surface of a group whose rules or approved tools changed: they may show or hide tools. `enters`:
    /// whether the list has the group from now on.
    pub(super) fn replace_surface(&self, group: &Upstream, server: &ServerConfig, enters: bool) {
        let snapshot = group.snapshot();
        if let Some(catalog) = &snapshot.catalog {
            let refused = snapshot.pins.refused(server);
            let catalog = catalog.original().overridden(&server.tools.overrides);
            let surface = Surface::of(&catalog, &server.rules(), &refused);
            if let Some(entry) = self.registry.lock().entry_of(group) {
                entry.listing.replace(surface, enters);
            }
        }
    }
}

/// Replaces each entry that has become invalid by the old one. Returns the errors.
fn keep_valid_entries(old: &Config, new: &mut Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for (name, server) in &mut new.servers {
        if let (Err(error), Some(Ok(valid))) = (&*server, old.server(name)) {
            errors.push(error.of_server(name.as_str()));
            *server = Ok(valid.clone());
        }
    }
    errors
}
