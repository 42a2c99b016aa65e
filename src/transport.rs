//! How an upstream is reached.

#[cfg(unix)]
pub mod warden;
