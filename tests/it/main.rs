//! All integration tests, one binary.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

#[cfg(target_os = "linux")]
mod warden;
