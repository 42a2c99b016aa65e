//! The loop of the warden process: one thread that spawns, signals, scans for and reaps every upstream, and that ends
//! all of them when the socket to our process closes.
//!
//! ```text
//! Hello ──▶ end orphans ──▶ serve ──▶ Stop: wait, SIGTERM, SIGKILL, eight empty scans ──▶ Stopped
//!                             │
//!                             └─▶ Shutdown, or the socket closed, or a malformed frame:
//!                                 SIGTERM, SIGKILL until waitpid reports ECHILD
//! ```
//!
//! It never waits for our process to read, never panics on what it reads, writes no logs, and opens no files but those
//! of /proc.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::select::{FdSet, pselect};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeSpec;
use tokio::time::Instant;

use super::descendants::{self, Descendant, EMPTY_SCANS};
use super::ipc::WardenSocket;
use super::owner_mark::OwnerId;
use super::procfs::ProcStat;
use super::protocol::{StopTimeouts, VERSION, WardenEvent, WardenRequest};
use super::spawn::SpawnContext;
use super::{orphans, setup};

/// When our process has died, no client waits for answers of the upstreams.
const OWNER_LOST_TIMEOUTS: StopTimeouts =
    StopTimeouts { sigterm_after: Duration::ZERO, sigkill_after: Duration::from_millis(250) };
/// How long killing may take after the first SIGKILL. A process that is left then belongs to another user, or is in
/// uninterruptible sleep.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between scans while processes are being killed, or while a stop confirms that none is left.
const FAST_SCAN_INTERVAL: Duration = Duration::from_millis(1);
/// The time between scans once killing has taken longer than `FAST_SCAN_PERIOD`.
const SLOW_SCAN_INTERVAL: Duration = Duration::from_millis(10);
const FAST_SCAN_PERIOD: Duration = Duration::from_millis(100);

/// Runs the warden process. `main` calls this before anything else. Returns when every upstream is ended.
pub fn run() -> ExitCode {
    let Ok(socket) = setup::set_up() else {
        // A person started it. If it was our process, it notices that the socket is closed.
        return ExitCode::from(2);
    };
    Supervisor::new(socket).run();
    ExitCode::SUCCESS
}

/// Why the warden process ends.
enum ShutdownReason {
    /// Our process died, or sent a frame that cannot be understood.
    OwnerLost,
    /// Our process sent a `Shutdown`.
    Requested(StopTimeouts),
}

/// The state of the warden process.
struct Supervisor {
    /// The socket to the owner.
    socket: WardenSocket,
    /// Known once the `Hello` was received.
    context: Option<SpawnContext>,
    /// The upstreams by id.
    upstreams: BTreeMap<u64, SupervisedUpstream>,
    /// Whether an adopted process exited. If its upstream is stopped already, it may have forked before.
    needs_scan: bool,
}

/// One upstream, from its spawn until its stop has finished.
struct SupervisedUpstream {
    /// Its first process, which leads its session.
    pid: i32,
    /// Whether that process was reaped.
    has_exited: bool,
    /// The stop in progress.
    stop: Option<PendingStop>,
}

/// A stop that is under way.
struct PendingStop {
    /// `None` once SIGTERM was sent.
    sigterm_at: Option<Instant>,
    /// When SIGKILL is due.
    sigkill_at: Instant,
    /// The number of scans in a row that found no process.
    empty_scans: u8,
}

