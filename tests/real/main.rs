//! dynamic-mcp between real clients and real servers, each as their authors publish it.
//!
//! `tests/real/setup` installs them into `target/real`. Where that was not done, every test here says `SKIPPED` and
//! passes; with `CI=true` or `DYNAMIC_MCP_REQUIRE_REAL=1` it fails instead.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod agents;
mod conformance;
mod http;
mod logins;
mod pairs;
mod remote;
mod scratch;
mod sdks;
mod servers;
mod tasks;
