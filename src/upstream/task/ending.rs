//! How an upstream's task ends: by letting calls finish, or by closing at once.

use super::Task;
use crate::upstream::Grace;
use crate::upstream::connect::{BoxFuture, Connect, Connection};
use std::time::Duration;

/// How long calls in flight have when their group's config changed.
const DRAIN: Duration = Duration::from_secs(10);

impl<C: Connect> Task<C> {
    /// Takes no more callers and waits for those who hold a lease. Who waits for the attempt turns to the group's
    /// next task, if there is one.
    pub(super) async fn drain(&mut self) -> Grace {
        self.commands.close();
        self.waiting.clear();
        self.attempt = None;
        let Some(live) = self.connection.as_ref().map(|connection| connection.live.clone()) else {
            return Grace::Ordinary;
        };
        live.close();
        let unused = async {
            while live.usage().leases > 0 {
                live.unused.notified().await;
            }
        };
        if tokio::time::timeout(DRAIN, unused).await.is_err() {
            tracing::warn!(
                "calls still in flight after {} s are given up: the config has changed",
                DRAIN.as_secs()
            );
        }
        Grace::Ordinary
    }

    /// Closes whatever there is. An attempt under way is dropped, which ends its process.
    pub(super) async fn stop(mut self, grace: Grace) {
        self.commands.close();
        // Dropping their ends tells those who wait that the group is gone.
        self.waiting.clear();
        self.attempt = None;
        let closing = self.connection.take().map(|Connection { live, ended, close, .. }| -> BoxFuture<()> {
            live.close();
            let closing = close(grace);
            // It is read to its end: calls in flight may still be answered, and those that are not learn of it.
            Box::pin(async move {
                tokio::join!(closing, ended);
            })
        });
        self.lifecycle.closed();
        self.publish();
        tokio::join!(maybe_done(self.closing.take()), maybe_done(closing));
    }
}

async fn maybe_done(future: Option<BoxFuture<()>>) {
    if let Some(future) = future {
        future.await;
    }
}
