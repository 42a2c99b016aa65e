//! Servers whose process several instances of the same user share: both ends. Linux only.
//!
//! # Theory of operation
//!
//! A shared server runs in the *host*, a process of our own program, which [`host`] implements. An instance attaches to
//! a server by connecting to the host's socket and describing the server as a `ServerIdentity`; the host starts the
//! server unless it runs already. From then on two pipes carry JSON-RPC lines, as the stdin and stdout of a private
//! process do. [`SharedServers`] is the instance's end: it implements the trait by which the transport in `upstream`
//! attaches.
//!
//! - `scope` decides which servers are shared.
//! - `host_process` connects to the host, or starts it.
//! - `confinement` compares what two processes may do: a host must not be a way out of a sandbox. `cgroup_limits`
//!   compares the limits of their control groups.
//! - `attach_helper` is the process by which an instance connects, and by which the host sees the rights of the
//!   instance. `challenge` proves to each end that the process whose rights it has read is really at the other end.
//! - `attach` has the messages of attaching, and `pipes` passes the pipes.
//!
//! # Invariants
//!
//! - Sharing is an optimization. If anything is doubtful or takes longer than `ATTACH_TIMEOUT`, attaching returns
//!   `None`, and the caller starts a private process.
//! - A host has exactly the rights of the instances that use it.
//! - No session sees or cancels the requests of another one.
//!
//! ```ignore
//! let shared = SharedServers::new(process_env, direct_launches);
//! let transport = match shared.attach(&server, max_message_bytes, timeout, &log).await {
//!     Some(shared) => shared,
//!     None => start_private_process().await?,
//! };
//! ```

// Only Linux shows what confines a process, and holds it until it has proved who it is.
#![cfg(target_os = "linux")]

use attach::{AttachRequest, Declined, MAX_MESSAGE_BYTES, SERVER_ENDED, SHARED_ANCESTOR, ServerIdentity};
use config::env::Env;
use config::{Launcher, ServerConfig, Share, StdioConfig};
use confinement::Confinement;
use futures_util::future::BoxFuture;
use host_process::{Attached, HostDialer};
use parking_lot::Mutex;
use process::child::ProcessEnd;
use process::launch::direct::{DirectLaunches, LauncherUse, StartRecord};
use process::launch::{self, ANCESTORS_VAR, Launch};
use process::server_log::ServerLog;
use process::warden::raise_nofile;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use upstream::UpstreamError;
use upstream::transport::{AttachShared, OpenTransport, RequestFailures, ServerControl, ServerProcess};
use wire::output::{Output, PollableFd};
use wire::{Raw, raw};

pub mod attach;
pub mod attach_helper;
mod cgroup_limits;
pub mod challenge;
pub mod confinement;
pub mod host;
mod host_process;
pub mod pipes;
mod scope;

pub use host_process::MODE_ARG;

/// How long attaching may take, the start of a host and of the server included.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long nothing is shared after the host did not answer, so that a host that hangs delays one connection, not each.
const PAUSE: Duration = Duration::from_secs(60);

/// Attaches to shared servers.
pub struct SharedServers {
    /// Our environment. Servers inherit a part of it.
    process_env: Arc<Env>,
    /// Knows which launchers can be left out.
    direct: DirectLaunches,
    /// Connects to the host.
    dialer: HostDialer,
    /// What confines our own process, or why nothing is shared; read at the first use.
    own: OnceLock<Result<Confinement, Declined>>,
    /// Until when nothing is shared, because the host did not answer.
    paused_until: Mutex<Option<Instant>>,
}

impl SharedServers {
    /// Shares servers with other processes that have this environment.
    pub fn new(process_env: Arc<Env>, direct: DirectLaunches) -> Self {
        let dialer = HostDialer::new(&process_env);
        Self { process_env, direct, dialer, own: OnceLock::new(), paused_until: Mutex::default() }
    }

    async fn attach_to(
        &self,
        share: Share,
        launcher: Launcher,
        stdio: &StdioConfig,
        max_message_bytes: usize,
    ) -> Result<(Attached, Option<StartRecord>), Declined> {
        let own = self.own.get_or_init(|| {
            if self.process_env.var("CI").is_some() {
                return Err(Declined::new("nothing is shared where CI is set"));
            }
            let own = Confinement::read_own()?;
            own.check_unconfined()?;
            Ok(own)
        });
        let own = own.as_ref().map_err(Clone::clone)?;
        let is_below_shared = |ancestors: &std::ffi::OsStr| {
            ancestors.to_string_lossy().split(':').any(|ancestor| ancestor == SHARED_ANCESTOR)
        };
        if self.process_env.var(ANCESTORS_VAR).is_some_and(is_below_shared) {
            // It might use the server that it is itself, which would never end then.
            return Err(Declined::new("this process was started by a shared server"));
        }
        if max_message_bytes > MAX_MESSAGE_BYTES {
            return Err(Declined::new("max_message_bytes is larger than a shared server allows"));
        }
        let mut launch = launch::prepare(stdio, &self.process_env, Duration::ZERO)
            .await
            .map_err(|_| Declined::new("its command cannot be run"))?;
        scope::set_directory(share, stdio, &self.process_env, &mut launch);
        let (direct, start) = self.direct.choose(launcher, stdio, launch.clone()).await;
        let is_direct = start.as_ref().is_some_and(StartRecord::is_direct);
        let request = AttachRequest {
            server: identity(launch, max_message_bytes)?,
            without_launcher: is_direct.then(|| identity(direct, max_message_bytes)).transpose()?,
            nofile: raise_nofile(),
            instance: std::process::id(),
        };
        let attached = self.dialer.attach(&request, own).await?;
        tracing::debug!(pid = attached.pid, "attached to the shared process of the server");
        Ok((attached, start))
    }
}

