//! Child processes that never outlive us: every upstream is started, signalled and reaped by the *warden*,
//! our own program run once more, which ends them all when the socket between us breaks, however we died.
//!
//! ```text
//! client ──▶ dynamic-mcp ──socket──▶ warden ──▶ upstream (own session) ──▶ …
//!               └──────────── stdin, stdout, stderr ──────┘
//! ```
//! This file is our side's handle. `link` is the task that owns the socket, `protocol` what is said on it.
//! The rest runs in the warden process: `process` (its loop), `estate` (what it makes of itself), `inbox`,
//! `birth` (fork and exec), `scan` (who descends from whom), `mark` (whose is it) and `strays` (what earlier
//! wardens left).

use parking_lot::Mutex;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::launch::Launch;
use crate::wire::pipe_size::grow;
use link::{Command, Link};
use protocol::{FRAME_LIMIT, Request};

mod ipc;
mod link;
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "marks are worn everywhere, read on Linux only")
)]
mod mark;
mod process;
mod protocol;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux says so much of a process"))]
mod scan;
mod setup;
mod spawn;
mod strays;

pub use process::run;

/// The first argument that makes our program the warden; `main` looks for it before anything else.
pub const MODE: &str = "__warden";

/// A spawn takes a millisecond; a warden that does not answer for this long is stopped or hangs in exec.
const REPLY: Duration = Duration::from_secs(5);
/// What a stop may take beyond its timetable before nobody waits for it any more. The warden itself gives
/// up 3 s after the first SIGKILL.
const STOP_SLACK: Duration = Duration::from_secs(4);
/// The same for our own end, which must not take longer than clients wait: the warden goes on without us.
const SHUTDOWN_SLACK: Duration = Duration::from_millis(400);

/// A running upstream and our ends of its pipes, which are non-blocking.
#[derive(Debug)]
pub struct Child {
    pub pid: u32,
    pub stdin: Sender,
    pub stdout: Receiver,
    pub stderr: Receiver,
    pub process: Process,
}

/// The life of an upstream. Dropped before `stop` is done, it is stopped all the same, by the fast timetable:
/// what an upstream leaves running never depends on a caller being careful.
#[derive(Debug)]
pub struct Process {
    id: u64,
    state: watch::Receiver<State>,
    /// Weak, so that the warden ends with its last handle.
    line: mpsc::WeakUnboundedSender<Command>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    exit: Option<Exit>,
    /// Nothing of it is left, or what is left withstood SIGKILL.
    gone: bool,
}

/// When a stop goes on to stronger means, counted from its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// SIGTERM.
    pub term: Duration,
    /// SIGKILL.
    pub kill: Duration,
}

impl Grace {
    /// For one upstream.
    pub const ORDINARY: Self = Self { term: Duration::from_secs(2), kill: Duration::from_secs(3) };
    /// For all at our own end: clients kill us 2 s after they closed our stdin.
    pub const FAST: Self = Self { term: Duration::from_millis(300), kill: Duration::from_secs(1) };
}

/// How an upstream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The warden was killed; the upstream was ended with it, and nobody saw how.
    Unknown,
}

impl Exit {
    fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => match Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {number}"),
            },
            Self::Unknown => f.write_str("ended together with the process that supervised it"),
        }
    }
}

/// What failed between fork and the upstream's first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Entering its working directory.
    Cwd,
    /// Running the program: fork and exec.
    Exec,
}

