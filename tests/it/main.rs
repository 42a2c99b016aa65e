//! All integration tests, one binary.

#[cfg(target_os = "linux")]
mod warden;
