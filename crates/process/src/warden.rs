//! Child processes that never outlive us.
//!
//! # Theory of operation
//!
//! Every upstream process is spawned, signalled and reaped by the *warden*: a second process that runs our own program.
//! A socket connects it to us. When the socket closes, however our process died, the warden ends every upstream and
//! exits. It gives each the same time to save as any stop does ([`StopTimeouts::ORDINARY`]), and reads its output
//! meanwhile. We do not wait for that, but a new process of the same server does ([`Warden::predecessor_ended`]).
//!
//! ```text
//! client ──▶ dynamic-mcp ──socket──▶ warden ──▶ upstream (own session) ──▶ …
//!               └──────────── stdin, stdout, stderr ──────┘
//! ```
//!
//! - In our process: [`Warden`] starts the warden process on the first spawn, and again after it was killed. `pool` has
//!   the warden processes, two of them only if one was silent. `client` is the task that owns our end of a socket.
//!   `handle` is the handle of one upstream, `upstream_pipes` makes its pipes. `shutdown` ends everything.
//! - `protocol` defines the messages on the socket.
//! - In the warden process: `supervisor` is its loop, `setup` prepares its descriptors and signals, `ipc` is its end of
//!   the socket, `waiting` waits, `spawn` starts an upstream, `supervised` is one, `descendants` finds and signals
//!   processes, `orphans` ends processes that an earlier warden left behind, `stopped_wardens` ends warden processes
//!   that cannot end by themselves. `owner_mark` and `rlimit_mark` tell whose a process is.
//!
//! Invariants: only the warden process signals and reaps upstreams, because a pid that we remember may belong to
//! another process by now. We address an upstream by an id of our own, which is never reused. The warden process never
//! waits for us to read, nor for an upstream to be executed. docs/decisions/0003-the-warden.md has the reasons and the limits.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::ending_servers::EndingServers;
use super::launch::Launch;
use super::own_program::own_program;
use super::server_id::ServerId;
pub use super::stop_timeouts::{StopTimeouts, exit_wait};
use client::WardenClient;
use handle::ClientCommand;
use pool::{BothSilent, MAX_COMMANDS, WardenPool};
use protocol::{MAX_FRAME_BYTES, WardenRequest, encode};
use upstream_pipes::open_pipes;

mod client;
mod descendants;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/warden.rs"]
pub mod fuzz;
mod handle;
mod ipc;
mod orphans;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "marks are set on every system and read on Linux only")
)]
mod owner_mark;
mod pool;
mod protocol;
mod rlimit_mark;
mod setup;
mod shutdown;
mod spawn;
mod spawn_error;
mod stopped_wardens;
mod supervised;
mod supervisor;
mod upstream_pipes;
mod waiting;

pub use super::process_state::Exit;
pub use handle::ProcessHandle;
pub use spawn_error::SpawnError;
pub use supervisor::run;

/// The first argument that makes our program the warden process. `main` checks for it before anything else.
pub const MODE_ARG: &str = "__warden";

/// A warden process begins a spawn within a millisecond. One that takes longer than this is stopped or stuck. An exec
/// that takes longer hangs on a file system.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the start of a server waits for the end of its last process. SIGKILL comes earlier.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(5);
const PREDECESSOR_POLL_INTERVAL: Duration = Duration::from_millis(10);

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

/// Starts upstream processes and ends them with us. Clones share one warden process.
///
/// A process must have only one of these, because the owner marks of its upstreams name nothing but the process. The
/// warden process is started by `start` or the first spawn, and again after it was killed. It ends, with every
/// upstream, when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Warden(Arc<WardenInner>);

#[derive(Debug)]
struct WardenInner {
    /// The executable of the warden process.
    program: PathBuf,
    /// Its arguments.
    args: Vec<OsString>,
    /// How long a warden process may be silent, and an exec may take.
    reply_timeout: Duration,
    /// Which servers are being ended; `None` if that is not known.
    ending: Option<EndingServers>,
    pool: Mutex<WardenPool>,
}

impl Default for Warden {
    /// Uses our own program. No server waits for its predecessor.
    fn default() -> Self {
        Self::with_program(own_program(), vec![MODE_ARG.into()])
    }
}

impl Warden {
    /// Uses our own program. Servers wait for predecessors that `ending` knows.
    pub fn with_ending_servers(ending: EndingServers) -> Self {
        Self::of(own_program(), vec![MODE_ARG.into()], REPLY_TIMEOUT, Some(ending))
    }

