//! How the process of a jq program ended.

/// The exit code of a process that took longer than it may. Unix has signals for that.
#[cfg(windows)]
pub(super) const TIMED_OUT: i32 = 102;
/// The exit code of a process that took more memory than it may.
#[cfg(windows)]
pub(super) const OUT_OF_MEMORY: i32 = 103;
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// How the process ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JqExit {
    /// It answered.
    Success,
    /// It panicked.
    Panicked,
    /// It reached a limit of time.
    TimedOut,
    /// It reached the limit of its memory or of its stack.
    OutOfMemory,
    /// It could not begin. The text says how it ended.
    Failed(String),
}

impl JqExit {
    /// Returns how a process ended that no limit has ended.
    pub(super) fn from_code(code: i32, status: impl std::fmt::Display) -> Self {
        match code {
            0 => Self::Success,
            PANICKED => Self::Panicked,
            _ => Self::Failed(status.to_string()),
        }
    }
}