impl AttachShared for SharedServers {
    /// Attaches within `limit`, or `ATTACH_TIMEOUT` if that is less. Shares nothing for `PAUSE` after a host did not
    /// answer in time.
    fn attach<'a>(
        &'a self,
        server: &'a ServerConfig,
        max_message_bytes: usize,
        limit: Duration,
        log: &'a ServerLog,
    ) -> BoxFuture<'a, Option<OpenTransport>> {
        Box::pin(async move {
            let (stdio, share) = scope::of(server)?;
            if self.paused_until.lock().is_some_and(|until| Instant::now() < until) {
                return None;
            }
            let limit = limit.min(ATTACH_TIMEOUT);
            let launcher = server.common.launcher;
            let attached = timeout(limit, self.attach_to(share, launcher, stdio, max_message_bytes)).await;
            let declined = match attached {
                Ok(Ok((attached, start))) => {
                    return Some(SharedTransport::open(attached, start, log.clone()));
                }
                Ok(Err(declined)) => declined,
                Err(_) => {
                    *self.paused_until.lock() = Some(Instant::now() + PAUSE);
                    Declined::new(format!("the host did not answer within {} s", limit.as_secs_f32()))
                }
            };
            tracing::debug!(%declined, "the server gets a process of its own");
            None
        })
    }
}

/// Makes the identity of the server that `launch` starts.
///
/// # Errors
///
/// Fails if its command or environment is not Unicode.
fn identity(launch: Launch, max_message_bytes: usize) -> Result<ServerIdentity, Declined> {
    let text = |value: std::ffi::OsString| {
        value.into_string().map_err(|_| Declined::new("its command or environment is not Unicode"))
    };
    Ok(ServerIdentity {
        program: text(launch.program.into_os_string())?,
        args: launch.args.into_iter().map(text).collect::<Result<_, _>>()?,
        env: launch
            .env
            .into_iter()
            // It differs with the config of the instance. The host sets another value.
            .filter(|(name, _)| name != ANCESTORS_VAR)
            .map(|(name, value)| Ok((text(name)?, text(value)?)))
            .collect::<Result<_, Declined>>()?,
        cwd: text(launch.cwd.into_os_string())?,
        max_message_bytes,
    })
}

/// A session with a shared server.
struct SharedTransport {
    /// The pid of the server's process, for display.
    pid: u32,
    /// Whether the process was started without its launcher.
    is_direct: bool,
    /// How this instance would start the server, if its config leaves out the launcher.
    start: Option<StartRecord>,
    /// Whether the process was started for this session.
    is_new: bool,
    /// How the server's process ended, as the host told it.
    server_end: OnceLock<(String, String)>,
    /// Gets its last lines of stderr. The host has the others.
    log: ServerLog,
}

impl SharedTransport {
    /// Opens the transport of a session. The session ends when its input and its output are closed.
    fn open(attached: Attached, start: Option<StartRecord>, log: ServerLog) -> OpenTransport {
        let Attached { pipes, pid, is_direct, is_new } = attached;
        let (output, writer) = Output::direct(PollableFd::Pipe(pipes.output));
        let handle = Arc::new(Self { pid, is_direct, start, is_new, server_end: OnceLock::new(), log });
        OpenTransport {
            input: Box::new(pipes.input),
            output,
            writer,
            handle,
            failures: RequestFailures::NONE,
        }
    }
}

impl ServerControl for SharedTransport {
    fn process(&self) -> Option<ServerProcess> {
        Some(ServerProcess { pid: self.pid, is_shared: true })
    }

    fn learn_start(&self) -> BoxFuture<'_, Option<LauncherUse>> {
        Box::pin(async {
            let start = self.start.as_ref()?;
            Some(match (self.is_direct, self.is_new) {
                (true, _) => LauncherUse::LeftOut,
                (false, _) if start.is_direct() => LauncherUse::Learned,
                (false, true) => start.learn(self.pid).await,
                // The files that decide what the launcher starts may have changed since.
                (false, false) => LauncherUse::Needed("another instance has started the server".to_owned()),
            })
        })
    }

    fn take_notification(&self, method: &str, params: Option<&Raw>) -> bool {
        if method != SERVER_ENDED {
            return false;
        }
        let text = |name| params.and_then(|params| raw::get_str(params, name)).unwrap_or_default();
        let stderr = text("stderr");
        stderr.lines().for_each(|line| self.log.push(line.to_owned()));
        drop(self.server_end.set((text("how"), stderr)));
        true
    }

    fn connection_end(&self) -> BoxFuture<'_, UpstreamError> {
        let (how, stderr) = self.server_end.get().cloned().unwrap_or_else(|| {
            ("the process that shares it among your instances has ended".to_owned(), String::new())
        });
        Box::pin(ready(ProcessEnd { how, stderr, withheld: Vec::new() }.into()))
    }
}
