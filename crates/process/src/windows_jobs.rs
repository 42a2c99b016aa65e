//! Child processes that never outlive us, on Windows. Other systems have the warden for that.
//!
//! # Theory of operation
//!
//! Every upstream is started as a member of a *Job Object* of its own, and so is every process that it starts. We hold
//! the only handle of the job, and the job ends its processes when its last handle is closed. So the system ends the
//! upstreams however our process ends, and no second process of ours is needed.
//!
//! - [`Jobs`] starts upstreams. Each has a task, [`JobSupervisor`], which owns its job, notices its exit and ends it.
//! - `sys` has the system calls, `pipes` the three pipes of an upstream.
//! - `limited` starts a process beside the upstreams, in a job that limits what it takes.
//!
//! A process is a member of its job from its creation (`PROC_THREAD_ATTRIBUTE_JOB_LIST`), so there is no moment at
//! which it runs outside, or at which it would be left behind suspended if we were killed. The job allows no breakaway.
//! If we are in a job ourselves, the new one is nested in it. It does not hold what other processes start for an
//! upstream: services, scheduled tasks, WMI, and containers.
//!
//! There is no SIGTERM: a stop waits until the processes have ended because their stdin is closed, and then terminates
//! the job.

use super::launch::Launch;
use super::process_state::{Exit, ProcessState};
use super::server_id::ServerId;
use super::stop_timeouts::StopTimeouts;
use parking_lot::Mutex;
use pipes::StdioPipes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use sys::{JobObject, StartedProcess};
use tokio::net::windows::named_pipe::NamedPipeServer;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

pub mod limited;
mod pipes;
mod sys;

/// How long the processes of a job may take to end after they were terminated.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long callers wait beyond what a stop may take.
const SLACK: Duration = Duration::from_millis(400);
/// How many stops of one upstream may wait. Each of them says the same, or has less time.
const MAX_STOPS: usize = 8;
/// The interval at which a stop looks whether a job has processes. A job cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running upstream and our ends of its pipes.
#[derive(Debug)]
pub struct JobProcess {
    /// The pid, for logs.
    pub pid: u32,
    /// Writes to its stdin.
    pub stdin: NamedPipeServer,
    /// Reads its stdout.
    pub stdout: NamedPipeServer,
    /// Reads its stderr.
    pub stderr: NamedPipeServer,
    /// Owns the process: it is stopped when this is dropped.
    pub handle: JobHandle,
}

/// Starts upstream processes and ends them with us. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Jobs(Arc<Mutex<RunningJobs>>);

#[derive(Debug, Default)]
struct RunningJobs {
    /// The upstreams that run, and some that have ended.
    jobs: Vec<(mpsc::WeakSender<StopTimeouts>, watch::Receiver<ProcessState>)>,
    is_shut_down: bool,
}

