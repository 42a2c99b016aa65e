//! A transport to an upstream that is a child process: its stdin, stdout and stderr.

use super::launch::direct::{LauncherUse, StartRecord};
use super::launch::{self, Launch};
use super::server_log::ServerLog;
use super::stderr::StderrTail;
use super::warden::{Exit, ProcessHandle, SpawnError, SpawnedProcess, StopTimeouts, Warden};
use base::{blocking, procfs};
use config::env::Env;
use config::{GroupName, StdioConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::time::{sleep, timeout};
use tracing::Instrument;
use wire::output::{Output, PollableFd, Writer};

/// How long the last output of a process may come after its exit, or its exit after the end of its output.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// How long a process that is exiting may take to exit, and the warden to report that, on a busy system.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines of stderr that an error message shows.
pub const STDERR_TAIL_LINES: usize = 20;

/// The child process of a transport. Clones share it; the process is ended when the last one is dropped.
#[derive(Clone)]
pub struct ChildTransport(Arc<ChildInner>);

struct ChildInner {
    /// The process.
    process: ProcessHandle,
    /// Its pid, for display.
    pid: u32,
    /// The last lines of its stderr.
    stderr: StderrTail,
    /// Reads stderr.
    stderr_task: tokio::task::JoinHandle<()>,
    /// For the variables that the process did not inherit, together with `group` and `stdio`.
    process_env: Arc<Env>,
    group: GroupName,
    stdio: StdioConfig,
    /// How it was started, if its launcher may be left out.
    start: Option<StartRecord>,
}

impl Drop for ChildInner {
    fn drop(&mut self) {
        self.stderr_task.abort();
    }
}

/// A child process that runs, and the lines from it and to it.
pub struct RunningChild {
    /// The lines that it writes to its stdout.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// Accepts the lines for its stdin.
    pub output: Output,
    /// Writes the lines that `output` accepted. It has to be run.
    pub writer: Writer,
    /// Watches the process and ends it.
    pub handle: ChildTransport,
}

/// How a process ended, or a connection to it.
#[derive(Debug)]
pub struct ProcessEnd {
    /// A fragment such as "its process exited with code 3".
    pub how: String,
    /// The last lines of its stderr.
    pub stderr: String,
    /// Variables of ours that the process did not inherit and may have wanted.
    pub withheld: Vec<String>,
}

impl ChildTransport {
    /// Spawns `launch`, which starts the server of `stdio`, and begins to keep its stderr, also in `log`. `start` says
    /// how `launch` was chosen. If a direct start fails, it is forgotten, and the server is started through its
    /// launcher.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]. After two starts it is the error of the second one.
    pub async fn open(
        warden: &Warden,
        process_env: &Arc<Env>,
        group: &GroupName,
        stdio: &StdioConfig,
        (launch, mut start): (Launch, Option<StartRecord>),
        log: &ServerLog,
    ) -> Result<RunningChild, SpawnError> {
        let spawned = spawn(warden, launch, &mut start).await?;
        tracing::debug!(pid = spawned.pid, "process started");
        let stderr = StderrTail::default();
        let stderr_task = tokio::spawn(stderr.clone().follow(spawned.stderr, log.clone()).in_current_span());
        let (output, writer) = Output::direct(PollableFd::Pipe(spawned.stdin));
        let inner = ChildInner {
            process: spawned.handle,
            pid: spawned.pid,
            stderr,
            stderr_task,
            process_env: process_env.clone(),
            group: group.clone(),
            stdio: stdio.clone(),
            start,
        };
        Ok(RunningChild { input: Box::new(spawned.stdout), output, writer, handle: Self(Arc::new(inner)) })
    }

    /// Returns the pid of the process.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Learns from the launcher what it has started, for the next start, and returns what came of it. Takes 2 s at
    /// most. `None` if the launcher is not to be left out. To be called once the server has answered.
    pub async fn learn_start(&self) -> Option<LauncherUse> {
        Some(self.0.start.as_ref()?.learn(self.0.pid).await)
    }

    /// Forgets how to start the server without its launcher, if it was started so. Returns whether it was. Takes 2 s at
    /// most.
    pub async fn forget_direct_start(&self) -> bool {
        let Some(start) = self.0.start.as_ref().filter(|start| start.is_direct) else { return false };
        start.forget().await;
        true
    }

    /// Returns the last [`STDERR_TAIL_LINES`] lines that the process wrote to stderr, oldest first.
    pub fn stderr_tail(&self) -> String {
        self.0.stderr.last_lines(STDERR_TAIL_LINES)
    }

    /// Waits until the process has exited, however long that takes, and then 100 ms for its output to be read.
    pub async fn drained(&self) {
        drained(&self.0.process).await;
    }

    /// Returns how the process ended, or that only the connection did, see [`end_of_output`]. To be called after the end
    /// of its stdout.
    pub async fn connection_end(&self) -> ProcessEnd {
        let ChildInner { process, pid, process_env, group, stdio, .. } = &*self.0;
        let (exit, how) = end_of_output(*pid, process).await;
        let stderr = self.stderr_tail();
        let withheld = match exit {
            Some(Exit::Code(0)) => Vec::new(),
            _ => launch::withheld_vars(process_env, group.as_str(), stdio, &stderr),
        };
        ProcessEnd { how, stderr, withheld }
    }

    /// Ends the process and every process that it started, and waits for that as [`ProcessHandle::stop`] does. The
    /// caller closes its stdin first.
    pub async fn stop(&self, timeouts: StopTimeouts) {
        self.0.process.stop(timeouts).await;
    }
}

/// Waits until a process has exited, however long that takes, and then 100 ms for its output to be read.
pub async fn drained(process: &ProcessHandle) {
    process.exited().await;
    sleep(DRAIN_TIMEOUT).await;
}

/// Returns how a process ended whose output has ended, and what to say about it. `None` if it goes on without its output:
/// after 100 ms it is not exiting, or 2 s later it has not exited.
pub async fn end_of_output(pid: u32, process: &ProcessHandle) -> (Option<Exit>, String) {
    let mut exit = timeout(DRAIN_TIMEOUT, process.exited()).await.ok();
    if exit.is_none() && is_exiting(pid).await {
        exit = timeout(EXIT_TIMEOUT, process.exited()).await.ok();
    }
    let how = match exit {
        Some(exit) => format!("its process {exit}"),
        None => "it closed its stdout".to_owned(),
    };
    (exit, how)
}

/// Returns whether a process is exiting or has exited, as far as the system tells without its parent.
async fn is_exiting(pid: u32) -> bool {
    // If another process has got the pid by now, the answer only makes the message less exact.
    blocking::run(EXIT_TIMEOUT, move || procfs::is_exiting(pid.cast_signed())).await.unwrap_or(false)
}

/// Spawns a process. If a direct start fails, forgets it and spawns what the config says.
///
/// # Errors
///
/// As that of the last attempt, see [`SpawnError`].
async fn spawn(
    warden: &Warden,
    launch: Launch,
    start: &mut Option<StartRecord>,
) -> Result<SpawnedProcess, SpawnError> {
    // With and without its launcher, it is the same server.
    let server =
        start.as_ref().map_or_else(|| launch.server_id(), |start| start.configured_launch().server_id());
    let spawned = warden.spawn_server(launch, Some(server)).await;
    let Some(start) = start.as_mut().filter(|start| start.is_direct && spawned.is_err()) else {
        return spawned;
    };
    start.forget().await;
    start.is_direct = false;
    warden.spawn_server(start.configured_launch(), Some(server)).await
}