    /// Uses `program` with `args`. For tests, which are another program than ours.
    pub fn with_program(program: PathBuf, args: Vec<OsString>) -> Self {
        Self::of(program, args, REPLY_TIMEOUT, None)
    }

    /// Creates a warden whose processes may be silent for `reply_timeout`. An exec may take as long.
    pub fn of(
        program: PathBuf,
        args: Vec<OsString>,
        reply_timeout: Duration,
        ending: Option<EndingServers>,
    ) -> Self {
        Self(Arc::new(WardenInner { program, args, reply_timeout, ending, pool: Mutex::default() }))
    }

    /// Starts the warden process before the first spawn does, unless one runs. Returns its pid, or `None` if it cannot
    /// be started. To be called in a Tokio runtime.
    pub fn start(&self) -> Option<u32> {
        self.0.commands_and_next_id().ok()?;
        self.pid()
    }

    /// Starts an upstream. Returns when its program is executed. The warden process may take 5 s to begin, and the exec
    /// 5 s more. If the warden process has died or does not begin, another one is asked, once. If this is cancelled,
    /// the upstream is stopped.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`].
    pub async fn spawn(&self, launch: Launch) -> Result<SpawnedProcess, SpawnError> {
        self.spawn_server(launch, None).await
    }

    /// Waits while any process of the user ends an earlier process of the same server: it may hold a port or a file that
    /// the next one needs. Waits for `PREDECESSOR_TIMEOUT` at most.
    pub async fn predecessor_ended(&self, server: ServerId) {
        let Some(ending) = self.0.ending.as_ref().filter(|ending| ending.is_ending(server)) else { return };
        tracing::info!("waiting for the end of the server's last process");
        // It first continues wardens that are stopped and whose instance was killed.
        self.start();
        let ended = async {
            while ending.is_ending(server) {
                sleep(PREDECESSOR_POLL_INTERVAL).await;
            }
        };
        timeout(PREDECESSOR_TIMEOUT, ended).await.ok();
    }

    /// Starts an upstream as [`spawn`](Self::spawn) does. While it is being ended, the next process of `server` waits.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`].
    pub async fn spawn_server(
        &self,
        launch: Launch,
        server: Option<ServerId>,
    ) -> Result<SpawnedProcess, SpawnError> {
        // The warden process may have been killed before we noticed. Every process that it spawned was killed with it,
        // so a second attempt does not start the upstream twice. Or it was silent: if it ever begins this spawn, the
        // client task stops the upstream.
        match self.try_spawn(&launch, server).await {
            Err(failed) if failed.may_retry => {}
            spawned => return spawned.map_err(|failed| failed.error),
        }
        self.try_spawn(&launch, server).await.map_err(|failed| failed.error)
    }

    async fn try_spawn(
        &self,
        launch: &Launch,
        server: Option<ServerId>,
    ) -> Result<SpawnedProcess, SpawnAttemptError> {
        let reply_timeout = self.0.reply_timeout;
        let (commands, id) = self.0.commands_and_next_id()?;
        let frame = encode(&WardenRequest::Spawn { id, server, launch: Cow::Borrowed(launch) });
        if frame.len() > MAX_FRAME_BYTES {
            // The error that execve(2) would return. The warden process must not see this frame: it takes it for
            // malformed and ends every upstream.
            return Err(SpawnError::Exec { path: launch.program.clone(), errno: Errno::E2BIG }.into());
        }
        let (ours, descriptors) = open_pipes().map_err(SpawnError::Pipe)?;
        let (forked, begun) = oneshot::channel();
        let (reply, result) = oneshot::channel();
        let died = || SpawnAttemptError { error: SpawnError::warden_died(), may_retry: true };
        let silent = |_| {
            let may_retry = self.0.retire(&commands).is_ok();
            SpawnAttemptError { error: SpawnError::Timeout(reply_timeout), may_retry }
        };
        timeout(reply_timeout, pool::room_for_spawn(&commands)).await.map_err(silent)?;
        let spawn = ClientCommand::Spawn { id, frame, descriptors, forked, reply };
        commands.try_send(spawn).map_err(|_| died())?;
        // It is dropped if there is a result without a fork, or if the warden process is gone.
        drop(timeout(reply_timeout, begun).await.map_err(silent)?);
        match timeout(reply_timeout, result).await {
            Err(_) => {
                commands.try_send(ClientCommand::Stop { id, timeouts: StopTimeouts::FAST }).ok();
                let Launch { program, cwd, .. } = launch.clone();
                Err(SpawnError::Hung { program, cwd, after: reply_timeout }.into())
            }
            Ok(Err(_)) => Err(died()),
            Ok(Ok(Ok((pid, handle)))) => {
                let (stdin, stdout, stderr) = ours;
                Ok(SpawnedProcess { pid, stdin, stdout, stderr, handle })
            }
            Ok(Ok(Err(error))) => Err(SpawnError::from_reply(error, launch).into()),
        }
    }

