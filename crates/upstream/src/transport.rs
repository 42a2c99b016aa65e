//! Opens a transport to a server: to a process on this machine or to a remote server.
//!
//! # Theory of operation
//!
//! A transport carries JSON-RPC messages as lines, whatever is at its other end. [`Transport::open`] chooses it by the
//! server's config and returns an [`OpenTransport`]: a reader of lines, an output for lines, and a [`TransportHandle`],
//! which watches the connection and ends it. There are three transports:
//!
//! - to a process, which `process::child` starts and ends;
//! - to a server that speaks HTTP (`remote`);
//! - to a process that other instances use as well (`shared`): this crate has its interface, and the crate `sharing`
//!   implements it.
//!
//! Tests of whole sessions put servers in this process in their place (`in_memory`).
//!
//! `open_transport` is what every transport gives to its users.
//!
//! A connection that ends by itself ends its input. [`TransportHandle::connection_end`] then tells why. Dropping the
//! last clone of the handle ends the connection in any case.

use crate::error::UpstreamError;
use config::env::Env;
use config::{Endpoint, GroupName, ServerConfig};
use http_client::credentials::LoginService;
use http_client::error::RemoteError;
use in_memory::{InMemoryHandle, InMemoryServers};
use process::child::{ChildTransport, RunningChild};
use process::launch::direct::{DirectLaunches, LauncherUse};
use process::secrets::SecretResolver;
use process::server_log::ServerLog;
use process::warden::{StopTimeouts, Warden};
use remote::Remote;
use remote::server_stream::ServerStream;
use shared::{AttachShared, SharedHandle};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::Raw;

pub mod in_memory;
pub mod open_transport;
pub mod remote;
pub mod shared;

pub use open_transport::{FailedRequest, OpenTransport, RequestFailures, ServerProcess};

/// How long the end of a remote session may take.
const REMOTE_END_TIMEOUT: Duration = Duration::from_secs(2);
/// The same when the proxy itself ends.
const REMOTE_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

/// How much time the end of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// One upstream stops while the proxy continues.
    Ordinary,
    /// The proxy itself ends. A client does not wait for that, but the warden gives processes their time.
    Shutdown,
}

/// The upstream's side of an open transport. Clones share it; the connection ends when the last one is dropped.
#[derive(Clone)]
pub enum TransportHandle {
    /// A process on this machine.
    Child(ChildTransport),
    /// A remote server.
    Remote(Remote),
    /// A process on this machine that other instances use as well.
    Shared(SharedHandle),
    /// A server in this process.
    InMemory(InMemoryHandle),
}

impl TransportHandle {
    /// Returns the last lines that the upstream wrote to stderr; empty for a remote server and for a shared one that
    /// runs.
    pub fn stderr_tail(&self) -> String {
        match self {
            Self::Child(child) => child.stderr_tail(),
            Self::InMemory(server) => server.stderr_tail(),
            Self::Remote(_) | Self::Shared(_) => String::new(),
        }
    }

    /// Returns advice to change the config although the connection works, if there is any.
    pub fn finding(&self) -> Option<String> {
        let Self::Remote(remote) = self else { return None };
        remote.finding()
    }

    /// Returns what is known of the upstream's own event stream, if it may have one.
    pub(crate) fn server_stream(&self) -> Option<Arc<ServerStream>> {
        let Self::Remote(remote) = self else { return None };
        Some(remote.server_stream())
    }

    /// Returns the upstream's process, if it is one on this machine.
    pub fn process(&self) -> Option<ServerProcess> {
        match self {
            Self::Child(child) => Some(ServerProcess { pid: child.pid(), is_shared: false }),
            Self::Remote(_) | Self::InMemory(_) => None,
            Self::Shared(shared) => Some(ServerProcess { pid: shared.pid(), is_shared: true }),
        }
    }

    /// Notes how to start the upstream's process without its launcher, if that is possible. Called once the server has
    /// answered.
    pub async fn learn_start(&self) -> Option<LauncherUse> {
        match self {
            Self::Child(child) => child.learn_start().await,
            Self::Shared(shared) => shared.learn_start().await,
            Self::Remote(_) | Self::InMemory(_) => None,
        }
    }

    /// Forgets how to start the upstream without its launcher. Returns whether it was started without it.
    pub async fn forget_direct_start(&self) -> bool {
        let Self::Child(child) = self else { return false };
        child.forget_direct_start().await
    }

    /// Waits until the upstream has ended by itself and its last output has had time to be read. Only a process of our
    /// own can tell; for the others it never resolves, because they end their input when they end.
    pub async fn drained(&self) {
        // The other connections end their input when they end.
        let Self::Child(child) = self else { return std::future::pending().await };
        child.drained().await;
    }

    /// Returns why the connection accepts no more messages, if that is known before its input ends. Always `None` for a
    /// process.
    pub(crate) fn close_reason(&self) -> Option<RemoteError> {
        match self {
            Self::Remote(remote) => remote.end_reason(),
            Self::InMemory(server) => server.close_reason(),
            Self::Child(_) | Self::Shared(_) => None,
        }
    }

    /// Returns the id of our request that the upstream's request `id` concerns, if the transport tells.
    pub(crate) fn call_of(&self, id: &Raw) -> Option<Raw> {
        match self {
            Self::Remote(remote) => remote.call_of(id),
            Self::InMemory(server) => server.call_of(id),
            Self::Child(_) | Self::Shared(_) => None,
        }
    }

