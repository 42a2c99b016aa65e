//! Reading the catalog again: because the server says that a list changed, or because a caller asks for it.

use super::Task;
use crate::upstream::catalog::Catalog;
use crate::upstream::connect::Connect;
use crate::upstream::error::UpstreamError;

impl<C: Connect> Task<C> {
    /// Starts to read the catalog again, unless that is in progress. Without a connection, callers are answered at once.
    pub(super) fn start_refresh(&mut self) {
        match &self.connection {
            Some(connection) if self.refresh.is_none() => self.refresh = Some((connection.refresh)()),
            Some(_) => {}
            None => self.refresh_waiting.clear(),
        }
    }

    /// Publishes the catalog that was read, and answers the callers that wait for it.
    pub(super) fn refreshed(&mut self, outcome: Result<Catalog, UpstreamError>) {
        match outcome {
            Ok(catalog) => self.set_catalog(catalog),
            Err(error) => {
                tracing::warn!(%error, "failed to read the server's lists again; the last ones stay in use");
            }
        }
        self.publish();
        self.end_refresh();
    }

    /// Answers the callers that wait for the catalog, whether or not it was read.
    pub(super) fn end_refresh(&mut self) {
        self.refresh = None;
        for caller in self.refresh_waiting.drain(..) {
            let _gone = caller.send(());
        }
    }
}
