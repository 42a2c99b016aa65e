//! The loop of the warden process: one thread that spawns, signals, scans for and reaps every upstream, and that ends
//! all of them when the socket to our process closes.
//!
//! ```text
//! Hello ──▶ end orphans ──▶ serve ──▶ Spawn: fork ──▶ Forked, exec ──▶ Spawned
//!                             │ ╰──▶ Stop: wait, SIGTERM, SIGKILL, eight empty scans ──▶ Stopped
//!                             │
//!                             └─▶ Shutdown, or the socket closed, or a malformed frame:
//!                                 Stop of all, until waitpid reports ECHILD; the same for a retired warden
//! ```
//!
//! Our process reads the output of the upstreams. Once it is gone, the warden process reads it, so that an upstream that
//! logs while it saves is neither killed by SIGPIPE nor blocked by a full pipe.
//!
//! A warden process that was silent for too long keeps its upstreams beside this one. When our process ends, this one ends
//! those too, because the other may still be stopped.
//!
//! It never waits for our process to read, never panics on what it reads, writes no logs, and opens no files but those
//! of /proc.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::descendants::{self, Descendant, EMPTY_SCANS};
use super::ipc::WardenSocket;
use super::orphans::{OrphanScope, end_orphans};
use super::owner_mark::OwnerId;
use super::protocol::{FrameError, SPAWN_DESCRIPTORS, VERSION, WardenEvent, WardenRequest, decode};
use super::spawn::{SpawnContext, SpawnReport};
use super::supervised::{PendingStop, SupervisedUpstream};
use super::waiting::{WaitResult, from_now, wait_any, wait_for};
use super::{setup, stopped_wardens};
use crate::ending_servers::EndingServers;
use crate::held_process::HeldProcess;
use crate::stop_timeouts::StopTimeouts;
use base::procfs::ProcStat;

/// Runs the warden process. `main` calls this before anything else. Returns when every upstream is ended, or has
/// survived SIGKILL for 3 s; at once, with code 2, if stdin is not the socket.
pub fn run() -> ExitCode {
    let Ok(socket) = setup::set_up() else {
        // A person started it. If it was our process, it notices that the socket is closed.
        return ExitCode::from(2);
    };
    let supervisor = Supervisor {
        socket: WardenSocket::new(socket),
        context: None,
        upstreams: BTreeMap::new(),
        needs_scan: false,
        retired_warden: None,
        ending: None,
    };
    supervisor.run();
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
    /// The other warden process of our process, which was silent.
    retired_warden: Option<HeldProcess>,
    /// Where the servers are marked that are being ended.
    ending: Option<EndingServers>,
}

impl Supervisor {
    fn run(mut self) {
        let reason = loop {
            self.reap();
            self.report_spawns();
            let deadline = self.advance_stops();
            if self.socket.flush().is_err() {
                break ShutdownReason::OwnerLost;
            }
            self.wait(deadline);
            if let Err(reason) = self.receive() {
                break reason;
            }
        };
        let (timeouts, is_owner_ending) = match reason {
            ShutdownReason::OwnerLost => {
                self.socket.close();
                (StopTimeouts::ORDINARY, false)
            }
            ShutdownReason::Requested(timeouts) => (timeouts, true),
        };
        let sigkill_at = from_now(timeouts.sigkill_after);
        self.end_all(timeouts);
        if let Some(SpawnContext { owner, .. }) = &self.context
            && let Some(retired) = self.retired_warden
            && (is_owner_ending || stopped_wardens::is_owner_dead(owner))
        {
            stopped_wardens::end(retired, owner, sigkill_at);
        }
    }

    /// Waits for a signal, for the socket, for the report of a spawn, for output that has to be read, or until `deadline`.
    /// SIGCHLD is delivered in here only (`setup`), so none is lost between `reap` and this call.
    fn wait(&self, deadline: Option<Instant>) {
        let upstreams = || self.upstreams.values();
        let reports = upstreams().filter_map(|upstream| Some(upstream.report.as_ref()?.as_fd()));
        let outputs = upstreams().filter(|_| self.socket.is_closed()).flat_map(|upstream| &upstream.output);
        let pipes = reports.chain(outputs.map(AsFd::as_fd));
        wait_for(self.socket.as_fd(), self.socket.has_output(), pipes, deadline);
    }

