//! The work that no request causes: catalogs that groups read enter `tools/list` and the cache, groups that wait for a
//! login are started when somebody logs in elsewhere, and approvals of changed tools are noticed.

use super::manager::GroupManager;
use super::startup_info::log_line;
use super::surface::{Note, Surface};
use crate::catalog::CatalogSource;
use crate::clients::LogLevel;
use crate::error::UpstreamError;
use crate::select::until;
use config::{GroupName, ServerConfig};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Catalogs that are read within this time are written to the cache together.
const FLUSH_DELAY: Duration = Duration::from_millis(500);

impl GroupManager {
    /// Does the work that no request causes. Runs until it is dropped.
    pub async fn run(&self) {
        let (mut flush_at, mut login_check_at) = (None, None);
        let mut following_pins = pin!(self.follow_pins());
        loop {
            let surface_tick = self.registry.lock().deadline();
            tokio::select! {
                changed = self.environment.shared.changes.take() => {
                    if self.handle_changes(&changed) {
                        flush_at.get_or_insert_with(|| Instant::now() + FLUSH_DELAY);
                    }
                    if self.await_login(&changed) {
                        login_check_at.get_or_insert_with(Instant::now);
                    }
                }
                () = &mut following_pins => {}
                () = until(surface_tick) => {
                    let changed = self.registry.lock().tick(Instant::now());
                    self.lists_changed(changed);
                }
                () = until(login_check_at) => login_check_at = self.check_logins().await,
                () = until(flush_at) => {
                    flush_at = None;
                    self.environment.cache.flush().await;
                }
            }
        }
    }

    /// Handles groups whose snapshot changed. Returns whether the cache has to be written.
    pub(super) fn handle_changes(&self, changed: &BTreeSet<GroupName>) -> bool {
        let mut has_news = false;
        let config = self.config();
        for name in changed {
            let (Some(group), Some(Ok(server))) = (self.get(name), config.server(name)) else { continue };
            let snapshot = group.snapshot();
            // What the group read and why it failed are about its own entry, also if the config has another one now.
            let Some(own) = &snapshot.server else { continue };
            let mut seen = group.seen.lock();
            let rules = seen.rules.replace(snapshot.rules.clone());
            // Other rules may expose other tools.
            self.lists_changed(rules.is_none_or(|last| !Arc::ptr_eq(&last, &snapshot.rules)));
            if let Some(catalog) = &snapshot.catalog
                && (matches!(catalog.source, CatalogSource::Live(_)) || catalog.tools_unread)
                && seen.catalog.as_ref().is_none_or(|last| !Arc::ptr_eq(last, catalog))
            {
                seen.catalog = Some(catalog.clone());
                // What could not be read takes the place of nothing.
                if !catalog.tools_unread {
                    has_news = true;
                    let key = self.cache_key(own, catalog.offered.as_ref());
                    self.environment.cache.put(key, catalog.original().as_listed().clone());
                }
                let surface = Surface::of(catalog, &server.rules(), &snapshot.refused());
                let mut registry = self.registry.lock();
                // Unless the config has just replaced it.
                if registry.entry_of(&group).is_some() {
                    registry.catalog_read(name, server.common.mode, surface);
                }
                drop(registry);
                // Its other lists may have changed, too. The session compares them.
                self.lists_changed(true);
            }
            let failure = snapshot.state.failure().map(|failure| failure.error.clone());
            if let Some(error) = failure.as_ref().filter(|error| seen.failure.as_ref() != Some(error)) {
                has_news = true;
                self.report_failure(name, own, error);
            }
            if snapshot.attempted {
                let note = failure.as_ref().map(|error| Note::new(error.brief()));
                let changed = self.registry.lock().attempt_ended(name, note);
                self.lists_changed(changed);
            }
            seen.failure = failure;
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
}
