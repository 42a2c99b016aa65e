//! Child processes that never outlive us.
//!
//! # Theory of operation
//!
//! Every upstream process is spawned, signalled and reaped by the *warden*: a second process that runs our own program.
//! A socket connects it to us. When the socket closes, however our process died, the warden ends every upstream and
//! exits.
//!
//! ```text
//! client ──▶ dynamic-mcp ──socket──▶ warden ──▶ upstream (own session) ──▶ …
//!               └──────────── stdin, stdout, stderr ──────┘
//! ```
//!
//! - In our process: [`Warden`] starts the warden process on the first spawn, and again after it was killed. `client`
//!   is the task that owns our end of the socket. `handle` is the handle of one upstream.
//! - `protocol` defines the messages on the socket.
//! - In the warden process: `supervisor` is its loop, `setup` prepares its descriptors and signals, `ipc` is its end of
//!   the socket, `spawn` starts an upstream, `descendants` finds and signals processes, `orphans` ends those that an
//!   earlier warden left behind. `owner_mark` and `rlimit_mark` tell whose a process is, `procfs` reads /proc.
//!
//! Invariants: only the warden process signals and reaps upstreams, because a pid that we remember may belong to
//! another process by now. We address an upstream by an id of our own, which is never reused. The warden process never
//! waits for us to read. docs/decisions/0003-the-warden.md has the reasons and the limits.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::launch::Launch;
use crate::wire::pipe_size::grow;
use client::WardenClient;
use handle::{ClientCommand, SpawnReplyError};
use protocol::{MAX_FRAME_BYTES, SpawnStep, WardenRequest};

mod client;
mod descendants;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handle;
mod ipc;
mod orphans;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "marks are set on every system and read on Linux only")
)]
mod owner_mark;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has all of these files"))]
mod procfs;
mod protocol;
#[cfg(target_os = "linux")]
mod rlimit_mark;
mod setup;
mod spawn;
mod supervisor;

/// Other systems have no such limit, nor a way to read that of another process.
#[cfg(not(target_os = "linux"))]
mod rlimit_mark {
    pub(super) fn encode(_owner_pid: i32, _id: u64) -> u64 {
        0
    }

    pub(super) fn read(_pid: i32) -> Option<(i32, u64)> {
        None
    }

    pub(super) fn set(_value: u64) {}
}

pub use handle::{Exit, ProcessHandle};
pub use protocol::StopTimeouts;
pub use supervisor::run;

/// The first argument that makes our program the warden process. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__warden";

/// A spawn takes a millisecond. A warden process that takes longer than this is stopped, or hangs in exec.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long our shutdown waits after its SIGKILL. Clients do not wait longer; the warden process continues without us.
const SHUTDOWN_SLACK: Duration = Duration::from_millis(400);

/// A running upstream and our ends of its pipes, which are non-blocking.
#[derive(Debug)]
pub struct SpawnedProcess {
    /// The pid, for logs.
    pub pid: u32,
    /// Writes to its stdin.
    pub stdin: Sender,
    /// Reads its stdout.
    pub stdout: Receiver,
    /// Reads its stderr.
    pub stderr: Receiver,
    /// Owns the process: it is stopped when this is dropped.
    pub handle: ProcessHandle,
}

/// Why an upstream was not spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The upstream's working directory cannot be entered.
    #[error("cannot enter the working directory {}: {}", path.display(), errno.desc())]
    Chdir {
        /// The directory.
        path: PathBuf,
        /// Why chdir(2) failed.
        errno: Errno,
    },
    /// The upstream's program cannot be executed.
    #[error("cannot run {}: {}", path.display(), errno.desc())]
    Exec {
        /// The program.
        path: PathBuf,
        /// Why fork(2) or execve(2) failed.
        errno: Errno,
    },
    /// We have too many open files, for example.
    #[error("cannot create the pipes to the process")]
    Pipe(#[source] io::Error),
    /// The warden process hangs or is stopped.
    #[error(
        "the warden process, which starts all servers, did not answer within {} s",
        REPLY_TIMEOUT.as_secs()
    )]
    Timeout,
    /// The warden process cannot be started, or died.
    #[error("the warden process, which starts all servers, does not work")]
    Warden(#[source] io::Error),
    /// [`Warden::shutdown`] was called.
    #[error("dynamic-mcp is shutting down")]
    ShuttingDown,
}

