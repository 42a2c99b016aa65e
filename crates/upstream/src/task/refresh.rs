//! The catalog of a group: how a new one comes into use, and how it is read again because the server reports a change
//! or a caller asks for it.

use super::Task;
use crate::catalog::tool_findings;
use crate::catalog::{Catalog, CatalogSource};
use crate::connection::milestones::Milestones;
use crate::connection::{AttemptError, AttemptResult, Connect, Grace};
use crate::error::UpstreamError;
use base::text::counted;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long after a failure the lists are read again.
const REFRESH_RETRY: Duration = Duration::from_secs(30);

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
        catalog.connect_time = catalog.connect_time.or_else(|| self.snapshot.catalog.as_ref()?.connect_time);
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
