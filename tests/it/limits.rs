//! Exhausted resources: each costs an error, never the process.

// FIFOs and devices.
#[cfg(unix)]
mod files;
mod memory;
mod nesting;
// Limits of the system, set with `prlimit`.
#[cfg(unix)]
mod system;
