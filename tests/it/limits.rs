//! Exhausted resources: each costs an error, never the process.

// FIFOs and devices.
#[cfg(unix)]
mod files;
// A shell script.
#[cfg(unix)]
mod lists;
// Memory in /proc, and a shell script.
#[cfg(unix)]
pub(crate) mod memory;
mod nesting;
// Memory in /proc, and a shell script.
#[cfg(target_os = "linux")]
pub(crate) mod unread;
// Limits that a process inherits, and full devices.
#[cfg(unix)]
mod system;
// The processor's time of a thread in /proc.
#[cfg(target_os = "linux")]
mod texts;
