//! Futures for arms of `select!` that wait for something optional. If there is nothing to wait for, the arm never
//! completes.

use std::future::pending;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Awaits the future, if there is one. Cancel-safe if the future is.
pub async fn optional<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Awaits a notification, and completes no earlier than `not_before`. Cancel-safe.
pub(crate) async fn notified_after(notify: Option<&Notify>, not_before: Option<Instant>) {
    if not_before.is_some() {
        until(not_before).await;
    }
    optional(notify.map(Notify::notified)).await;
}

/// Sleeps until the deadline. Cancel-safe.
pub async fn until(deadline: Option<Instant>) {
    // Boxed, because most loops have no deadline, and would move the room for a timer with every message.
    optional(deadline.map(|deadline| Box::pin(sleep_until(deadline)))).await;
}
