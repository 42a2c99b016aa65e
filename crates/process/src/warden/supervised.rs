//! One upstream in the warden process, and the timetable of its stop.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::spawn::SpawnReport;
use super::waiting::from_now;
use crate::server_id::ServerId;
use crate::stop_timeouts::StopTimeouts;

/// How long killing may take after the first SIGKILL. A process that is left then belongs to another user, or is in
/// uninterruptible sleep.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between scans while processes are being killed, or while a stop confirms that none is left.
const FAST_SCAN_INTERVAL: Duration = Duration::from_millis(1);
/// The time between scans once killing has taken longer than `FAST_SCAN_PERIOD`.
const SLOW_SCAN_INTERVAL: Duration = Duration::from_millis(10);
const FAST_SCAN_PERIOD: Duration = Duration::from_millis(100);

/// The bytes that one read of the output takes, and the reads in a row, so that a flood keeps nothing else waiting.
const DRAIN_SIZE: usize = 64 << 10;
const MAX_DRAIN_READS: usize = 16;

/// One upstream, from its fork until its stop has finished.
pub(super) struct SupervisedUpstream {
    /// Its first process, which leads its session.
    pub(super) pid: i32,
    /// Whether that process was reaped.
    pub(super) has_exited: bool,
    /// Tells how its spawn goes; `None` once that is known.
    pub(super) report: Option<SpawnReport>,
    /// The stop in progress.
    pub(super) stop: Option<PendingStop>,
    /// The server that it is; `None` if it is none.
    pub(super) server: Option<ServerId>,
    /// The ends of its stdout and stderr that our process reads. Non-blocking.
    pub(super) output: Vec<File>,
}

/// A stop that is under way.
pub(super) struct PendingStop {
    /// `None` once SIGTERM was sent.
    pub(super) sigterm_at: Option<Instant>,
    /// When SIGKILL is due.
    pub(super) sigkill_at: Instant,
    /// The number of scans in a row that found no process.
    pub(super) empty_scans: u8,
}

impl PendingStop {
    /// Begins a stop.
    pub(super) fn new(timeouts: StopTimeouts) -> Self {
        let (sigterm_at, sigkill_at) = (from_now(timeouts.sigterm_after), from_now(timeouts.sigkill_after));
        Self { sigterm_at: Some(sigterm_at), sigkill_at, empty_scans: 0 }
    }

    /// Returns when the next signal is due.
    fn next_signal_at(&self) -> Instant {
        self.sigterm_at.unwrap_or(self.sigkill_at).min(self.sigkill_at)
    }

    /// Returns the signal that is due. SIGTERM is due once.
    pub(super) fn due_signal(&mut self, now: Instant) -> Option<Signal> {
        if now >= self.sigkill_at {
            return Some(Signal::SIGKILL);
        }
        self.sigterm_at.take_if(|sigterm_at| now >= *sigterm_at).map(|_| Signal::SIGTERM)
    }

    /// Returns whether killing has taken too long.
    pub(super) fn is_given_up(&self, now: Instant) -> bool {
        now >= self.sigkill_at + KILL_TIMEOUT
    }

    /// Returns when the stop has to continue if no child exits before. The last processes of an upstream descend from a
    /// child of the warden process, whose exit is a signal.
    pub(super) fn next_deadline(&self, now: Instant) -> Instant {
        if self.empty_scans > 0 || now >= self.sigkill_at && now < self.sigkill_at + FAST_SCAN_PERIOD {
            now + FAST_SCAN_INTERVAL
        } else if now >= self.sigkill_at {
            now + SLOW_SCAN_INTERVAL
        } else {
            self.next_signal_at()
        }
    }
}

impl SupervisedUpstream {
    /// Creates an upstream that was just forked.
    pub(super) fn new(
        pid: i32,
        report: SpawnReport,
        server: Option<ServerId>,
        output: impl IntoIterator<Item = OwnedFd>,
    ) -> Self {
        let output = output.into_iter().map(File::from).collect();
        Self { pid, has_exited: false, report: Some(report), stop: None, server, output }
    }

    /// Reads and drops its output, without waiting.
    pub(super) fn drain(&mut self) {
        self.output.retain_mut(|pipe| !drain(pipe));
    }

    /// Returns whether its stop needs a scan now. While its first process lives and no signal is due, it needs none.
    pub(super) fn needs_scan(&self, now: Instant) -> bool {
        self.stop.as_ref().is_some_and(|stop| self.has_exited || now >= stop.next_signal_at())
    }
}

/// Reads and drops what a pipe holds. Returns whether it has ended.
fn drain(pipe: &mut File) -> bool {
    let mut chunk = vec![0; DRAIN_SIZE];
    for _ in 0..MAX_DRAIN_READS {
        match pipe.read(&mut chunk) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
    false
}