    /// Returns the pid of the warden process that was started last, for diagnostics; `None` if none runs.
    pub fn pid(&self) -> Option<u32> {
        self.pids().last().copied()
    }

    /// Returns the pids of all warden processes, oldest first.
    pub fn pids(&self) -> Vec<u32> {
        self.0.pool.lock().pids()
    }
}

/// Why one attempt to spawn failed.
struct SpawnAttemptError {
    error: SpawnError,
    /// Whether another attempt, which uses another warden process, may succeed.
    may_retry: bool,
}

impl From<SpawnError> for SpawnAttemptError {
    fn from(error: SpawnError) -> Self {
        Self { error, may_retry: false }
    }
}

impl WardenInner {
    /// Returns the command channel of a warden process that is not known to have failed, and the id of the next
    /// upstream. Starts a warden process if there is none. Fails with `ShuttingDown` after a shutdown, and with
    /// `Warden` if the warden process cannot be started.
    fn commands_and_next_id(self: &Arc<Self>) -> Result<(mpsc::Sender<ClientCommand>, u64), SpawnError> {
        let mut pool = self.pool.lock();
        if pool.is_shut_down {
            return Err(SpawnError::ShuttingDown);
        }
        let commands = match pool.current() {
            Some(commands) => commands,
            None => self.start(&mut pool, Vec::new()).map_err(SpawnError::Warden)?,
        };
        Ok((commands, pool.take_id()))
    }

    /// Retires a silent warden process, so that the next spawn starts another one. Does nothing if it is retired or
    /// ended already. Fails if it is the current one and another one is retired.
    fn retire(&self, silent: &mpsc::Sender<ClientCommand>) -> Result<(), BothSilent> {
        if let Some(pid) = self.pool.lock().retire(silent)? {
            let after = self.reply_timeout;
            tracing::warn!(
                pid,
                "the warden process was silent for {after:?}; another one starts new servers"
            );
        }
        Ok(())
    }

    /// Ends the upstreams that survived the death of a warden process. If it was the current one, another one is
    /// started for that at once.
    fn end_orphans(self: &Arc<Self>, orphaned_pids: Vec<u32>) {
        let mut pool = self.pool.lock();
        if pool.is_shut_down {
            return;
        }
        if let Some(commands) = pool.current() {
            let lost = pool.lost(orphaned_pids);
            commands.try_send(ClientCommand::EndOrphans(lost)).ok();
        } else if let Err(error) = self.start(&mut pool, orphaned_pids) {
            tracing::warn!(%error, "failed to restart the warden process");
        }
    }

    /// Starts a warden process and its client task, and adds it to the pool. Its first work is to end what lost warden
    /// processes left behind, such as `orphaned_pids`. Fails if the process or its socket cannot be made.
    fn start(
        self: &Arc<Self>,
        pool: &mut WardenPool,
        orphaned_pids: Vec<u32>,
    ) -> io::Result<mpsc::Sender<ClientCommand>> {
        let ending_file = self.ending.as_ref().map(|ending| ending.0.as_fd().try_clone_to_owned());
        let ending_file = ending_file.transpose()?;
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let (client, child) = WardenClient::start(&self.program, &self.args, receiver, commands.downgrade())?;
        let hello = WardenRequest::Hello {
            version: protocol::VERSION,
            owner_pid: std::process::id(),
            nofile: raise_nofile(),
            retired_warden: pool.retired_pid(),
            has_ending_file: self.ending.is_some(),
        };
        let end_orphans = WardenRequest::EndOrphans(pool.lost(orphaned_pids));
        pool.add(commands.clone(), child.id());
        let inner = Arc::downgrade(self);
        tokio::spawn(async move {
            client
                .run(([encode(&hello), encode(&end_orphans)].concat(), ending_file), child, |orphaned_pids| {
                    if let Some(inner) = inner.upgrade() {
                        inner.end_orphans(orphaned_pids);
                    }
                })
                .await;
        });
        Ok(commands)
    }
}

/// Raises our soft RLIMIT_NOFILE to the hard one, because every upstream takes three descriptors. A limit that cannot
/// be raised stays.
///
/// Returns the original soft limit, which upstreams get. Only the first call has an effect; all return the same.
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

/// Returns how many files we may have open; `None` without a limit.
pub fn nofile_limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}
