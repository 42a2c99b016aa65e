//! How an upstream is reached: a child process, or HTTP.

pub mod launch;
pub mod stderr;
