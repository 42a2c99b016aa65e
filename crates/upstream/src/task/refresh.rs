//! The catalog of a group: how a new one comes into use, and how it is read again because the server reports a change
//! or a caller asks for it.

use super::Task;
use crate::catalog::tool_findings;
use crate::catalog::{Catalog, CatalogSource};
use crate::connection::milestones::Milestones;
use crate::connection::{AttemptError, AttemptResult, Connect, Grace};
use crate::error::UpstreamError;
use crate::lifecycle::KeptFor;
use base::text::counted;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::protocol::capability;

/// How long after a failure the lists are read again.
const REFRESH_RETRY: Duration = Duration::from_secs(30);
/// How long refused calls do not have the lists read again, because one just had.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);
/// How long a connection of discovery is kept for a server that goes on to report changes of its lists.
const LATE_TOOLS_LIMIT: Duration = Duration::from_secs(3);

impl<C: Connect> Task<C> {
    /// Starts to read the catalog again, unless that is in progress, alone or as a part of an attempt. Without a
    /// connection, callers are answered at once.
    pub(super) fn start_refresh(&mut self) {
        match (&self.connection, &self.reached) {
            (Some(connection), _) if self.refresh.is_none() => {
                let (reading, reporter) = ((connection.refresh)(), self.reporter.clone());
                self.refresh = Some(Box::pin(async move { reporter.observe(reading.await?).await }));
            }
            (Some(_), _) => {}
            (None, Some((_, reached))) => self.refresh_waiting.retain(|(need, _)| need > reached),
            (None, None) => self.refresh_waiting.clear(),
        }
    }

    /// Returns whether the tools could not be read on the connection.
    pub(super) fn lacks_tools(&self) -> bool {
        self.snapshot.catalog.as_ref().is_some_and(|catalog| catalog.tools_unread)
    }

    /// Returns whether a refused call has nothing to gain from reading the catalog again: it was read again just now, and
    /// the server cannot have reported a change that waits for its turn.
    pub(super) fn was_just_read(&self) -> bool {
        let (now, catalog) = (Instant::now(), self.snapshot.catalog.as_ref());
        let read_again = catalog.zip(self.last_use).is_some_and(|(catalog, connected)| {
            matches!(catalog.source, CatalogSource::Live(at) if at > connected && now - at < REREAD_INTERVAL)
        });
        read_again && !self.lacks_tools() && self.refresh_not_before.is_none_or(|at| at <= now)
    }

    /// Closes the connection of a discovery, once the server has had time to add tools after the handshake, if it announces
    /// such changes.
    pub(super) fn close_discovered(&mut self) {
        // The lists are tried again on this connection; it is idle after that.
        let (Some(connection), false) = (&self.connection, self.lacks_tools()) else { return };
        let now = Instant::now();
        let is_young = self.last_use.is_some_and(|made| now - made < LATE_TOOLS_LIMIT);
        let is_read = self.refresh.is_some() || self.refresh_not_before.is_some_and(|at| at > now);
        let is_first = connection.live.usage().kept_for != KeptFor::LateTools;
        let catalog = self.snapshot.catalog.as_ref();
        let announces = catalog.is_some_and(|catalog| catalog.info.announces_changes(capability::TOOLS));
        if !(announces && is_young && (is_first || is_read)) {
            return self.close_unused(None);
        }
        connection.live.set_kept_for(KeptFor::LateTools);
        connection.live.touch();
    }

    /// Has the lists read again after `REFRESH_RETRY`.
    fn read_again_later(&mut self) {
        if let Some(connection) = &self.connection {
            connection.lists_changed.notify_one();
            self.refresh_not_before = Some(Instant::now() + REFRESH_RETRY);
        }
    }

    /// Has the lists read again later if the tools could not be read.
    pub(super) fn read_missing_later(&mut self) {
        if self.lacks_tools() {
            self.read_again_later();
        }
    }

    /// Publishes the catalog that was read, and answers the callers that wait for it. If it could not be read, the last
    /// one stays, and is read again after `REFRESH_RETRY`.
    pub(super) fn refreshed(&mut self, outcome: Result<Catalog, UpstreamError>) {
        self.skip_milestones();
        match outcome {
            Ok(catalog) => {
                self.set_catalog(catalog);
                self.read_missing_later();
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the server's lists again; the last ones stay in use");
                self.read_again_later();
            }
        }
        self.publish();
        self.end_refresh();
    }