    /// Returns how the connection ended. To be called after the end of its input.
    pub async fn connection_end(&self) -> UpstreamError {
        match self {
            Self::Child(child) => child.connection_end().await.into(),
            Self::Remote(remote) => {
                let reason = remote.end_reason();
                reason.unwrap_or_else(|| RemoteError::connection_lost("it was closed")).into()
            }
            Self::Shared(shared) => shared.connection_end().into(),
            Self::InMemory(server) => server.connection_end(),
        }
    }

    /// Ends the upstream process with its descendants, or the remote session. Returns when that is done. Does nothing for a
    /// shared process, whose host ends the session. The caller closes the output first.
    pub async fn stop(&self, grace: Grace) {
        let (timeouts, remote_timeout) = match grace {
            Grace::Ordinary => (StopTimeouts::ORDINARY, REMOTE_END_TIMEOUT),
            Grace::Shutdown => (StopTimeouts::SHUTDOWN, REMOTE_SHUTDOWN_TIMEOUT),
        };
        match self {
            Self::Child(child) => child.stop(timeouts).await,
            Self::Remote(remote) => remote.stop(remote_timeout).await,
            // The host ends the session when the output is closed. The server keeps running while others use it.
            Self::Shared(_) => {}
            Self::InMemory(server) => server.stop().await,
        }
    }

    /// Handles a notification of the transport itself. Returns false if the notification is the upstream's.
    pub fn take_notification(&self, method: &str, params: Option<&Raw>) -> bool {
        let Self::Shared(shared) = self else { return false };
        shared.take_notification(method, params)
    }
}

/// Opens transports. Holds what all of them share.
#[derive(Clone)]
pub struct Transport {
    /// Our own environment, of which processes inherit a part.
    pub process_env: Arc<Env>,
    /// Spawns and ends the processes.
    pub warden: Warden,
    /// Knows which launchers can be left out.
    pub direct: DirectLaunches,
    /// Attaches to shared processes. `None`: nothing is shared.
    pub shared: Option<Arc<dyn AttachShared>>,
    /// Provides the credentials for remote servers.
    pub logins: Arc<dyn LoginService>,
    /// Fetches the values that configs name.
    pub secrets: SecretResolver,
    /// Servers in this process, which take the place of all others. Only tests have some.
    pub in_memory: Option<Arc<dyn InMemoryServers>>,
}

impl Transport {
    /// Attaches to the shared process of `server`, at most for `limit`. Returns `None` if it is not shared, or cannot
    /// be at the moment.
    pub(crate) async fn open_shared(
        &self,
        server: &ServerConfig,
        max_message_bytes: usize,
        limit: Duration,
        log: &ServerLog,
    ) -> Option<OpenTransport<TransportHandle>> {
        let opened = self.shared.as_ref()?.attach(server, max_message_bytes, limit, log).await?;
        Some(opened.map_handle(TransportHandle::Shared))
    }

    /// Opens the transport that the config of `server` asks for. `max_message_bytes` limits each message of a remote
    /// server; for a process, the reader of the lines has to limit them. `log` gets what a process writes to stderr.
    /// Starting a process may take `timeout.connect`, once its predecessor has ended and the login shell, if its PATH is
    /// needed, has had `shell_time`. Nothing is sent to a remote server yet.
    ///
    /// # Errors
    ///
    /// `Launch` if the command cannot be run. `Spawn` if the process cannot be started, or not in time. `Remote` if the
    /// config of a remote server is not valid, its credentials are not available, or its certificates cannot be read in
    /// time.
    pub async fn open(
        &self,
        group: &GroupName,
        server: &ServerConfig,
        max_message_bytes: usize,
        shell_time: Duration,
        log: &ServerLog,
    ) -> Result<OpenTransport<TransportHandle>, UpstreamError> {
        let connect_timeout = server.timeout.connect;
        if let Some(servers) = &self.in_memory {
            let opened = timeout(connect_timeout, servers.open(group, server)).await;
            let opened = opened.map_err(|_| UpstreamError::not_started(connect_timeout))??;
            return Ok(opened.map_handle(TransportHandle::InMemory));
        }
        match &server.endpoint {
            Endpoint::Stdio(stdio) => {
                let written = process::launch::prepare(stdio, &self.process_env, shell_time).await?;
                self.warden.predecessor_ended(written.server_id()).await;
                let start = self.direct.choose(server.common.launcher, stdio, written).await;
                let env = &self.process_env;
                let opening = ChildTransport::open(&self.warden, env, group, stdio, start, log);
                let opened = timeout(connect_timeout, opening).await;
                let RunningChild { input, output, writer, handle } =
                    opened.map_err(|_| UpstreamError::not_started(connect_timeout))??;
                let (handle, failures) = (TransportHandle::Child(handle), RequestFailures::NONE);
                Ok(OpenTransport { input, output, writer, handle, failures })
            }
            Endpoint::Http(http) => {
                let credentials = self.logins.credentials(group, http)?;
                let opened = Remote::start(http, connect_timeout, max_message_bytes, credentials).await?;
                Ok(opened.map_handle(TransportHandle::Remote))
            }
        }
    }
}
