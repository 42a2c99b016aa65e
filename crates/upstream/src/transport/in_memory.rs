//! The interface of a server in this process. The tests of whole sessions implement it: they run under paused time, and
//! no process or socket would wait for that.

use super::open_transport::OpenTransport;
use crate::error::UpstreamError;
use config::{GroupName, ServerConfig};
use futures_util::future::BoxFuture;
use http_client::error::RemoteError;
use std::sync::Arc;
use wire::Raw;

/// Servers in this process.
pub trait InMemoryServers: Send + Sync {
    /// Starts a server and connects to it. The transport limits this by `timeout.connect`.
    ///
    /// # Errors
    ///
    /// What a transport may report of a server that cannot be started or reached.
    fn open(
        &self,
        group: &GroupName,
        server: &ServerConfig,
    ) -> BoxFuture<'static, Result<OpenTransport<InMemoryHandle>, UpstreamError>>;
}

/// A connection to a server in this process.
pub type InMemoryHandle = Arc<dyn InMemoryServer>;

/// What the proxy knows of a server in this process.
pub trait InMemoryServer: Send + Sync {
    /// Returns the last lines of its stderr.
    fn stderr_tail(&self) -> String;

    /// Returns why the connection accepts no more messages, if that is known before its input ends.
    fn close_reason(&self) -> Option<RemoteError>;

    /// Returns how the connection ended. To be called after the end of its input.
    fn connection_end(&self) -> UpstreamError;

    /// Ends the server. Resolves when it has ended.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// Returns the id of our request that the server's request `id` concerns, if the transport tells.
    fn call_of(&self, id: &Raw) -> Option<Raw>;
}