    /// Puts a catalog into use that was read, and compared with the pins.
    pub(super) fn set_catalog(&mut self, mut catalog: Catalog) {
        let known = self.snapshot.catalog.as_ref();
        catalog.set_connect_time(catalog.connect_time.or_else(|| known?.connect_time));
        let known = self.snapshot.catalog.as_ref().map(|known| known.original());
        if !known.is_some_and(|known| known.is_same(&catalog)) {
            tracing::info!("Discovered {}: {}", self.name, counted(catalog.tools.len(), "tool"));
        }
        if let Some(text) = catalog.left_off.text()
            && known.is_none_or(|known| known.left_off != catalog.left_off)
        {
            tracing::warn!("{text}");
        }
        let known = known.map(|known| known.findings.as_slice()).unwrap_or_default();
        for finding in catalog.findings.iter().filter(|finding| !known.contains(finding)) {
            tracing::warn!("{finding}");
        }
        let unlistable = |catalog: &Catalog| {
            tool_findings::unlistable(
                catalog.tools.iter().filter(|tool| self.snapshot.rules.allows(&tool.name)),
            )
        };
        let known = self.snapshot.catalog.as_deref().and_then(unlistable);
        let original = catalog.tools.len();
        let catalog = self.overridden(&Arc::new(catalog));
        if let Some(finding) = unlistable(&catalog).filter(|finding| known.as_ref() != Some(finding)) {
            tracing::warn!("{finding}");
        }
        if catalog.tools.len() < original {
            let count = original - catalog.tools.len();
            let count = counted(count, "tool");
            tracing::warn!("left out {count}, because `tools.override` gives their names to others");
        }
        self.log_rules(&catalog);
        self.snapshot.catalog = Some(catalog);
    }

    /// Logs which rules of the config match no tool, and which tools they hide. Findings that an earlier catalog of
    /// this run had are not logged again.
    fn log_rules(&self, catalog: &Arc<Catalog>) {
        let Some(server) = &self.snapshot.server else { return };
        let findings = |catalog: &Arc<Catalog>| {
            let unused = tool_findings::unused(&server.own_globs, catalog, &self.snapshot.rules, |_| true);
            (unused, tool_findings::hidden(catalog, &self.snapshot.rules))
        };
        let is_of_this_run = |known: &&Arc<Catalog>| matches!(known.source, CatalogSource::Live(_));
        let known = self.snapshot.catalog.as_ref().filter(is_of_this_run).map(findings).unwrap_or_default();
        let (unused, hidden) = findings(catalog);
        unused
            .iter()
            .filter(|finding| !known.0.contains(finding))
            .for_each(|finding| tracing::warn!("{finding}"));
        if let Some(hidden) = hidden.filter(|hidden| known.1.as_ref() != Some(hidden)) {
            tracing::info!("{hidden}");
        }
    }

    /// Applies the overrides of the config to a catalog.
    fn overridden(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        self.snapshot
            .server
            .as_ref()
            .map_or_else(|| catalog.clone(), |server| catalog.overridden(&server.tools.overrides))
    }

    /// Applies the overrides of a changed config to the catalog in use.
    pub(super) fn override_again(&mut self) {
        self.snapshot.catalog =
            self.snapshot.catalog.as_ref().map(|catalog| self.overridden(catalog.original()));
    }

    /// Answers the callers that wait for the catalog, whether or not it was read.
    pub(super) fn end_refresh(&mut self) {
        self.refresh = None;
        for (_, caller) in self.refresh_waiting.drain(..) {
            let _gone = caller.send(());
        }
    }
}

/// Runs an attempt, and compares its catalog with what is remembered of the tools. `worked`: when the config last worked,
/// for the error.
///
/// # Errors
///
/// Those of the attempt and of [`Milestones::observe`]; they are logged. `closing` of the error ends what the attempt
/// started.
pub(super) async fn connect_and_observe(
    attempt: BoxFuture<'static, AttemptResult>,
    milestones: Milestones,
    worked: Option<String>,
) -> AttemptResult {
    let outcome = match attempt.await {
        Ok((connection, catalog)) => match milestones.observe(catalog).await {
            Ok(catalog) => Ok((connection, catalog)),
            Err(error) => {
                let closing = Some((connection.close)(Grace::Ordinary));
                Err(AttemptError { error, closing })
            }
        },
        Err(AttemptError { error, closing }) => {
            let error = worked.iter().fold(error, |error, known| error.after_success(known));
            Err(AttemptError { error, closing })
        }
    };
    outcome
        .inspect_err(|AttemptError { error, .. }| tracing::warn!(error = %error.in_full(), "connect failed"))
}
