//! How long a group waits between attempts to connect.
//!
//! Up to three retries at growing intervals make a round. After it, attempts in the background follow at long
//! intervals. Jitter of up to 20 % keeps many groups that failed together from retrying together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A request to a group whose failure is younger than this gets that failure instead of a new attempt.
pub const COOL_DOWN: Duration = Duration::from_secs(5);
/// The longest interval, even if a server asks for a longer one.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);
/// The intervals between the attempts of a round, before jitter.
const ROUND: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The longest interval of a round: callers wait for a retry that is due within it.
pub(crate) const LONGEST_IN_ROUND: Duration = ROUND[ROUND.len() - 1];
/// The first interval between attempts in the background. Each is twice the one before it.
const BACKGROUND: Duration = Duration::from_secs(30);

/// The interval before the next retry of a round in which `failures` attempts failed before; `None`: the round is over.
pub(crate) fn in_round(failures: usize, jitter: f64) -> Option<Duration> {
    Some(jittered(*ROUND.get(failures)?, jitter))
}

/// The interval before the next attempt in the background, after `attempts` of them.
pub(crate) fn in_background(attempts: u32, jitter: f64) -> Duration {
    jittered(BACKGROUND.saturating_mul(1 << attempts.min(8)).min(LONGEST), jitter)
}

/// The interval before a lost connection is made again, after `losses` early losses in a row; zero after none. It has
/// no jitter.
pub(crate) fn after_loss(losses: u32) -> Duration {
    match losses {
        0 => Duration::ZERO,
        n => ROUND[0].saturating_mul(1 << (n - 1).min(9)).min(LONGEST),
    }
}

/// The interval ± 20 %.
fn jittered(interval: Duration, jitter: f64) -> Duration {
    interval.mul_f64(1.0 + 0.2 * jitter.clamp(-1.0, 1.0))
}

/// Returns a number from -1 to 1. The random keys of the hasher are random enough for this.
pub(super) fn jitter() -> f64 {
    (RandomState::new().hash_one(0) % 2001) as f64 / 1000.0 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_at_most_20_percent() {
        let interval = Duration::from_secs(10);
        assert_eq!(jittered(interval, -1.0), Duration::from_secs(8));
        assert_eq!(jittered(interval, 1.0), Duration::from_secs(12));
        assert_eq!(jittered(interval, 99.0), Duration::from_secs(12));
    }

    #[test]
    fn jitter_is_spread_over_its_whole_range() {
        let numbers: Vec<f64> = (0..1000).map(|_| jitter()).collect();
        assert!(numbers.iter().all(|number| (-1.0..=1.0).contains(number)), "{numbers:?}");
        let is_hit = |range: std::ops::Range<f64>| numbers.iter().any(|number| range.contains(number));
        assert!(is_hit(-1.0..-0.5) && is_hit(-0.5..0.0) && is_hit(0.0..0.5) && is_hit(0.5..1.0));
    }

    #[test]
    fn intervals_double_until_the_longest() {
        let round: Vec<_> = (0..5).map(|n| in_round(n, 0.0).map(|interval| interval.as_secs())).collect();
        assert_eq!(round, [Some(1), Some(2), Some(4), None, None]);
        let background: Vec<_> = (0..6).map(|n| in_background(n, 0.0).as_secs()).collect();
        assert_eq!(background, [30, 60, 120, 240, 300, 300]);
        let reconnect: Vec<_> = (0..12).map(|n| after_loss(n).as_secs()).collect();
        assert_eq!(reconnect, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(in_background(u32::MAX, 0.0), LONGEST);
        assert_eq!(after_loss(u32::MAX), LONGEST);
    }
}