    fn receive(&mut self) -> Result<(), ShutdownReason> {
        self.socket.receive().map_err(|_| ShutdownReason::OwnerLost)?;
        while let Some(frame) = self.socket.next_frame().map_err(|_| ShutdownReason::OwnerLost)? {
            let request = decode(&frame).map_err(|error| {
                if error == FrameError::OtherVersion {
                    // It then knows why nothing is started.
                    self.socket.send(&WardenEvent::Hello { version: VERSION });
                    self.socket.flush().ok();
                }
                ShutdownReason::OwnerLost
            })?;
            self.handle(request)?;
        }
        if self.socket.is_closed() { Err(ShutdownReason::OwnerLost) } else { Ok(()) }
    }

    fn handle(&mut self, request: WardenRequest) -> Result<(), ShutdownReason> {
        match (request, &self.context) {
            (WardenRequest::Hello { owner_pid, nofile, retired_warden, has_ending_file, .. }, None) => {
                self.socket.send(&WardenEvent::Hello { version: VERSION });
                let owner_pid = i32::try_from(owner_pid).map_err(|_| ShutdownReason::OwnerLost)?;
                self.context = Some(SpawnContext { owner: OwnerId::of_process(owner_pid), nofile });
                self.retired_warden =
                    retired_warden.and_then(|pid| HeldProcess::open(pid.cast_signed()).ok());
                if has_ending_file {
                    let [file] = self.socket.take_descriptors().ok_or(ShutdownReason::OwnerLost)?;
                    self.ending = Some(EndingServers(File::from(file)));
                }
            }
            (WardenRequest::EndOrphans(lost), Some(context)) => {
                end_orphans(&context.owner, OrphanScope::Lost(&lost));
            }
            (WardenRequest::Spawn { id, server, launch }, Some(context)) => {
                let descriptors: [OwnedFd; SPAWN_DESCRIPTORS] =
                    self.socket.take_descriptors().ok_or(ShutdownReason::OwnerLost)?;
                let [stdin, stdout, stderr, output @ ..] = descriptors;
                match context.spawn(id, &launch, &[stdin, stdout, stderr]) {
                    Ok((pid, report)) => {
                        let upstream = SupervisedUpstream::new(pid.cast_signed(), report, server, output);
                        self.upstreams.insert(id, upstream);
                        self.socket.send(&WardenEvent::Forked { id, pid });
                    }
                    Err((step, errno)) => {
                        self.socket.send(&WardenEvent::SpawnFailed { id, step, errno });
                    }
                }
            }
            (WardenRequest::Stop { id, timeouts }, Some(_)) => self.begin_stop(id, timeouts),
            (WardenRequest::Shutdown { timeouts }, _) => return Err(ShutdownReason::Requested(timeouts)),
            _ => return Err(ShutdownReason::OwnerLost),
        }
        Ok(())
    }

    /// Reports the spawns that have succeeded or failed.
    fn report_spawns(&mut self) {
        for id in self.ids(|upstream| upstream.report.is_some()) {
            self.report_spawn(id);
        }
    }

    fn ids(&self, is_wanted: impl Fn(&SupervisedUpstream) -> bool) -> Vec<u64> {
        let wanted = self.upstreams.iter().filter(|(_, upstream)| is_wanted(upstream));
        wanted.map(|(id, _)| *id).collect()
    }

    /// Reports the spawn of an upstream if it has succeeded or failed. An upstream that failed is forgotten.
    fn report_spawn(&mut self, id: u64) {
        let Some(upstream) = self.upstreams.get_mut(&id) else { return };
        let Some(outcome) = upstream.report.as_mut().and_then(SpawnReport::poll) else { return };
        upstream.report = None;
        match outcome {
            Ok(()) => self.socket.send(&WardenEvent::Spawned { id }),
            Err((step, errno)) => {
                self.forget(id);
                self.socket.send(&WardenEvent::SpawnFailed { id, step, errno });
            }
        }
    }

