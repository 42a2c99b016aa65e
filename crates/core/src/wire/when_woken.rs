//! Lets the task of a connection await what seldom happens, without looking at it for each message.

use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::pending;

/// Awaits a future that seldom completes. It is polled when it was woken, and not each time that its task runs for
/// another reason.
pub async fn when_woken<F: Future>(future: F) -> F::Output {
    let mut futures = FuturesUnordered::from_iter([future]);
    match futures.next().await {
        Some(output) => output,
        None => pending().await,
    }
}
