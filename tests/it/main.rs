//! The tests of the program as a whole, in one crate: they link once, and share what they need.
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod config;
mod demo;
mod scripted;
mod warden;