impl Supervisor {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket: WardenSocket::new(socket),
            context: None,
            upstreams: BTreeMap::new(),
            needs_scan: false,
        }
    }

    fn run(mut self) {
        let timeouts = loop {
            self.reap();
            let deadline = self.advance_stops();
            if self.socket.flush().is_err() {
                break OWNER_LOST_TIMEOUTS;
            }
            self.wait(deadline);
            match self.receive() {
                Ok(()) => {}
                Err(ShutdownReason::OwnerLost) => break OWNER_LOST_TIMEOUTS,
                Err(ShutdownReason::Requested(timeouts)) => break timeouts,
            }
        };
        self.end_all(timeouts);
    }

    /// Waits for a signal, for the socket, or until `deadline`. SIGCHLD is delivered in here only (`setup`), so none is
    /// lost between `reap` and this call.
    fn wait(&self, deadline: Option<Instant>) {
        let socket = self.socket.as_fd();
        let (mut readable, mut writable) = (FdSet::new(), FdSet::new());
        readable.insert(socket);
        if self.socket.has_output() {
            writable.insert(socket);
        }
        let timeout = deadline.map(time_until);
        // The result does not matter: the loop tries everything after each wait.
        pselect(None, &mut readable, &mut writable, None, timeout.as_ref(), &SigSet::empty()).ok();
    }

    fn receive(&mut self) -> Result<(), ShutdownReason> {
        self.socket.receive().map_err(|_| ShutdownReason::OwnerLost)?;
        while let Some(frame) = self.socket.next_frame().map_err(|_| ShutdownReason::OwnerLost)? {
            self.handle(WardenRequest::decode(frame).map_err(|_| ShutdownReason::OwnerLost)?)?;
        }
        if self.socket.is_closed() { Err(ShutdownReason::OwnerLost) } else { Ok(()) }
    }

    fn handle(&mut self, request: WardenRequest) -> Result<(), ShutdownReason> {
        match (request, &self.context) {
            (WardenRequest::Hello { version, owner_pid, nofile, first_id, orphaned_pids }, None) => {
                self.socket.send(&WardenEvent::Hello { version: VERSION });
                if version != VERSION {
                    return Ok(());
                }
                let owner_pid = i32::try_from(owner_pid).map_err(|_| ShutdownReason::OwnerLost)?;
                let owner = OwnerId::of_process(owner_pid);
                orphans::end_orphans(&owner, first_id, &orphaned_pids);
                self.context = Some(SpawnContext { owner, nofile });
            }
            (WardenRequest::Spawn { id, launch }, Some(context)) => {
                let stdio: [OwnedFd; 3] = self.socket.take_stdio().ok_or(ShutdownReason::OwnerLost)?;
                let event = match context.spawn(id, &launch, stdio) {
                    Ok(pid) => {
                        let upstream =
                            SupervisedUpstream { pid: pid.cast_signed(), has_exited: false, stop: None };
                        self.upstreams.insert(id, upstream);
                        WardenEvent::Spawned { id, pid }
                    }
                    Err((step, errno)) => WardenEvent::SpawnFailed { id, step, errno },
                };
                self.socket.send(&event);
            }
            (WardenRequest::Stop { id, timeouts }, Some(_)) => self.begin_stop(id, timeouts),
            (WardenRequest::Shutdown { timeouts }, _) => return Err(ShutdownReason::Requested(timeouts)),
            _ => return Err(ShutdownReason::OwnerLost),
        }
        Ok(())
    }

    /// Begins the stop of an upstream. A second request can only bring the signals of the first one forward.
    fn begin_stop(&mut self, id: u64, timeouts: StopTimeouts) {
        let Some(upstream) = self.upstreams.get_mut(&id) else {
            return self.socket.send(&WardenEvent::Stopped { id, survivors: 0 });
        };
        let (sigterm_at, sigkill_at) = (from_now(timeouts.sigterm_after), from_now(timeouts.sigkill_after));
        match &mut upstream.stop {
            Some(stop) => {
                stop.sigterm_at = stop.sigterm_at.map(|earlier| earlier.min(sigterm_at));
                stop.sigkill_at = stop.sigkill_at.min(sigkill_at);
            }
            None => {
                upstream.stop =
                    Some(PendingStop { sigterm_at: Some(sigterm_at), sigkill_at, empty_scans: 0 });
            }
        }
    }

    /// Does what is due for every upstream that is being stopped. Returns when something will be due next.
    fn advance_stops(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.needs_scan || self.upstreams.values().any(|upstream| upstream.needs_scan(now)) {
            self.needs_scan = false;
            let mut by_upstream = self.scan_by_upstream();
            let stopping: Vec<u64> = self
                .upstreams
                .iter()
                .filter(|(_, upstream)| upstream.stop.is_some())
                .map(|(id, _)| *id)
                .collect();
            for id in stopping {
                self.advance_stop(id, now, &by_upstream.remove(&id).unwrap_or_default());
            }
            self.kill_survivors(&by_upstream);
        }
        self.upstreams.values().filter_map(|upstream| upstream.next_deadline(now)).min()
    }

    /// `living` are the processes of the upstream.
    fn advance_stop(&mut self, id: u64, now: Instant, living: &[ProcStat]) {
        let Some(upstream) = self.upstreams.get_mut(&id) else { return };
        let Some(stop) = &mut upstream.stop else { return };
        let is_empty = upstream.has_exited && living.is_empty();
        stop.empty_scans = if is_empty { stop.empty_scans + 1 } else { 0 };
        if stop.empty_scans >= EMPTY_SCANS || now >= stop.sigkill_at + KILL_TIMEOUT {
            self.upstreams.remove(&id);
            let survivors = u32::try_from(living.len()).unwrap_or(u32::MAX);
            return self.socket.send(&WardenEvent::Stopped { id, survivors });
        }
        if now >= stop.sigkill_at {
            descendants::signal_groups(living, Signal::SIGKILL);
        } else if stop.sigterm_at.is_some_and(|sigterm_at| now >= sigterm_at) {
            descendants::signal_groups(living, Signal::SIGTERM);
            stop.sigterm_at = None;
        }
    }

    /// Kills the processes of upstreams whose stop has finished. They escaped every scan or survived SIGKILL. Their
    /// exit causes another scan; none is needed before.
    fn kill_survivors(&self, by_upstream: &HashMap<u64, Vec<ProcStat>>) {
        let survivors = by_upstream.iter().filter(|(id, _)| !self.upstreams.contains_key(id));
        descendants::signal_groups(survivors.flat_map(|(_, processes)| processes), Signal::SIGKILL);
    }

    /// Returns the living processes of each upstream that is being stopped or was stopped.
    fn scan_by_upstream(&self) -> HashMap<u64, Vec<ProcStat>> {
        let mut by_upstream: HashMap<u64, Vec<ProcStat>> = HashMap::new();
        for Descendant { process, upstream } in self.scan(|upstream| upstream.stop.is_some()) {
            if let Some(id) = upstream {
                by_upstream.entry(id).or_default().push(process);
            }
        }
        by_upstream
    }

    /// Returns the living descendants without the subtrees of living upstreams that are not `included`.
    ///
    /// A process that escaped from such a subtree is a child of the warden process, so it is found all the same. An
    /// upstream that is not found in /proc is returned too, so that without /proc its group can still be ended.
    fn scan(&self, included: impl Fn(&SupervisedUpstream) -> bool) -> Vec<Descendant> {
        let Some(SpawnContext { owner, .. }) = &self.context else { return Vec::new() };
        let ids_by_pid = self.upstreams.iter().map(|(id, upstream)| (upstream.pid, *id)).collect();
        let living = || self.upstreams.iter().filter(|(_, upstream)| !upstream.has_exited);
        let skipped: HashSet<i32> =
            living().filter(|(_, upstream)| !included(upstream)).map(|(_, upstream)| upstream.pid).collect();
        let mut found = descendants::scan(&ids_by_pid, &skipped, owner);
        let seen: HashSet<i32> =
            found.iter().map(|descendant| descendant.process.pid).chain(skipped).collect();
        let unseen = living().filter(|(_, upstream)| !seen.contains(&upstream.pid));
        found.extend(unseen.map(|(id, upstream)| {
            let process = ProcStat::session_leader(upstream.pid);
            Descendant { process, upstream: Some(*id) }
        }));
        found
    }

    /// Reaps every process that has exited. Returns whether no child is left, which proves for a subreaper that no
    /// descendant is left.
    fn reap(&mut self) -> bool {
        loop {
            let (pid, status) = match wait_any() {
                WaitResult::Exited { pid, status } => (pid, status),
                WaitResult::StillRunning => return false,
                WaitResult::NoChildren => return true,
            };
            let exited =
                self.upstreams.iter_mut().find(|(_, upstream)| upstream.pid == pid && !upstream.has_exited);
            let Some((&id, upstream)) = exited else {
                self.needs_scan = true;
                continue;
            };
            upstream.has_exited = true;
            self.socket.send(&WardenEvent::Exited { id, status });
        }
    }

    /// Ends every descendant. Handles no more requests, and still sends events.
    fn end_all(&mut self, timeouts: StopTimeouts) {
        let mut sigterm_at = Some(from_now(timeouts.sigterm_after));
        let sigkill_at = from_now(timeouts.sigkill_after);
        loop {
            let is_done = self.reap();
            // Fails if our process is dead.
            self.socket.flush().ok();
            let now = Instant::now();
            if is_done || now >= sigkill_at + KILL_TIMEOUT {
                return;
            }
            if now >= sigkill_at {
                self.signal_all(Signal::SIGKILL);
            } else if sigterm_at.is_some_and(|sigterm_at| now >= sigterm_at) {
                self.signal_all(Signal::SIGTERM);
                sigterm_at = None;
            }
            wait_for_signal(if now < sigkill_at {
                sigterm_at.unwrap_or(sigkill_at)
            } else {
                now + kill_scan_interval(now, sigkill_at)
            });
        }
    }

    fn signal_all(&self, signal: Signal) {
        let descendants = self.scan(|_| true);
        descendants::signal_groups(descendants.iter().map(|descendant| &descendant.process), signal);
    }
}