/// Why an upstream was not started. Fits after "failed to start it: ".
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot enter the working directory {}: {}", path.display(), errno.desc())]
    Cwd { path: PathBuf, errno: Errno },
    #[error("cannot run {}: {}", path.display(), errno.desc())]
    Exec { path: PathBuf, errno: Errno },
    #[error("cannot make pipes for it")]
    Pipe(#[source] io::Error),
    #[error("the supervising process did not answer within {} s", REPLY.as_secs())]
    Timeout,
    #[error("the supervising process cannot be used")]
    Warden(#[source] io::Error),
    #[error("dynamic-mcp is shutting down")]
    ShuttingDown,
}

/// Our handle of the warden, one a process (its upstreams' marks name the process). The warden process is
/// started by the first spawn, and again after it was killed; it ends, with every upstream, when the last
/// clone of this handle is dropped.
#[derive(Clone, Debug)]
pub struct Warden(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    program: PathBuf,
    args: Vec<OsString>,
    /// Never held across an await.
    current: Mutex<Current>,
}

/// The warden of the moment.
#[derive(Debug, Default)]
struct Current {
    /// To its link. Not bounded, because the callers are: each waits for its spawn's answer, and a process
    /// has two stops at most.
    line: Option<mpsc::UnboundedSender<Command>>,
    pid: Option<u32>,
    /// Upstreams are numbered through, over wardens: what has a smaller number than a warden's first was
    /// left behind by another.
    next: u64,
    shut_down: bool,
}

impl Default for Warden {
    fn default() -> Self {
        Self::new()
    }
}

impl Warden {
    /// A warden that runs our own program.
    pub fn new() -> Self {
        // On Linux this stays the file that we were started from, whatever an upgrade puts in its place.
        let running = PathBuf::from("/proc/self/exe");
        let program =
            if cfg!(target_os = "linux") { running } else { std::env::current_exe().unwrap_or(running) };
        Self::with_program(program, vec![MODE.into()])
    }

    /// A warden that runs `program` with `args`, for tests: their own program is another.
    pub fn with_program(program: PathBuf, args: Vec<OsString>) -> Self {
        Self(Arc::new(Shared { program, args, current: Mutex::default() }))
    }

    /// Starts an upstream.
    pub async fn spawn(&self, launch: Launch) -> Result<Child, SpawnError> {
        // The warden may have been killed without our knowing: what it started is dead then too, so that once
        // more is not twice.
        match self.try_spawn(&launch).await? {
            Some(child) => Ok(child),
            None => self
                .try_spawn(&launch)
                .await?
                .ok_or_else(|| SpawnError::Warden(io::Error::other("it died before it answered"))),
        }
    }

    /// `None`: the warden died before it answered.
    async fn try_spawn(&self, launch: &Launch) -> Result<Option<Child>, SpawnError> {
        let (line, id) = self.0.line()?;
        let frame = Request::Spawn { id, launch: Cow::Borrowed(launch) }.encode();
        if frame.len() > FRAME_LIMIT {
            // What exec would say. The warden would take it for nonsense and end everything.
            return Err(SpawnError::Exec { path: launch.program.clone(), errno: Errno::E2BIG });
        }
        let (stdin, child_stdin) = wide_pipe().map_err(SpawnError::Pipe)?;
        let (child_stdout, stdout) = wide_pipe().map_err(SpawnError::Pipe)?;
        // Not grown: what a user's pipes may take together is limited.
        let (child_stderr, stderr) = pipe::pipe().map_err(SpawnError::Pipe)?;
        let blocking = || {
            Ok([
                child_stdin.into_blocking_fd()?,
                child_stdout.into_blocking_fd()?,
                child_stderr.into_blocking_fd()?,
            ])
        };
        let stdio: [OwnedFd; 3] = blocking().map_err(SpawnError::Pipe)?;
        let (reply, answer) = oneshot::channel();
        if line.send(Command::Spawn { id, frame, stdio, reply }).is_err() {
            return Ok(None);
        }
        match timeout(REPLY, answer).await {
            Err(_) => Err(SpawnError::Timeout),
            Ok(Err(_)) => Ok(None),
            Ok(Ok(Ok((pid, process)))) => Ok(Some(Child { pid, stdin, stdout, stderr, process })),
            Ok(Ok(Err(refusal))) => Err(refusal.into_error(launch)),
        }
    }

    /// Ends every upstream and the warden; nothing can be spawned afterwards. The stdin of each upstream is
    /// its owner's to close, at the same time. Idempotent.
    pub async fn shutdown(&self, grace: Grace) {
        let line = {
            let mut current = self.0.current.lock();
            current.shut_down = true;
            current.line.clone()
        };
        let Some(line) = line else { return };
        line.send(Command::End { grace }).ok();
        timeout(grace.kill + SHUTDOWN_SLACK, line.closed()).await.ok();
    }

    /// The pid of the warden process, for diagnostics; `None` before the first spawn.
    pub fn pid(&self) -> Option<u32> {
        let current = self.0.current.lock();
        let (line, pid) = (current.line.as_ref()?, current.pid?);
        (!line.is_closed()).then_some(pid)
    }
}

impl Shared {
    /// The line to a warden that lives as far as is known, and the next upstream's id.
    fn line(self: &Arc<Self>) -> Result<(mpsc::UnboundedSender<Command>, u64), SpawnError> {
        let mut current = self.current.lock();
        if current.shut_down {
            return Err(SpawnError::ShuttingDown);
        }
        if current.line.as_ref().is_none_or(mpsc::UnboundedSender::is_closed) {
            self.start(&mut current, Vec::new()).map_err(SpawnError::Warden)?;
        }
        current.next += 1;
        let line = current.line.clone().ok_or(SpawnError::ShuttingDown)?;
        Ok((line, current.next - 1))
    }

    /// A warden was killed while it had upstreams: another one ends what outlived that, at once.
    fn replace(self: &Arc<Self>, left: Vec<u32>) {
        let mut current = self.current.lock();
        if !current.shut_down
            && let Err(error) = self.start(&mut current, left)
        {
            tracing::warn!(%error, "failed to start another warden");
        }
    }

    fn start(self: &Arc<Self>, current: &mut Current, left: Vec<u32>) -> io::Result<()> {
        let (line, commands) = mpsc::unbounded_channel();
        let (link, child) = Link::open(&self.program, &self.args, commands, line.downgrade())?;
        let hello = Request::Hello {
            version: protocol::VERSION,
            owner: std::process::id(),
            nofile: raise_nofile(),
            first: current.next,
            left,
        };
        current.line = Some(line);
        current.pid = child.id();
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            link.run(hello.encode(), child, |left| {
                if let Some(shared) = shared.upgrade() {
                    shared.replace(left);
                }
            })
            .await;
        });
        Ok(())
    }
}

