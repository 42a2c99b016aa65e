//! A config file that changed: what of it touches which group.

use super::{GroupManager, lock};
use crate::config::{Config, GroupName, Problem, Server};
use crate::upstream::Upstream;
use crate::upstream::connect::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;

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
    fn between(old: &Result<Server, Problem>, new: &Result<Server, Problem>) -> Self {
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
            *lock(&self.reload_problems) = config.errors;
            return;
        }
        let old = self.config();
        let problems = keep_what_was_right(&old, &mut config);
        for problem in &problems {
            tracing::error!("{problem}; the group goes on as it was");
        }
        *lock(&self.reload_problems) = problems;
        if *old == config {
            tracing::debug!("the config file says what it said");
            return;
        }
        for problem in &config.warnings {
            tracing::warn!("{problem}");
        }
        self.config.send_replace(Arc::new(config.clone()));
        let added = self.change_groups(&old, &config).await;
        self.announce(true);
        if self.started.load(std::sync::atomic::Ordering::Relaxed) {
            self.begin(&added).await;
        }
    }

    /// Returns the groups that are new, by name or by what they are now.
    async fn change_groups(&self, old: &Config, new: &Config) -> Vec<Upstream> {
        let by_name = |config: &Config| -> HashMap<GroupName, Result<Server, Problem>> {
            config.servers.iter().cloned().collect()
        };
        let (before, after) = (by_name(old), by_name(new));
        for (name, _) in &old.servers {
            if !after.contains_key(name) {
                tracing::info!(group = %name, "removed from the config");
                lock(&self.surfaces).forget(name);
                if let Some((_, group)) = self.groups.remove(name) {
                    group.drain().await;
                }
            }
        }
        let mut added = Vec::new();
        for (name, server) in &new.servers {
            let change = before.get(name).map(|before| Change::between(before, server));
            match (change, server) {
                (Some(Change::Nothing), _) => {}
                (Some(Change::Rules), Ok(server)) => {
                    tracing::info!(group = %name, "its settings have changed");
                    if let Some(group) = self.get(name) {
                        group.reconfigure(Arc::new(server.clone())).await;
                        self.resurface(&group, server);
                    }
                }
                (change, _) => {
                    tracing::info!(group = %name, "{}", if change.is_none() { "added" } else { "its server has changed" });
                    let predecessor = self.retire(name).await;
                    self.add(name, server, predecessor);
                    added.extend(self.get(name));
                }
            }
        }
        added
    }

    /// Ends the group called `name`, letting its calls finish; what it returns resolves when nothing of it is left.
    async fn retire(&self, name: &GroupName) -> Option<BoxFuture<()>> {
        let (_, group) = self.groups.remove(name)?;
        lock(&self.surfaces).forget(name);
        group.drain().await;
        Some(Box::pin(async move { group.ended().await }))
    }

    /// Rules may show or hide tools of a catalog that is known.
    fn resurface(&self, group: &Upstream, server: &Server) {
        if let Some(catalog) = group.snapshot().catalog.clone()
            && self.shown().contains_key(&group.name)
        {
            let surface = super::Surface::of(&catalog, &server.rules());
            lock(&self.surfaces).learnt(&group.name, server.mode, surface);
        }
    }
}

/// Puts the old entry in the place of each that is wrong now and was right before. Returns what is wrong.
fn keep_what_was_right(old: &Config, new: &mut Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, server) in &mut new.servers {
        let before = old.servers.iter().find(|(known, _)| known == name).map(|(_, server)| server);
        if let (Err(problem), Some(Ok(right))) = (&*server, before) {
            let mut problem = problem.clone();
            problem.message = format!("server {:?}: {}", name.as_str(), problem.message);
            problems.push(problem);
            *server = Ok(right.clone());
        }
    }
    problems
}
