//! The transport to a shared server: a server whose process other instances of the same user use as well.
//!
//! # Theory of operation
//!
//! A shared server runs in the *host*, a process of our own program that `crate::host` implements. An instance attaches
//! to a server by connecting to the host's socket and describing the server as a [`ServerIdentity`]; the host starts
//! the server unless it runs already. From then on two pipes carry JSON-RPC lines, as the stdin and stdout of a private
//! process do.
//!
//! - `scope` decides which servers are shared, and `tested_packages` lists those that are shared without being asked.
//! - `runtime_dir` is the directory of the socket, and `host_process` connects to the host, or starts it.
//! - `confinement` compares two processes: a host must not be a way out of a sandbox. `cgroup_limits` compares the limits
//!   of their control groups.
//! - `attach_helper` is the process by which an instance connects, and shows itself to the host; `challenge` proves to
//!   both that the process that they have looked at is the one at the other end.
//! - `attach` has the messages of attaching, and `pipes` passes the pipes.
//!
//! Sharing is an optimization. Whatever is doubtful or takes longer than `ATTACH_TIMEOUT` makes the connection
//! private: [`SharedServers::open`] returns `None`, and the caller starts a process of its own.

use super::child::ProcessEnd;
use super::connection::{OpenTransport, RequestFailures};
use super::launch::{self, ANCESTORS_VAR, Launch, ProcessEnv};
use super::server_log::ServerLog;
use crate::config::{ServerConfig, Share, StdioConfig};
use attach::{AttachRequest, Declined, MAX_MESSAGE_BYTES, SERVER_ENDED, SHARED_ANCESTOR, ServerIdentity};
use confinement::Confinement;
use host_process::HostDialer;
use parking_lot::Mutex;
use pipes::SessionPipes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wire::output::{Output, PollableFd};
use wire::{Raw, raw};

pub mod attach;
pub mod attach_helper;
mod cgroup_limits;
pub mod challenge;
pub mod confinement;
mod host_process;
pub mod pipes;
pub mod runtime_dir;
mod scope;
mod tested_packages;

pub use host_process::MODE_ARG;

/// How long attaching may take, the start of a host and of the server included.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long nothing is shared after the host did not answer, so that a host that hangs delays one connection, not each.
const PAUSE: Duration = Duration::from_secs(60);

/// Attaches to shared servers. Clones share what they know of our own process.
#[derive(Clone)]
pub struct SharedServers(Arc<SharedServersInner>);

struct SharedServersInner {
    /// Our environment, of which servers inherit a part.
    process_env: Arc<ProcessEnv>,
    /// Connects to the host.
    dialer: HostDialer,
    /// What confines our own process, or why nothing is shared; read at the first use.
    own: OnceLock<Result<Confinement, Declined>>,
    /// Until when nothing is shared, because the host did not answer.
    paused_until: Mutex<Option<Instant>>,
}

impl SharedServers {
    /// Shares servers with other processes that have this environment.
    pub fn new(process_env: Arc<ProcessEnv>) -> Self {
        let dialer = HostDialer::new(&process_env);
        Self(Arc::new(SharedServersInner {
            process_env,
            dialer,
            own: OnceLock::new(),
            paused_until: Mutex::default(),
        }))
    }

    /// Attaches to the shared process of `server`, for 2 s and `limit` at most. Returns `None` if the server is not shared,
    /// or cannot be at the moment; the reason is in the log.
    pub async fn open(
        &self,
        server: &ServerConfig,
        stdio: &StdioConfig,
        max_message_bytes: usize,
        limit: Duration,
        log: &ServerLog,
    ) -> Option<OpenTransport<SharedTransport>> {
        let share = scope::of(server, stdio)?;
        if self.0.paused_until.lock().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let limit = limit.min(ATTACH_TIMEOUT);
        let attached = timeout(limit, self.attach(share, stdio, max_message_bytes)).await;
        let declined = match attached {
            Ok(Ok((pipes, pid))) => return Some(SharedTransport::open(pipes, pid, log.clone())),
            Ok(Err(declined)) => declined,
            Err(_) => {
                *self.0.paused_until.lock() = Some(Instant::now() + PAUSE);
                Declined::new(format!("the host did not answer within {} s", limit.as_secs_f32()))
            }
        };
        tracing::debug!(%declined, "the server gets a process of its own");
        None
    }

    async fn attach(
        &self,
        share: Share,
        stdio: &StdioConfig,
        max_message_bytes: usize,
    ) -> Result<(SessionPipes, u32), Declined> {
        let own = self.0.own.get_or_init(|| {
            if self.0.process_env.var("CI").is_some() {
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
        if self.0.process_env.var(ANCESTORS_VAR).is_some_and(is_below_shared) {
            // It might use the server that it is itself, which would never end then.
            return Err(Declined::new("this process was started by a shared server"));
        }
        if max_message_bytes > MAX_MESSAGE_BYTES {
            return Err(Declined::new("max_message_bytes is larger than a shared server allows"));
        }
        let mut launch = launch::prepare(stdio, &self.0.process_env)
            .await
            .map_err(|_| Declined::new("its command cannot be run"))?;
        scope::set_directory(share, stdio, &self.0.process_env, &mut launch);
        let request = AttachRequest {
            server: identity(launch, max_message_bytes)?,
            nofile: super::warden::raise_nofile(),
            instance: std::process::id(),
        };
        let (pipes, pid) = self.0.dialer.attach(&request, own).await?;
        tracing::debug!(pid, "attached to the shared process of the server");
        Ok((pipes, pid))
    }
}

/// Makes the identity of the server that `launch` starts.
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

/// A session with a shared server. Clones share it.
#[derive(Clone)]
pub struct SharedTransport(Arc<SharedSession>);

struct SharedSession {
    /// The pid of the server's process, for display.
    pid: u32,
    /// How the server's process ended, as the host told it.
    server_end: OnceLock<(String, String)>,
    /// Gets its last lines of stderr. The host has the others.
    log: ServerLog,
}

impl SharedTransport {
    /// The session ends when its input and its output are closed.
    fn open(pipes: SessionPipes, pid: u32, log: ServerLog) -> OpenTransport<Self> {
        let (output, writer) = Output::direct(PollableFd::Pipe(pipes.output));
        let handle = Self(Arc::new(SharedSession { pid, server_end: OnceLock::new(), log }));
        OpenTransport {
            input: Box::new(pipes.input),
            output,
            writer,
            handle,
            failures: RequestFailures::NONE,
        }
    }

    /// The pid of the server's process.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Takes a notification that the host, not the server, has sent. Returns false if it is not one.
    pub fn take_notification(&self, method: &str, params: Option<&Raw>) -> bool {
        if method != SERVER_ENDED {
            return false;
        }
        let text = |name| params.and_then(|params| raw::get_str(params, name)).unwrap_or_default();
        let stderr = text("stderr");
        stderr.lines().for_each(|line| self.0.log.push(line.to_owned()));
        drop(self.0.server_end.set((text("how"), stderr)));
        true
    }

    /// Returns how the session ended. To be called after the end of its input.
    pub fn connection_end(&self) -> ProcessEnd {
        let (how, stderr) = self.0.server_end.get().cloned().unwrap_or_else(|| {
            ("the process that shares it among your windows has ended".to_owned(), String::new())
        });
        ProcessEnd { how, stderr, withheld: Vec::new() }
    }
}
