//! The interface of the transport to a process that other instances use as well. The crate `sharing` implements it.
//! Without an implementation, as on Windows, every server has a process of its own.

use super::open_transport::OpenTransport;
use config::ServerConfig;
use futures_util::future::BoxFuture;
use process::child::ProcessEnd;
use process::launch::direct::LauncherUse;
use process::server_log::ServerLog;
use std::sync::Arc;
use std::time::Duration;
use wire::Raw;

/// Attaches to shared processes.
pub trait AttachShared: Send + Sync {
    /// Attaches to the shared process of `server`, for `limit` at most. Returns `None` if the server is not shared, or
    /// cannot be at the moment; the reason is in the log.
    fn attach<'a>(
        &'a self,
        server: &'a ServerConfig,
        max_message_bytes: usize,
        limit: Duration,
        log: &'a ServerLog,
    ) -> BoxFuture<'a, Option<OpenTransport<SharedHandle>>>;
}

/// A session with a shared process. It ends when its input and its output are closed.
pub type SharedHandle = Arc<dyn SharedSession>;

/// What an instance knows of its session with a shared process.
pub trait SharedSession: Send + Sync {
    /// The pid of the server's process.
    fn pid(&self) -> u32;

    /// Learns from the launcher what it has started, for the next start, and returns what came of it. Takes 2 s at most.
    /// `None` if the launcher is not to be left out. To be called once the server has answered.
    fn learn_start(&self) -> BoxFuture<'_, Option<LauncherUse>>;

    /// Handles a notification of the host. Returns false if the notification is the server's.
    fn take_notification(&self, method: &str, params: Option<&Raw>) -> bool;

    /// Returns how the session ended. To be called after the end of its input.
    fn connection_end(&self) -> ProcessEnd;
}