impl SpawnError {
    fn from_reply(error: SpawnReplyError, launch: &Launch) -> Self {
        match error {
            SpawnReplyError::Failed(SpawnStep::Chdir, errno) => {
                Self::Chdir { path: launch.cwd.clone(), errno }
            }
            SpawnReplyError::Failed(SpawnStep::Exec, errno) => {
                Self::Exec { path: launch.program.clone(), errno }
            }
            SpawnReplyError::VersionMismatch => Self::Warden(io::Error::other(
                "its executable was replaced by another version of dynamic-mcp; restart dynamic-mcp",
            )),
        }
    }
}

/// Starts upstream processes and ends them with us. Clones share one warden process.
///
/// A process must have only one of these, because the owner marks of its upstreams name nothing but the process. The
/// warden process is started by the first spawn, and again after it was killed. It ends, with every upstream, when the
/// last clone is dropped.
#[derive(Clone, Debug)]
pub struct Warden(Arc<WardenInner>);

#[derive(Debug)]
struct WardenInner {
    /// The executable of the warden process.
    program: PathBuf,
    /// Its arguments.
    args: Vec<OsString>,
    state: Mutex<WardenState>,
}

/// The current warden process.
#[derive(Debug, Default)]
struct WardenState {
    /// To its client task; `None` before the first spawn. Unbounded, because its senders are bounded: each waits for
    /// the result of its spawn, and a process has at most two stops.
    commands: Option<mpsc::UnboundedSender<ClientCommand>>,
    /// The pid of the warden process.
    pid: Option<u32>,
    /// The id of the next upstream. Ids continue over warden processes: an upstream with a smaller id than the first of
    /// a warden process was left behind by an earlier one.
    next_id: u64,
    /// Whether [`Warden::shutdown`] was called.
    is_shut_down: bool,
}

impl Default for Warden {
    fn default() -> Self {
        Self::new()
    }
}

impl Warden {
    /// Uses our own program.
    pub fn new() -> Self {
        // On Linux this stays the file that we were started from, whatever an upgrade puts in its place.
        let own_exe = PathBuf::from("/proc/self/exe");
        let program =
            if cfg!(target_os = "linux") { own_exe } else { std::env::current_exe().unwrap_or(own_exe) };
        Self::with_program(program, vec![MODE_ARG.into()])
    }

    /// Uses `program` with `args`. For tests, which are another program than ours.
    pub fn with_program(program: PathBuf, args: Vec<OsString>) -> Self {
        Self(Arc::new(WardenInner { program, args, state: Mutex::default() }))
    }

    /// Starts an upstream.
    pub async fn spawn(&self, launch: Launch) -> Result<SpawnedProcess, SpawnError> {
        // The warden process may have been killed before we noticed. Whatever it spawned was killed with it, so a
        // second attempt does not start the upstream twice.
        for _ in 0..2 {
            if let Some(process) = self.try_spawn(&launch).await? {
                return Ok(process);
            }
        }
        Err(SpawnError::Warden(io::Error::other("it exited before it answered")))
    }

    /// Returns `None` if the warden process died before it answered.
    async fn try_spawn(&self, launch: &Launch) -> Result<Option<SpawnedProcess>, SpawnError> {
        let (commands, id) = self.0.commands_and_next_id()?;
        let frame = WardenRequest::Spawn { id, launch: Cow::Borrowed(launch) }.encode();
        if frame.len() > MAX_FRAME_BYTES {
            // The error that execve(2) would return. The warden process must not see this frame: it takes it for
            // malformed and ends every upstream.
            return Err(SpawnError::Exec { path: launch.program.clone(), errno: Errno::E2BIG });
        }
        let (stdin, child_stdin) = large_pipe().map_err(SpawnError::Pipe)?;
        let (child_stdout, stdout) = large_pipe().map_err(SpawnError::Pipe)?;
        // Not grown, because the total size of a user's pipes is limited.
        let (child_stderr, stderr) = pipe::pipe().map_err(SpawnError::Pipe)?;
        let blocking = || {
            Ok([
                child_stdin.into_blocking_fd()?,
                child_stdout.into_blocking_fd()?,
                child_stderr.into_blocking_fd()?,
            ])
        };
        let stdio: [OwnedFd; 3] = blocking().map_err(SpawnError::Pipe)?;
        let (reply, result) = oneshot::channel();
        if commands.send(ClientCommand::Spawn { id, frame, stdio, reply }).is_err() {
            return Ok(None);
        }
        match timeout(REPLY_TIMEOUT, result).await {
            Err(_) => Err(SpawnError::Timeout),
            Ok(Err(_)) => Ok(None),
            Ok(Ok(Ok((pid, handle)))) => Ok(Some(SpawnedProcess { pid, stdin, stdout, stderr, handle })),
            Ok(Ok(Err(error))) => Err(SpawnError::from_reply(error, launch)),
        }
    }