impl SupervisedUpstream {
    /// Returns whether its stop needs a scan now. While its first process lives and no signal is due, it needs none.
    fn needs_scan(&self, now: Instant) -> bool {
        self.stop.as_ref().is_some_and(|stop| {
            self.has_exited
                || now >= stop.sigkill_at
                || stop.sigterm_at.is_some_and(|sigterm_at| now >= sigterm_at)
        })
    }

    /// Returns when its stop has to continue if no child exits before. The last processes of an upstream descend from a
    /// child of the warden process, whose exit is a signal.
    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let stop = self.stop.as_ref()?;
        Some(if stop.empty_scans > 0 {
            now + FAST_SCAN_INTERVAL
        } else if now >= stop.sigkill_at {
            now + kill_scan_interval(now, stop.sigkill_at)
        } else {
            stop.sigterm_at.unwrap_or(stop.sigkill_at)
        })
    }
}

fn kill_scan_interval(now: Instant, sigkill_at: Instant) -> Duration {
    if now < sigkill_at + FAST_SCAN_PERIOD { FAST_SCAN_INTERVAL } else { SLOW_SCAN_INTERVAL }
}

/// Returns the time `delay` from now. Caps the delay at a year, because clocks and system calls have limits.
fn from_now(delay: Duration) -> Instant {
    Instant::now() + delay.min(Duration::from_secs(31_536_000))
}

fn time_until(deadline: Instant) -> TimeSpec {
    TimeSpec::from_duration(deadline.saturating_duration_since(Instant::now()))
}

/// Waits for a signal, or until `deadline`.
fn wait_for_signal(deadline: Instant) {
    pselect(None, None, None, None, &time_until(deadline), &SigSet::empty()).ok();
}

/// The result of waitpid(2) for any child.
enum WaitResult {
    /// A child exited. The status stays a number, because nix cannot represent every signal.
    Exited { pid: i32, status: i32 },
    /// No child has exited.
    StillRunning,
    /// There is no child.
    NoChildren,
}

/// Reaps a child that has exited, if there is one.
#[expect(unsafe_code, reason = "the safe wrapper loses children that a real-time signal killed")]
fn wait_any() -> WaitResult {
    #[cfg(target_os = "linux")]
    let flags = libc::WNOHANG | libc::__WALL;
    #[cfg(not(target_os = "linux"))]
    let flags = libc::WNOHANG;
    let mut status = 0;
    // SAFETY: `status` is a live int, and no other code of this process waits for children.
    match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
        0 => WaitResult::StillRunning,
        pid if pid > 0 => WaitResult::Exited { pid, status },
        _ => WaitResult::NoChildren,
    }
}
