//! The end of a group's task, at once or after its open calls, and of a connection that the user wants replaced.

use super::Task;
use crate::connection::lease::LiveConnection;
use crate::connection::{Connect, Grace};
use crate::lifecycle::Event;
use futures_util::future::OptionFuture;
use std::time::Duration;

/// How long open calls may take after the config changed their group. Its successor waits for its process. A remote
/// connection keeps nobody waiting, so there it is `timeout.tools`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

impl<C: Connect> Task<C> {
    /// Rejects new callers, gives up the attempt in progress, and waits until every lease is returned, for
    /// `DRAIN_TIMEOUT` at most, or `timeout.tools` for a remote server. Callers that wait for an attempt get `AcquireError::Gone`, and turn to the group that
    /// replaces this one, if there is one. Returns the grace for `stop`.
    pub(super) async fn drain(&mut self) -> Grace {
        self.commands.close();
        self.waiting.clear();
        // Callers may have a lease on the connection of the attempt.
        let is_used = self.reached.take().is_some_and(|(live, _)| live.usage().leases > 0);
        if is_used
            && let Some((_, attempt)) = self.attempt.take()
            && let Ok(Ok((connection, _))) = tokio::time::timeout(DRAIN_TIMEOUT, attempt).await
        {
            self.connection = Some(connection);
        }
        self.attempt = None;
        let Some(live) = self.connection.as_ref().map(|connection| connection.live.clone()) else {
            return Grace::Ordinary;
        };
        live.close();
        let unused = async {
            while live.watch_usage().leases > 0 {
                LiveConnection::until_unused(Some(&live)).await;
            }
        };
        let server = self.snapshot.server.as_ref().filter(|_| self.snapshot.is_remote());
        let limit = server.map_or(DRAIN_TIMEOUT, |server| server.timeout.tools);
        if tokio::time::timeout(limit, unused).await.is_err() {
            tracing::warn!(
                "the config changed this group; calls still open after {} s are cancelled",
                limit.as_secs()
            );
        }
        Grace::Ordinary
    }

    /// Begins to close the connection, if there is one, and to make another one after that.
    pub(super) fn reconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            tracing::info!("reconnecting, because the user wants that");
            self.closing = Some(connection.end(Grace::Ordinary));
            self.end_refresh();
            self.apply(Event::Closed);
        }
        // Unlike a request alone, this connects even if the last attempt has just failed.
        self.apply(Event::LoggedIn);
        self.apply(Event::Requested);
    }

    /// Closes the connection and the attempt in progress, and returns when nothing of them is left.
    pub(super) async fn stop(mut self, grace: Grace) {
        self.commands.close();
        // Dropping the senders tells waiting callers that the group is gone.
        self.waiting.clear();
        self.attempt = None;
        let abandoned = self.connect.abandon(grace);
        let closing = self.connection.take().map(|connection| connection.end(grace));
        self.apply(Event::Closed);
        self.publish();
        tokio::join!(
            OptionFuture::from(self.closing.take()),
            OptionFuture::from(closing),
            OptionFuture::from(abandoned),
        );
    }
}
