//! The levels of log messages, as clients ask for them.

use wire::protocol::LogSeverity;
use wire::{Raw, raw};

/// Checks that `level` is a log level.
///
/// # Errors
///
/// Names the levels.
pub fn check_log_level(level: &str) -> Result<(), String> {
    match LogSeverity::parse(level) {
        Some(_) => Ok(()),
        None => Err(format!("unknown log level {level:?}: one of {}", LogSeverity::NAMES.join(", "))),
    }
}

/// Returns whether a log message is at least as severe as `wanted`. It is if either level is missing or unknown.
pub(super) fn is_severe_enough(message: Option<&Raw>, wanted: Option<&str>) -> bool {
    let has = message.and_then(|params| raw::get_str(params, "level"));
    let has = has.and_then(|level| LogSeverity::parse(&level));
    has.zip(wanted.and_then(LogSeverity::parse)).is_none_or(|(has, wanted)| has >= wanted)
}
