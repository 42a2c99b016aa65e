//! The time for deadlines, the time of day for what is stored, and durations as people read them.

use chrono::DateTime;
use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The clock of one thread.
#[derive(Clone, Copy)]
enum Clock {
    Running,
    /// It stands still at this time. `None`: the time has not been asked for yet.
    Stopped(Option<Instant>),
}

thread_local! {
    static CLOCK: Cell<Clock> = const { Cell::new(Clock::Running) };
}

/// Returns the current time, which stands still between [`stop`] and the drop of its result.
pub fn now() -> Instant {
    match CLOCK.get() {
        Clock::Running => Instant::now(),
        Clock::Stopped(Some(now)) => now,
        Clock::Stopped(None) => {
            let now = Instant::now();
            CLOCK.set(Clock::Stopped(Some(now)));
            now
        }
    }
}

/// Makes [`now`] stand still on this thread until the result is dropped, for work that asks for the time often and does
/// not wait: reading the clock takes longer than most steps of handling a message. Not nested: the drop of any result
/// lets the clock go on.
#[must_use = "the clock goes on when it is dropped"]
pub fn stop() -> StoppedClock {
    CLOCK.set(Clock::Stopped(None));
    StoppedClock(())
}

/// Lets the clock of the thread go on when it is dropped.
pub struct StoppedClock(());

impl Drop for StoppedClock {
    fn drop(&mut self) {
        CLOCK.set(Clock::Running);
    }
}

/// Returns the current time in seconds since 1970.
pub fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a time in seconds since 1970, as `2026-11-23 18:40 UTC`.
pub fn utc_minute(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| DateTime::from_timestamp(unix_s, 0));
    time.unwrap_or(DateTime::UNIX_EPOCH).format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Formats how long something took, with two digits or the whole number of its unit: `1.5 ms`, `120 ms`, `7.2 s`, `75 s`.
pub fn rounded(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    match millis {
        ..9.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        ..9950.0 => format!("{:.1} s", millis / 1000.0),
        _ => in_largest_unit(Duration::from_millis(500).saturating_add(duration)),
    }
}

/// Formats a duration in its largest unit, in whole numbers that are rounded down: `119 s`, `2 min`, `2 h`, `2 days`.
pub fn in_largest_unit(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_a_date() {
        for (unix_s, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_795_459_206, "2026-11-23 18:40 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc_minute(unix_s), date);
        }
    }

    #[test]
    fn durations_are_rounded() {
        for (micros, text) in [
            (0, "0.0 ms"),
            (1_520, "1.5 ms"),
            (9_960, "10 ms"),
            (119_900, "120 ms"),
            (999_600, "1.0 s"),
            (7_240_000, "7.2 s"),
            (75_001_660, "75 s"),
            (119_600_000, "2 min"),
            (7_200_000_000, "2 h"),
            (200_000_000_000, "2 days"),
        ] {
            assert_eq!(rounded(Duration::from_micros(micros)), text, "{micros}");
        }
    }
}
