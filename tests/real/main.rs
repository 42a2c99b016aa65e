//! dynamic-mcp between real clients and real servers, each in a version that its authors published.
//!
//! `tests/real/setup` installs them into `target/real`. Without it, every test here prints `SKIPPED` and passes; with
//! `CI=true` or `DYNAMIC_MCP_REQUIRE_REAL=1` it fails instead.
//!
//! - `client_server_pairs`, `reference_server_http`, `reference_server_tasks`: the reference servers (`reference_servers`)
//!   with the clients of the official SDKs (`clients`);
//! - `sdk_servers_stdio`, `sdk_servers_http`: servers made with the official SDKs;
//! - `launchers`: servers of `npx` and `uvx` without these;
//! - `agents`: OpenCode, Codex, Gemini CLI and Copilot CLI, with the model `fake_model`;
//! - `broken_servers`: all of these clients, FastMCP and MCP Inspector, where four of eight servers are broken;
//! - `conformance`, `client_conformance`: the official conformance suite, with dynamic-mcp as the server and as the client;
//! - `deployment`: the manifest for Kubernetes;
//! - `odd_servers`: servers that deviate from MCP, directly and through dynamic-mcp;
//! - `plugins`: an import of the servers of a plugin of Codex and of an extension of Gemini CLI, and its undo;
//! - `roots`: a server that asks for roots at its start;
//! - `serve_http`: the official SDKs' clients of `dynamic-mcp serve --http`, and an authorization server;
//! - `unusual_servers`: servers that do what MCP does not foresee, with the official SDKs' clients beside dynamic-mcp;
//! - `status_page`: the status page, in Chromium and in the host side of MCP Apps.
//!
//! Each test runs in a `workspace`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod agents;
mod broken_servers;
mod client_conformance;
mod client_server_pairs;
mod clients;
mod conformance;
mod deployment;
mod fake_model;
// It reads /proc.
#[cfg(target_os = "linux")]
mod launchers;
mod odd_servers;
mod plugins;
mod reference_server_http;
mod reference_server_tasks;
mod reference_servers;
mod roots;
mod sdk_servers_http;
mod sdk_servers_stdio;
mod serve_http;
mod status_page;
#[path = "../helpers/turn.rs"]
mod turn;
mod unusual_servers;
mod workspace;
