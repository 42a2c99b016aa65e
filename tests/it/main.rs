//! All integration tests: one crate, so that they link once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scripted;