    /// Begins the stop of an upstream. A second request can only bring the signals of the first one forward. An
    /// upstream that is not known, such as one that is stopped, is reported as stopped.
    fn begin_stop(&mut self, id: u64, timeouts: StopTimeouts) {
        let Some(upstream) = self.upstreams.get_mut(&id) else {
            return self.socket.send(&WardenEvent::Stopped { id, survivors: 0 });
        };
        let requested = PendingStop::new(timeouts);
        match &mut upstream.stop {
            Some(stop) => {
                stop.sigterm_at = stop.sigterm_at.min(requested.sigterm_at);
                stop.sigkill_at = stop.sigkill_at.min(requested.sigkill_at);
            }
            None => upstream.stop = Some(requested),
        }
        if let (Some(ending), Some(server)) = (&self.ending, upstream.server) {
            ending.mark(server);
        }
    }

    /// Forgets an upstream that was not started, or whose stop has finished.
    fn forget(&mut self, id: u64) {
        let server = self.upstreams.remove(&id).and_then(|upstream| upstream.server);
        let is_ending = |server| {
            self.upstreams.values().any(|upstream| upstream.stop.is_some() && upstream.server == Some(server))
        };
        if let (Some(ending), Some(server)) = (&self.ending, server.filter(|server| !is_ending(*server))) {
            ending.unmark(server);
        }
    }

    /// Does what is due for every upstream that is being stopped. Returns when something will be due next.
    fn advance_stops(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.needs_scan || self.upstreams.values().any(|upstream| upstream.needs_scan(now)) {
            self.needs_scan = false;
            let mut by_upstream = self.scan_by_upstream();
            for id in self.ids(|upstream| upstream.stop.is_some()) {
                self.advance_stop(id, now, &by_upstream.remove(&id).unwrap_or_default());
            }
            self.kill_survivors(&by_upstream);
        }
        let stops = self.upstreams.values().filter_map(|upstream| upstream.stop.as_ref());
        stops.map(|stop| stop.next_deadline(now)).min()
    }

    /// Does what is due for an upstream that is being stopped. `living` are its processes.
    fn advance_stop(&mut self, id: u64, now: Instant, living: &[ProcStat]) {
        let Some(upstream) = self.upstreams.get_mut(&id) else { return };
        let Some(stop) = &mut upstream.stop else { return };
        let is_empty = upstream.has_exited && living.is_empty();
        stop.empty_scans = if is_empty { stop.empty_scans + 1 } else { 0 };
        if stop.empty_scans >= EMPTY_SCANS || stop.is_given_up(now) {
            // First, so that who is told that it is stopped finds no mark.
            self.forget(id);
            let survivors = u32::try_from(living.len()).unwrap_or(u32::MAX);
            return self.socket.send(&WardenEvent::Stopped { id, survivors });
        }
        if let Some(signal) = stop.due_signal(now) {
            descendants::signal_groups(living, signal);
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
            // Its exit closed the pipe.
            self.report_spawn(id);
            if self.upstreams.contains_key(&id) {
                self.socket.send(&WardenEvent::Exited { id, status });
            }
        }
    }

    /// Stops every upstream, and with them the descendants that belong to none. Gives up `KILL_TIMEOUT` after the first
    /// SIGKILL. Handles no more requests, and still sends events.
    fn end_all(&mut self, timeouts: StopTimeouts) {
        self.ids(|_| true).into_iter().for_each(|id| self.begin_stop(id, timeouts));
        let mut stop = PendingStop::new(timeouts);
        loop {
            let has_no_child = self.reap();
            self.report_spawns();
            let next_stop = self.advance_stops();
            if self.socket.is_closed() {
                self.upstreams.values_mut().for_each(SupervisedUpstream::drain);
            } else if self.socket.flush().is_err() {
                self.socket.close();
            }
            let now = Instant::now();
            // Without a subreaper, processes of an upstream may be left that are not our children.
            let is_done = has_no_child && (cfg!(target_os = "linux") || self.upstreams.is_empty());
            if is_done || stop.is_given_up(now) {
                return;
            }
            if let Some(signal) = stop.due_signal(now) {
                let others = self.scan(|_| true);
                let others = others
                    .iter()
                    .filter(|found| !found.upstream.is_some_and(|id| self.upstreams.contains_key(&id)));
                descendants::signal_groups(others.map(|found| &found.process), signal);
            }
            self.wait(next_stop.into_iter().chain([stop.next_deadline(now)]).min());
            self.socket.skip_input();
        }
    }
}
