//! Opens a transport to a server: to a process on this machine or to a remote server.
//!
//! # Theory of operation
//!
//! A transport carries JSON-RPC messages as lines, whatever is at its other end. [`Transport::open`] chooses it by the
//! server's config and returns an [`OpenTransport`]: a reader of lines, an output for lines, and a [`TransportHandle`],
//! which watches the connection and ends it. Every kind of server implements its [`ServerControl`]. There are three
//! transports:
//!
//! - to a process, which `process::child` starts and ends;
//! - to a server that speaks HTTP (`remote`);
//! - to a process that other instances use as well: the crate `sharing` implements [`AttachShared`].
//!
//! Tests of whole sessions open transports to servers in this process in their place ([`OpenInMemory`]).
//!
//! `open_transport` is what every transport gives to its users.
//!
//! A connection that ends by itself ends its input. [`ServerControl::connection_end`] then tells why. Dropping the
//! last clone of the handle ends the connection in any case.

use crate::error::UpstreamError;
use config::env::Env;
use config::{Endpoint, GroupName, ServerConfig};
use futures_util::future::BoxFuture;
use http_client::credentials::LoginService;
use process::child::{ChildTransport, RunningChild};
use process::launch::direct::{DirectLaunches, LauncherUse};
use process::secrets::SecretResolver;
use process::server_log::ServerLog;
use process::warden::{StopTimeouts, Warden};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

pub mod open_transport;
pub mod remote;

pub use open_transport::{
    FailedRequest, Grace, OpenTransport, RequestFailures, ServerControl, ServerProcess, TransportHandle,
};

impl ServerControl for ChildTransport {
    fn stderr_tail(&self) -> String {
        self.stderr_tail()
    }

    fn process(&self) -> Option<ServerProcess> {
        Some(ServerProcess { pid: self.pid(), is_shared: false })
    }

    fn learn_start(&self) -> BoxFuture<'_, Option<LauncherUse>> {
        Box::pin(self.learn_start())
    }

    fn forget_direct_start(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.forget_direct_start())
    }

    fn drained(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.drained())
    }

    fn connection_end(&self) -> BoxFuture<'_, UpstreamError> {
        Box::pin(async { self.connection_end().await.into() })
    }

    fn stop(&self, grace: Grace) -> BoxFuture<'_, ()> {
        Box::pin(self.stop(match grace {
            Grace::Ordinary => StopTimeouts::ORDINARY,
            Grace::Shutdown => StopTimeouts::SHUTDOWN,
        }))
    }
}

/// Attaches to processes that other instances use as well. Without an implementation, as on Windows, every server has a
/// process of its own.
pub trait AttachShared: Send + Sync {
    /// Attaches to the shared process of `server`, for `limit` at most. Returns `None` if the server is not shared, or
    /// cannot be at the moment; the reason is in the log.
    fn attach<'a>(
        &'a self,
        server: &'a ServerConfig,
        max_message_bytes: usize,
        limit: Duration,
        log: &'a ServerLog,
    ) -> BoxFuture<'a, Option<OpenTransport>>;
}

/// Opens transports to servers in this process, for tests under paused time, when no process or socket would wait.
pub trait OpenInMemory: Send + Sync {
    /// Starts a server and connects to it. The transport limits this by `timeout.connect`.
    ///
    /// # Errors
    ///
    /// What a transport may report of a server that cannot be started or reached.
    fn open(
        &self,
        group: &GroupName,
        server: &ServerConfig,
    ) -> BoxFuture<'static, Result<OpenTransport, UpstreamError>>;
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
    pub in_memory: Option<Arc<dyn OpenInMemory>>,
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
    ) -> Option<OpenTransport> {
        self.shared.as_ref()?.attach(server, max_message_bytes, limit, log).await
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
    ) -> Result<OpenTransport, UpstreamError> {
        let connect_timeout = server.timeout.connect;
        if let Some(servers) = &self.in_memory {
            let opened = timeout(connect_timeout, servers.open(group, server)).await;
            return opened.map_err(|_| UpstreamError::not_started(connect_timeout))?;
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
                let failures = RequestFailures::NONE;
                Ok(OpenTransport { input, output, writer, handle: Arc::new(handle), failures })
            }
            Endpoint::Http(http) => {
                let credentials = self.logins.credentials(group, http)?;
                Ok(remote::open(http, connect_timeout, max_message_bytes, credentials).await?)
            }
        }
    }
}
