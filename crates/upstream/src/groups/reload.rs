//! Applies a changed config: which groups stay, which are reconfigured, and which are replaced.

use super::manager::GroupManager;
use crate::cache::CachedCatalogs;
use crate::clients::LogLevel;
use crate::groups::surface::{Surface, Surfaces};
use crate::handle::Upstream;
use config::{Config, ConfigError, GroupName, Mode, ServerConfig};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How an entry of the config changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// Not at all.
    None,
    /// Only settings that do not need a new connection.
    Settings,
    /// The server itself.
    Server,
}

impl Change {
    fn between(
        old: &Result<Arc<ServerConfig>, ConfigError>,
        new: &Result<Arc<ServerConfig>, ConfigError>,
    ) -> Self {
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
    pub async fn apply(&self, mut config: Config) {
        if config.lacks_profile() {
            config.errors.iter().for_each(|error| self.report_error(&error.to_string()));
        } else if !config.errors.is_empty() {
            for error in &config.errors {
                self.report_error(&format!("config not reloaded: {error}"));
            }
            *self.reload_errors.lock() = config.errors;
            return;
        }
        let old = self.config();
        let errors = keep_valid_entries(&old, &mut config);
        for error in &errors {
            self.report_error(&format!("{error}; the group goes on as it was"));
        }
        *self.reload_errors.lock() = errors;
        if *old == config {
            tracing::debug!("the content of the config has not changed");
            return;
        }
        for warning in config.all_warnings() {
            tracing::warn!("{warning}");
            self.environment.clients.log(None, LogLevel::Warning, &format!("config warning: {warning}"));
        }
        self.load_pins(&config).await;
        if self.restored.lock().is_some() {
            // A client has come. Its groups are about to be created with what the cache has for the old config.
            self.start().await;
        }
        if !self.started.load(Ordering::Relaxed) {
            tracing::info!("the config changed before a client came");
            // There are no groups yet, and the notes are about the old servers. No await before the new config is in
            // force, because a client could connect meanwhile.
            *self.lists.surfaces.lock() = Surfaces::default();
            self.config.send_replace(Arc::new(config));
            self.check_commands(&self.config()).await;
            return;
        }
        let known = self.environment.cache.flush_and_read().await;
        if self.is_shutting_down() {
            return;
        }
        self.config.send_replace(Arc::new(config.clone()));
        let starting = self.change_groups(&old, &config, &known).await;
        self.check_commands(&config).await;
        self.lists_changed(true);
        if self.started.load(Ordering::Relaxed) {
            self.discover(&starting).await;
        }
    }

    fn report_error(&self, message: &str) {
        tracing::error!("{message}");
        self.environment.clients.log(None, LogLevel::Error, message);
    }

    /// Changes the groups, and returns those that may have to connect now: new ones, and ones with another server or
    /// mode.
    async fn change_groups(&self, old: &Config, new: &Config, known: &CachedCatalogs) -> Vec<Upstream> {
        let by_name = |config: &Config| -> HashMap<GroupName, Result<Arc<ServerConfig>, ConfigError>> {
            config.servers.iter().cloned().collect()
        };
        let (before, after) = (by_name(old), by_name(new));
        for (name, _) in old.servers.iter().filter(|(name, _)| !after.contains_key(name)) {
            tracing::info!(group = %name, "the group was removed from the config");
            self.lists.surfaces.lock().remove(name);
            self.environment.pins.remove(name);
            if let Some((_, group)) = self.groups.remove(name) {
                self.tasks.retire(group.clone());
                group.drain().await;
            }
            self.environment.shared.changes.add(name);
        }
        let mut starting = Vec::new();
        for (name, server) in &new.servers {
            let change = before.get(name).map(|before| Change::between(before, server));
            match (change, server) {
                (Some(Change::None), _) => {}
                (Some(Change::Settings), Ok(server)) => {
                    tracing::info!(group = %name, "the settings of this group changed");
                    let Some(group) = self.get(name) else { continue };
                    let is_other_mode =
                        before[name].as_ref().is_ok_and(|before| before.common.mode != server.common.mode);
                    let enters = is_other_mode && server.common.mode != Mode::Pure;
                    self.replace_surface(&group, server, enters);
                    group.reconfigure(server.clone()).await;
                    if is_other_mode {
                        starting.push(group);
                    }
                }
                (change, _) => {
                    let what = if change.is_none() {
                        "the group was added to the config"
                    } else {
                        "the server of this group changed"
                    };
                    tracing::info!(group = %name, "{what}");
                    self.replace_group(name, server, known).await;
                    starting.extend(self.get(name));
                }
            }
        }
        starting
    }

    /// Creates the group called `name`. Its predecessor rejects new callers and lets open calls finish. If that is a
    /// process, which may hold a port or a lock file, the first attempt begins when it has ended; beside a remote
    /// connection it begins at once.
    async fn replace_group(
        &self,
        name: &GroupName,
        server: &Result<Arc<ServerConfig>, ConfigError>,
        known: &CachedCatalogs,
    ) {
        let old = self.get(name);
        let last = old.clone().or_else(|| self.tasks.retired(name)).filter(|last| !last.is_remote());
        let ended =
            last.map(|last| -> BoxFuture<'static, ()> { Box::pin(async move { last.ended().await }) });
        self.lists.surfaces.lock().remove(name);
        self.add(name, server, known, ended);
        if let Some(old) = old {
            old.drain().await;
        }
    }

    /// Replaces the surface of a group whose rules or approved tools changed: they may show or hide tools. `enters`:
    /// whether the list has the group from now on.
    pub(super) fn replace_surface(&self, group: &Upstream, server: &ServerConfig, enters: bool) {
        let snapshot = group.snapshot();
        if let Some(catalog) = &snapshot.catalog {
            let refused = snapshot.pins.refused(server);
            let catalog = catalog.original().overridden(&server.tools.overrides);
            let surface = Surface::of(&catalog, &server.rules(), &refused);
            self.lists.surfaces.lock().replace(&group.name, surface, enters);
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