impl Process {
    /// How it ended, once it has. May be dropped and asked again at any time.
    pub async fn exited(&self) -> Exit {
        match self.state.clone().wait_for(|state| state.exit.is_some()).await {
            Ok(state) => state.exit.unwrap_or(Exit::Unknown),
            Err(_) => Exit::Unknown,
        }
    }

    /// Ends it with all that it started: SIGTERM and SIGKILL come by `grace`, what ended by itself is not
    /// waited for. The caller closes its stdin first. Done when nothing is left, or when what is left
    /// withstood SIGKILL for 3 s.
    pub async fn stop(&self, grace: Grace) {
        let Some(line) = self.line.upgrade() else { return };
        if line.send(Command::Stop { id: self.id, grace }).is_err() {
            return;
        }
        let mut state = self.state.clone();
        timeout(grace.kill + STOP_SLACK, state.wait_for(|state| state.gone)).await.ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.state.borrow().gone
            && let Some(line) = self.line.upgrade()
        {
            // When the link is gone, so is the warden, and the upstream with it.
            line.send(Command::Stop { id: self.id, grace: Grace::FAST }).ok();
        }
    }
}

/// Raises our soft limit of open descriptors to the hard one, once: every upstream takes three. Returns the
/// original, which upstreams get.
pub fn raise_nofile() -> u64 {
    static ORIGINAL: OnceLock<u64> = OnceLock::new();
    *ORIGINAL.get_or_init(|| {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
        // macOS says "unlimited" and accepts no more than OPEN_MAX.
        let wanted = if cfg!(target_os = "macos") { hard.min(10_240) } else { hard };
        if let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
            tracing::debug!(%errno, "failed to raise the limit of open files");
        }
        soft
    })
}

/// A pipe that was grown, where that can be done.
fn wide_pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    grow(&sender);
    Ok((sender, receiver))
}
