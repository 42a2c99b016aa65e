//! The time of day, for what is stored.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in seconds since 1970.
pub(crate) fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
