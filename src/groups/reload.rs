//! A config file that changed: what of it touches which group.

use super::GroupManager;
use crate::cache::CachedCatalogs;
use crate::config::{Config, ConfigError, GroupName, ServerConfig};
use crate::upstream::Upstream;
use crate::upstream::connect::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a new entry means for a group of the same name.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Other rules; the connection stays.
    Rules,
    /// Another server.
    Replace,
}

impl Change {
    fn between(old: &Result<ServerConfig, ConfigError>, new: &Result<ServerConfig, ConfigError>) -> Self {
        match (old, new) {
            (Ok(old), Ok(new)) if old == new => Self::Nothing,
            (Ok(old), Ok(new)) if old.endpoint == new.endpoint && old.features == new.features => Self::Rules,
            (Err(old), Err(new)) if old == new => Self::Nothing,
            _ => Self::Replace,
        }
    }
}

impl GroupManager {
    /// Puts a config that was read again in force. A file that cannot be read changes nothing and is reported; so is
    /// an entry that is wrong now and was right before, whose group goes on as it was.
    pub async fn apply(&self, mut config: Config) {
        if !config.errors.is_empty() {
            for problem in &config.errors {
                tracing::error!("config not reloaded: {problem}");
            }
            *self.reload_problems.lock() = config.errors;
            return;
        }
        let old = self.config();
        let problems = keep_what_was_right(&old, &mut config);
        for problem in &problems {
            tracing::error!("{problem}; the group goes on as it was");
        }
        *self.reload_problems.lock() = problems;
        if *old == config {
            tracing::debug!("the config file says what it said");
            return;
        }
        for problem in &config.warnings {
            tracing::warn!("{problem}");
        }
        if !self.started.load(Ordering::Relaxed) {
            tracing::info!("the config has changed before a client came");
            // And so there are no groups.
            self.config.send_replace(Arc::new(config));
            return;
        }
        let known = self.cache.flush_and_read().await;
        if self.is_shutting_down() {
            return;
        }
        self.config.send_replace(Arc::new(config.clone()));
        let starting = self.change_groups(&old, &config, &known).await;
        self.end_strange_logins();
        self.announce(true);
        if self.started.load(Ordering::Relaxed) {
            self.begin(&starting).await;
        }
    }

    /// Returns the groups that may have to connect now: those that are new, by name, by what they are or by mode.
    async fn change_groups(&self, old: &Config, new: &Config, known: &CachedCatalogs) -> Vec<Upstream> {
        let by_name = |config: &Config| -> HashMap<GroupName, Result<ServerConfig, ConfigError>> {
            config.servers.iter().cloned().collect()
        };
        let (before, after) = (by_name(old), by_name(new));
        for (name, _) in old.servers.iter().filter(|(name, _)| !after.contains_key(name)) {
            tracing::info!(group = %name, "removed from the config");
            self.surfaces.lock().forget(name);
            if let Some((_, group)) = self.groups.remove(name) {
                self.tasks.lock().retired.insert(name.clone(), group.clone());
                group.drain().await;
            }
            self.shared.changes.tell(name);
        }
        let mut starting = Vec::new();
        for (name, server) in &new.servers {
            let change = before.get(name).map(|before| Change::between(before, server));
            match (change, server) {
                (Some(Change::Nothing), _) => {}
                (Some(Change::Rules), Ok(server)) => {
                    tracing::info!(group = %name, "its settings have changed");
                    let Some(group) = self.get(name) else { continue };
                    self.resurface(&group, server);
                    group.reconfigure(Arc::new(server.clone())).await;
                    if before[name].as_ref().is_ok_and(|before| before.mode != server.mode) {
                        starting.push(group);
                    }
                }
                (change, _) => {
                    tracing::info!(group = %name, "{}", if change.is_none() { "added" } else { "its server has changed" });
                    self.replace(name, server, known).await;
                    starting.extend(self.get(name));
                }
            }
        }
        starting
    }

    /// Makes the group called `name`, which begins when the last one of that name has ended; that one takes no more
    /// callers and lets its calls finish.
    async fn replace(
        &self,
        name: &GroupName,
        server: &Result<ServerConfig, ConfigError>,
        known: &CachedCatalogs,
    ) {
        let old = self.get(name);
        let last = old.clone().or_else(|| self.tasks.lock().retired.get(name).cloned());
        let ended = last.map(|last| -> BoxFuture<()> { Box::pin(async move { last.ended().await }) });
        self.surfaces.lock().forget(name);
        self.add(name, server, known, ended);
        if let Some(old) = old {
            old.drain().await;
        }
    }

    /// Rules may show or hide tools of a catalog that is known.
    fn resurface(&self, group: &Upstream, server: &ServerConfig) {
        if let Some(catalog) = group.snapshot().catalog.clone() {
            let surface = super::Surface::of(&catalog, &server.rules());
            self.surfaces.lock().revise(&group.name, surface);
        }
    }
}

/// Puts the old entry in the place of each that is wrong now and was right before. Returns what is wrong.
fn keep_what_was_right(old: &Config, new: &mut Config) -> Vec<ConfigError> {
    let mut problems = Vec::new();
    for (name, server) in &mut new.servers {
        if let (Err(problem), Some(Ok(right))) = (&*server, old.server(name)) {
            let mut problem = problem.clone();
            problem.message = format!("server {:?}: {}", name.as_str(), problem.message);
            problems.push(problem);
            *server = Ok(right.clone());
        }
    }
    problems
}