/// Why an upstream was not started.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The program cannot be executed, or the working directory cannot be used.
    #[error("cannot run {}: {error}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why CreateProcessW failed.
        error: io::Error,
    },
    /// The pipes cannot be created.
    #[error("cannot create the pipes to the process")]
    Pipe(#[source] io::Error),
    /// The job cannot be created.
    #[error("cannot create the Job Object that the process belongs to")]
    Job(#[source] io::Error),
    /// [`Jobs::shutdown`] was called.
    #[error("dynamic-mcp is shutting down")]
    ShuttingDown,
}

impl Jobs {
    /// Starts an upstream.
    ///
    /// # Errors
    ///
    /// See [`JobError`].
    pub async fn spawn(&self, launch: Launch) -> Result<JobProcess, JobError> {
        self.spawn_server(launch, None).await
    }

    /// Returns at once: the processes of an instance end with it.
    pub async fn predecessor_ended(&self, _: ServerId) {}

    /// Starts an upstream as [`spawn`](Self::spawn) does.
    ///
    /// # Errors
    ///
    /// See [`JobError`].
    pub async fn spawn_server(&self, launch: Launch, _: Option<ServerId>) -> Result<JobProcess, JobError> {
        if self.0.lock().is_shut_down {
            return Err(JobError::ShuttingDown);
        }
        let StdioPipes { stdin, stdout, stderr, of_child } = pipes::open().await.map_err(JobError::Pipe)?;
        let job = JobObject::new().map_err(JobError::Job)?;
        let process = sys::start(&job, &launch, &of_child)
            .map_err(|error| JobError::Start { path: launch.program.clone(), error })?;
        drop(of_child);
        let pid = process.pid();
        let (stop, stops) = mpsc::channel(MAX_STOPS);
        let (state, states) = watch::channel(ProcessState::default());
        tokio::spawn(JobSupervisor { job, process, state, stops }.run());
        let mut running = self.0.lock();
        running.jobs.retain(|(_, state)| !state.borrow().is_stopped);
        running.jobs.push((stop.downgrade(), states.clone()));
        // Shut down meanwhile: the handle is dropped, which stops the process.
        if running.is_shut_down {
            return Err(JobError::ShuttingDown);
        }
        Ok(JobProcess { pid, stdin, stdout, stderr, handle: JobHandle { state: states, stop } })
    }

    /// Ends every upstream. Every later start fails. Idempotent. Returns when all are ended, at the latest 400 ms after
    /// `sigkill_after`.
    ///
    /// The owner of each upstream closes its stdin at the same time.
    pub async fn shutdown(&self, timeouts: StopTimeouts) {
        let jobs = {
            let mut running = self.0.lock();
            running.is_shut_down = true;
            std::mem::take(&mut running.jobs)
        };
        for stop in jobs.iter().filter_map(|(stop, _)| stop.upgrade()) {
            stop.try_send(timeouts).ok();
        }
        let stopped = async {
            for (_, mut state) in jobs {
                state.wait_for(|state| state.is_stopped).await.ok();
            }
        };
        timeout(timeouts.sigkill_after + SLACK, stopped).await.ok();
    }
}

/// Owns one upstream process.
///
/// If it is dropped, the upstream is stopped by [`StopTimeouts::FAST`], so that no process outlives a caller that is
/// cancelled or fails.
#[derive(Debug)]
pub struct JobHandle {
    /// Whether the process runs.
    state: watch::Receiver<ProcessState>,
    /// Stops it. The supervisor notices when it is dropped.
    stop: mpsc::Sender<StopTimeouts>,
}

impl JobHandle {
    /// Waits for the process to exit, however long that takes. Cancel-safe, and can be called again.
    pub async fn exited(&self) -> Exit {
        ProcessState::exit(&self.state).await
    }

    /// Ends the process and every process that it started.
    ///
    /// The caller closes the process's stdin first. Returns as soon as no process is left, at the latest 3.4 s after
    /// `sigkill_after`.
    pub async fn stop(&self, timeouts: StopTimeouts) {
        // Fails only if it is stopped already, or several stops are on their way.
        self.stop.try_send(timeouts).ok();
        let longest = timeouts.sigkill_after + TERMINATE_TIMEOUT + SLACK;
        timeout(longest, self.state.clone().wait_for(|state| state.is_stopped)).await.ok();
    }
}

/// The task of one upstream.
struct JobSupervisor {
    job: JobObject,
    process: StartedProcess,
    state: watch::Sender<ProcessState>,
    /// Each is a stop; the end is that the handle was dropped.
    stops: mpsc::Receiver<StopTimeouts>,
}

impl JobSupervisor {
    /// Watches the process until it is stopped. A process that has exited is stopped too, for what it has started.
    async fn run(mut self) {
        let timeouts = tokio::select! {
            stop = self.stops.recv() => stop,
            exit = self.process.exited() => {
                self.state.send_modify(|state| state.exit = Some(exit.map_or(Exit::Unknown, Exit::Code)));
                self.stops.recv().await
            }
        };
        self.stop(timeouts.unwrap_or(StopTimeouts::FAST)).await;
        if self.state.borrow().exit.is_none() {
            let exit = timeout(TERMINATE_TIMEOUT, self.process.exited()).await.ok().flatten();
            self.state.send_modify(|state| state.exit = Some(exit.map_or(Exit::Unknown, Exit::Code)));
        }
        self.state.send_modify(|state| state.is_stopped = true);
    }

    /// Lets the processes end by themselves, and terminates those that do not. Another stop may shorten the time.
    async fn stop(&mut self, timeouts: StopTimeouts) {
        let mut deadline = Instant::now() + timeouts.sigkill_after;
        while self.job.has_processes() && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
            while let Ok(timeouts) = self.stops.try_recv() {
                deadline = deadline.min(Instant::now() + timeouts.sigkill_after);
            }
        }
        self.job.terminate();
        let deadline = Instant::now() + TERMINATE_TIMEOUT;
        while self.job.has_processes() && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests;
