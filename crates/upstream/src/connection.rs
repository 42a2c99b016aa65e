//! One connection to a server, from the attempt to make it until it has ended.
//!
//! # Theory of operation
//!
//! The task of a group asks a [`Connect`] for a [`Connection`]. `connector` implements it: it opens the transport,
//! `handshake` agrees with the server on a revision and capabilities, and `session` reads the lists of the catalog. Callers
//! that need only the handshake or the tools learn of these `milestones` before the attempt is over. Tests of the task implement [`Connect`] without a server.
//!
//! Callers use the connection through a `lease`, which keeps it open. `reader` reads what the server sends until the
//! connection ends: answers go to their calls, requests and notifications to the clients. `translate` adapts messages
//! to the era of their receiver, `task_ids` renames MCP tasks, and `malformed_lines` handles lines that are no
//! messages. `list_subscription` asks a stateless server to report changes of its lists. `roots` delays the first
//! request until the server has the client's roots.
//!
//! `startup_output` watches what a process prints before it answers, so that callers learn why they wait.

use crate::catalog::Catalog;
use crate::error::UpstreamError;
use config::ServerConfig;
use futures_util::future::{BoxFuture, OptionFuture};
use lease::LiveConnection;
use milestones::Milestones;
use std::sync::Arc;
use tokio::sync::Notify;

pub use crate::transport::Grace;

pub mod connector;
pub(crate) mod handshake;
pub mod lease;
pub mod list_subscription;
pub mod malformed_lines;
pub mod milestones;
pub mod reader;
pub mod roots;
mod session;
pub mod startup_output;
pub mod task_ids;
pub mod translate;

/// The outcome of an attempt: a connection and the catalog read from it, or why there is none.
pub(crate) type AttemptResult = Result<(Connection, Catalog), AttemptError>;

/// Makes connections to one upstream.
pub trait Connect: Send + 'static {
    /// Makes one attempt, and reports its milestones before it ends. Dropping the future begins to end what the attempt started; `abandon` waits for that.
    ///
    /// # Errors
    ///
    /// Returns why the attempt failed, and the end of what it started, which may take longer.
    fn connect(&self, server: Arc<ServerConfig>, milestones: Milestones)
    -> BoxFuture<'static, AttemptResult>;

    /// Ends the process or the remote session of an attempt whose future was dropped. The future resolves when nothing of
    /// it is left. `None`: the attempt had opened nothing, or there was none.
    fn abandon(&self, grace: Grace) -> Option<BoxFuture<'static, ()>>;
}

/// A connection whose handshake is done.
pub struct Connection {
    /// The connection as callers share it.
    pub live: Arc<LiveConnection>,
    /// Resolves when the connection ended by itself; `live.lost` says why.
    pub ended: BoxFuture<'static, ()>,
    /// Notified when the server says that one of its lists changed.
    pub(crate) lists_changed: Arc<Notify>,
    /// Reads the catalog again.
    pub refresh: Box<dyn Fn() -> BoxFuture<'static, Result<Catalog, UpstreamError>> + Send>,
    /// Closes the connection and resolves when nothing of it is left.
    pub close: Box<dyn FnOnce(Grace) -> BoxFuture<'static, ()> + Send>,
}

impl Connection {
    /// Closes the connection, which accepts no more calls from then on. The future ends what is behind it, reads its
    /// output to the end, and resolves when nothing of it is left: open calls may still be answered, and the others
    /// fail then.
    pub(crate) fn end(self, grace: Grace) -> BoxFuture<'static, ()> {
        self.live.close();
        let (closing, ended) = ((self.close)(grace), self.ended);
        Box::pin(async move {
            tokio::join!(closing, ended);
        })
    }
}

/// Why an attempt failed.
pub struct AttemptError {
    /// The error that callers get.
    pub error: UpstreamError,
    /// The end of what the attempt started. The next attempt begins after it.
    pub closing: Option<BoxFuture<'static, ()>>,
}

impl AttemptError {
    /// Waits until what the attempt started has ended. Returns the error.
    async fn ended(self) -> UpstreamError {
        OptionFuture::from(self.closing).await;
        self.error
    }
}

impl From<UpstreamError> for AttemptError {
    fn from(error: UpstreamError) -> Self {
        Self { error, closing: None }
    }
}
