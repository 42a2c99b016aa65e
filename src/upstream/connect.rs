//! The seam between the task that owns an upstream and whatever makes connections to it; tests replace it.

use super::catalog::Catalog;
use super::error::UpstreamError;
use super::{Grace, Live};
use crate::config::ServerConfig;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How long a start that nobody asked for may hold its slot.
const SLOT: Duration = Duration::from_secs(5);

/// A connection and what the upstream told of itself, or why there is none.
pub type Attempted = Result<(Connection, Catalog), FailedAttempt>;
pub type Connecting = BoxFuture<Attempted>;

/// Makes connections to one upstream: the seam that tests replace.
pub trait Connect: Send + 'static {
    fn connect(&self, server: Arc<ServerConfig>) -> Connecting;
}

/// A connection that has introduced itself.
pub struct Connection {
    pub live: Arc<Live>,
    /// Resolves when the connection ended by itself; `live.lost` says why.
    pub ended: BoxFuture<()>,
    /// Told when the upstream says that its tools changed.
    pub lists_changed: Arc<Notify>,
    /// Reads the catalog again.
    pub reread: Box<dyn Fn() -> BoxFuture<Result<Catalog, UpstreamError>> + Send>,
    /// Closes it and resolves when nothing of it is left.
    pub close: Box<dyn FnOnce(Grace) -> BoxFuture<()> + Send>,
}

/// An attempt that failed, with what is still to be awaited before the next one.
pub struct FailedAttempt {
    pub error: UpstreamError,
    pub closing: Option<BoxFuture<()>>,
}

/// Connects when there is a slot, or when it gets urgent. A slow start gives its slot back: servers that hang hold
/// up nobody.
pub async fn in_slot<T>(slots: Arc<Semaphore>, urgent: &Notify, mut connecting: BoxFuture<T>) -> T {
    let slot = tokio::select! {
        slot = slots.acquire_owned() => slot.ok(),
        () = urgent.notified() => None,
    };
    tokio::select! {
        outcome = &mut connecting => return outcome,
        () = tokio::time::sleep(SLOT) => drop(slot),
    }
    connecting.await
}
