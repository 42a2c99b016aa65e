//! The tests of the program as a whole, in one crate: they link once, and share what they need.
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod calls;
mod config;
mod demo;
mod fidelity;
mod front;
mod layers;
mod lifetime;
mod matrix;
mod modes;
mod oauth;
mod protocol;
mod reload;
mod remote;
mod scripted;
mod support;
mod upstreams;
mod warden;
