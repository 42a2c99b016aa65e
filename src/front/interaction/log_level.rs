//! The levels of log messages, as clients ask for them.

use wire::{Raw, raw};

/// The severities of log messages, the least severe first (RFC 5424).
const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Checks that `level` is a log level.
///
/// # Errors
///
/// Names the levels.
pub fn check_log_level(level: &str) -> Result<(), String> {
    match LOG_LEVELS.contains(&level) {
        true => Ok(()),
        false => Err(format!("unknown log level {level:?}: one of {}", LOG_LEVELS.join(", "))),
    }
}

/// Returns whether a log message is at least as severe as `wanted`. It is if either level is missing or unknown.
pub(super) fn is_severe_enough(message: Option<&Raw>, wanted: Option<&str>) -> bool {
    let rank = |level: &str| LOG_LEVELS.iter().position(|known| *known == level);
    let has = message.and_then(|params| raw::get_str(params, "level")).and_then(|level| rank(&level));
    has.zip(wanted.and_then(rank)).is_none_or(|(has, wanted)| has >= wanted)
}
