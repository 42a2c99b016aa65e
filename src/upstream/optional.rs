//! Things to wait for that may not be there: then the wait never ends, and `select!` takes another arm.

use std::future::pending;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub async fn maybe<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

pub async fn notified(notify: Option<&Notify>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => pending().await,
    }
}

/// Resolves when told, not before `at`. Cancel-safe.
pub async fn told(notify: Option<&Notify>, at: Option<Instant>) {
    if at.is_some() {
        until(at).await;
    }
    notified(notify).await;
}

pub async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
