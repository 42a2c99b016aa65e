//! The work that no request causes: catalogs that groups read enter `tools/list` and the cache, groups that wait for a
//! login are started when somebody logs in elsewhere, approvals of changed tools are noticed, and tasks that panicked
//! are replaced.

use super::login_watch::LoginWatch;
use super::manager::GroupManager;
use super::startup_info::log_line;
use super::surface::{Note, Surface};
use crate::catalog::{Catalog, CatalogSource};
use crate::clients::LogLevel;
use crate::error::UpstreamError;
use crate::select::until;
use config::tool_rules::Rules;
use config::{GroupName, ServerConfig};
use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Catalogs that are read within this time are written to the cache together.
const FLUSH_DELAY: Duration = Duration::from_millis(500);

/// The groups as `run` saw them last.
#[derive(Default)]
struct SeenGroups {
    /// The catalogs of the groups that had one.
    catalogs: HashMap<GroupName, Arc<Catalog>>,
    /// The rules of all groups.
    rules: HashMap<GroupName, Arc<Rules>>,
    /// Why the last attempts failed, of the groups whose attempt did.
    failures: HashMap<GroupName, Arc<UpstreamError>>,
}

impl GroupManager {
    /// Does the work that no request causes. Runs until it is dropped.
    pub async fn run(&self) {
        let mut seen = SeenGroups::default();
        let mut login_watch = LoginWatch::default();
        let mut flush_at = None;
        let mut following_pins = pin!(self.follow_pins());
        loop {
            let surface_tick = self.lists.surfaces.lock().deadline();
            tokio::select! {
                changed = self.environment.shared.changes.take() => {
                    login_watch.update(changed.iter().map(|name| (name, self.get(name))));
                    if self.handle_changes(&changed, &mut seen) {
                        flush_at.get_or_insert_with(|| Instant::now() + FLUSH_DELAY);
                    }
                }
                () = &mut following_pins => {}
                panicked = self.tasks.panicked() => self.replace_panicked(&panicked),
                () = until(surface_tick) => {
                    let changed = self.lists.surfaces.lock().tick(Instant::now());
                    self.lists_changed(changed);
                }
                () = until(login_watch.deadline()) => login_watch.check(self).await,
                () = until(flush_at) => {
                    flush_at = None;
                    self.environment.cache.flush().await;
                }
            }
        }
    }

    /// Handles groups whose snapshot changed. Returns whether the cache has to be written.
    fn handle_changes(&self, changed: &BTreeSet<GroupName>, seen: &mut SeenGroups) -> bool {
        let mut has_news = false;
        let config = self.config();
        for name in changed {
            let (Some(group), Some(Ok(server))) = (self.get(name), config.server(name)) else {
                seen.catalogs.remove(name);
                seen.rules.remove(name);
                seen.failures.remove(name);
                continue;
            };
            let snapshot = group.snapshot();
            let rules = seen.rules.insert(name.clone(), snapshot.rules.clone());
            // Other rules may expose other tools.
            self.lists_changed(rules.is_none_or(|last| !Arc::ptr_eq(&last, &snapshot.rules)));
            if let Some(catalog) = &snapshot.catalog
                && (matches!(catalog.source, CatalogSource::Live(_)) || catalog.tools_unread)
                && seen.catalogs.get(name).is_none_or(|last| !Arc::ptr_eq(last, catalog))
            {
                seen.catalogs.insert(name.clone(), catalog.clone());
                // What could not be read takes the place of nothing.
                if !catalog.tools_unread {
                    has_news = true;
                    let key = self.cache_key(server, catalog.offered.as_ref());
                    self.environment.cache.put(key, catalog.original().clone());
                }
                let surface = Surface::of(catalog, &server.rules(), &snapshot.refused());
                self.lists.surfaces.lock().catalog_read(name, server.common.mode, surface);
                // Its other lists may have changed, too. The session compares them.
                self.lists_changed(true);
            }
            let failure = snapshot.state.failure().map(|failure| &failure.error);
            match failure {
                None => drop(seen.failures.remove(name)),
                Some(error) if seen.failures.get(name).is_some_and(|last| last == error) => {}
                Some(error) => {
                    has_news = true;
                    seen.failures.insert(name.clone(), error.clone());
                    self.report_failure(name, server, error);
                }
            }
            if snapshot.attempted {
                let note = failure.map(|error| Note::new(error.brief()));
                let changed = self.lists.surfaces.lock().attempt_ended(name, note);
                self.lists_changed(changed);
            }
        }
        has_news
    }

    /// Tells the clients that an attempt failed, and notes it for the next run.
    fn report_failure(&self, name: &GroupName, server: &ServerConfig, error: &UpstreamError) {
        let log = log_line(self.log_file());
        let level = if error.retryable() { LogLevel::Warning } else { LogLevel::Error };
        let message = format!("Group {name} is not available: {error}{log}");
        self.environment.clients.log(Some(name), level, &message);
        // The start of this process shows again whether the command exists.
        if !matches!(error.in_full(), UpstreamError::Launch { .. } | UpstreamError::Config(_)) {
            self.environment.cache.put_failure(self.cache_key(server, None), &error.brief());
        }
    }

    /// Replaces the task of a group that panicked, which is a bug, so that the group works on its next use.
    fn replace_panicked(&self, name: &GroupName) {
        if self.is_shutting_down() {
            return;
        }
        tracing::error!(group = %name, "the task of this group panicked; the group starts again");
        let changed = self.lists.surfaces.lock().attempt_ended(name, None);
        self.lists_changed(changed);
        if let (Some(server), Some(group)) = (self.config().server(name), self.get(name)) {
            self.spawn(name, server, group.snapshot().catalog.clone(), None);
        }
    }
}