    /// Ends every upstream and the warden process. Every later spawn fails. Idempotent.
    ///
    /// The owner of each upstream closes its stdin at the same time.
    pub async fn shutdown(&self, timeouts: StopTimeouts) {
        let commands = {
            let mut state = self.0.state.lock();
            state.is_shut_down = true;
            state.commands.clone()
        };
        let Some(commands) = commands else { return };
        commands.send(ClientCommand::Shutdown { timeouts }).ok();
        timeout(timeouts.sigkill_after + SHUTDOWN_SLACK, commands.closed()).await.ok();
    }

    /// Returns the pid of the warden process, for diagnostics; `None` if none runs.
    pub fn pid(&self) -> Option<u32> {
        let state = self.0.state.lock();
        let (commands, pid) = (state.commands.as_ref()?, state.pid?);
        (!commands.is_closed()).then_some(pid)
    }
}

impl WardenInner {
    /// Returns the commands of a warden process that lives as far as is known, and the id of the next upstream.
    fn commands_and_next_id(
        self: &Arc<Self>,
    ) -> Result<(mpsc::UnboundedSender<ClientCommand>, u64), SpawnError> {
        let mut state = self.state.lock();
        if state.is_shut_down {
            return Err(SpawnError::ShuttingDown);
        }
        let commands = match &state.commands {
            Some(commands) if !commands.is_closed() => commands.clone(),
            _ => self.start(&mut state, Vec::new()).map_err(SpawnError::Warden)?,
        };
        state.next_id += 1;
        Ok((commands, state.next_id - 1))
    }

    /// Starts another warden process at once, which ends the upstreams that survived the death of the last one.
    fn restart(self: &Arc<Self>, orphaned_pids: Vec<u32>) {
        let mut state = self.state.lock();
        if !state.is_shut_down
            && let Err(error) = self.start(&mut state, orphaned_pids)
        {
            tracing::warn!(%error, "failed to restart the warden process");
        }
    }

    /// Starts a warden process and its client task.
    fn start(
        self: &Arc<Self>,
        state: &mut WardenState,
        orphaned_pids: Vec<u32>,
    ) -> io::Result<mpsc::UnboundedSender<ClientCommand>> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (client, child) = WardenClient::start(&self.program, &self.args, receiver, commands.downgrade())?;
        let hello = WardenRequest::Hello {
            version: protocol::VERSION,
            owner_pid: std::process::id(),
            nofile: raise_nofile(),
            first_id: state.next_id,
            orphaned_pids,
        };
        state.commands = Some(commands.clone());
        state.pid = child.id();
        let inner = Arc::downgrade(self);
        tokio::spawn(async move {
            client
                .run(hello.encode(), child, |orphaned_pids| {
                    if let Some(inner) = inner.upgrade() {
                        inner.restart(orphaned_pids);
                    }
                })
                .await;
        });
        Ok(commands)
    }
}

/// Raises our soft RLIMIT_NOFILE to the hard one, because every upstream takes three descriptors.
///
/// Returns the original soft limit, which upstreams get. Only the first call has an effect.
pub fn raise_nofile() -> u64 {
    static ORIGINAL: OnceLock<u64> = OnceLock::new();
    *ORIGINAL.get_or_init(|| {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
        // macOS reports "unlimited" and accepts no more than OPEN_MAX.
        let wanted = if cfg!(target_os = "macos") { hard.min(10_240) } else { hard };
        if let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
            tracing::debug!(%errno, "failed to raise the limit of open files");
        }
        soft
    })
}

/// Creates a pipe with a larger buffer, where the system allows it.
fn large_pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    grow(&sender);
    Ok((sender, receiver))
}
