//! How often the tools of a group were called, how long that took, and how much memory the server had, for
//! `get_status`.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The number of calls that percentiles are computed from: enough to be steady, few enough to be recent.
const PERCENTILE_WINDOW: usize = 256;

/// What is counted and measured of one group.
#[derive(Default)]
pub struct GroupStats {
    /// The number of attempts to connect so far.
    attempts: AtomicU64,
    /// Whether a call was ever sent.
    was_called: AtomicBool,
    /// The number of calls that have ended so far.
    calls: AtomicU64,
    /// How many of them failed.
    errors: AtomicU64,
    /// A ring of the last calls' durations in microseconds.
    recent: Mutex<Vec<u32>>,
    /// How often the server was closed as unused after a call.
    idle_closes: AtomicU64,
    /// How often the server had to be killed when it was closed as unused.
    kills: AtomicU64,
    /// The memory of the server's processes in bytes when it was closed last; 0 if that is not known.
    closed_memory: AtomicU64,
}

impl GroupStats {
    /// Counts an attempt to connect, and returns its number.
    pub(crate) fn begin_attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that a call is sent. It may end much later, because a server may ask its client something meanwhile.
    pub fn begin_call(&self) {
        self.was_called.store(true, Ordering::Relaxed);
    }

    /// Returns whether a call was ever sent.
    pub(crate) fn was_called(&self) -> bool {
        self.was_called.load(Ordering::Relaxed)
    }

    /// Adds one call that has ended, and may have failed.
    pub fn record(&self, took: Duration, failed: bool) {
        if failed {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let nth = self.calls.fetch_add(1, Ordering::Relaxed);
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let mut recent = self.recent.lock();
        if recent.len() < PERCENTILE_WINDOW {
            recent.push(micros);
        } else {
            recent[(nth % PERCENTILE_WINDOW as u64) as usize] = micros;
        }
    }

    /// The number of calls that have ended so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The number of calls that failed so far: without an answer, with an error, or with a result that says so.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Notes that the server is closed because it is unused. Before the first call it has nothing to lose.
    pub(crate) fn note_idle_close(&self) {
        self.idle_closes.fetch_add(u64::from(self.was_called()), Ordering::Relaxed);
    }

    /// How often the server was closed as unused after a call.
    pub fn idle_closes(&self) -> u64 {
        self.idle_closes.load(Ordering::Relaxed)
    }

    /// Notes that the server had to be killed when it was closed as unused.
    pub(crate) fn note_kill(&self) {
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the server had to be killed when it was closed as unused.
    pub fn kills(&self) -> u64 {
        self.kills.load(Ordering::Relaxed)
    }

    /// Notes the memory of the server's processes, in bytes, just before they are ended.
    pub(crate) fn note_closed_memory(&self, bytes: u64) {
        self.closed_memory.store(bytes, Ordering::Relaxed);
    }

    /// The memory of the server's processes, in bytes, when the server was closed last; `None` if that is not known.
    pub fn closed_memory(&self) -> Option<u64> {
        Some(self.closed_memory.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// The median and the 95th percentile of the durations of the last `PERCENTILE_WINDOW` calls; `None` before the
    /// first one.
    pub fn percentiles(&self) -> Option<(Duration, Duration)> {
        let mut recent = self.recent.lock().clone();
        recent.sort_unstable();
        let at = |percent: usize| {
            let index = (recent.len() * percent).div_ceil(100).saturating_sub(1);
            recent.get(index).map(|&micros| Duration::from_micros(micros.into()))
        };
        Some((at(50)?, at(95)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_cover_only_the_last_calls() {
        let stats = GroupStats::default();
        assert_eq!(stats.percentiles(), None);
        (1..=1000).for_each(|ms| stats.record(Duration::from_millis(ms), ms % 4 == 0));
        assert_eq!((stats.calls(), stats.errors()), (1000, 250));
        let (median, high) = stats.percentiles().unwrap();
        assert_eq!((median.as_millis(), high.as_millis()), (872, 988));
    }
}
