//! Tests of the built program. They are one crate, which links once and shares `support`.
//!
//! - `front`, `calls`, `protocol`: what a client can send, and what passes between client and upstreams;
//! - `fidelity`, `matrix`: an index by the behaviors of proxies, and every revision with every other;
//! - `upstreams`, `remote`, `oauth`: servers as processes, servers over HTTP, and logins;
//! - `config`, `modes`, `reload`: configs, when groups connect, and changes of the config;
//! - `large_results`: `select`, and results that are stored;
//! - `limits`: hostile files, limits of the system, instances inside one another, and the memory for messages;
//! - `secrets`, `secret_commands`: values that a config names instead of having them;
//! - `pins`: definitions of tools that change;
//! - `lifetime`, `warden`, `console`: how the program and its processes end;
//! - `isolation`: what other processes and users can read and change;
//! - `sharing`: servers that several windows share;
//! - `shell`: the commands `tools`, `search`, `call`, `resources` and `prompts`;
//! - `terminal`: what commands print of hostile names, paths and answers;
//! - `check`: the command `check`;
//! - `launcher`: servers of `npx` and `uvx` without these;
//! - `completions`: what a shell completes, in bash, zsh and fish;
//! - `serve_http`: many users over HTTP;
//! - `servers`, `bundles`: the commands `add`, `remove`, `enable` and `disable`;
//! - `search`: ranked search against bare BM25F, on public sets of queries;
//! - `demo`: the command `demo`;
//! - `import`: the command `import`, on files of every client;
//! - `packages`: archives, npm packages and the like that packaging/ makes;
//! - `docs`: the tables, links, configs and commands in README.md and docs;
//! - `layers`, `security_doc`: checks of the source tree and of what docs/security.md says about it;
//! - `soak`: hours of use with every kind of fault, by `.ci/long` only;
//! - `scripted`: the scripted upstream itself, on which the other tests rely.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]
#![allow(clippy::print_stderr, reason = "what a test prints is shown if it fails")]

mod bundles;
mod calls;
mod check;
// Shells in /usr/bin, which macOS has elsewhere.
#[cfg(all(unix, not(target_os = "macos")))]
mod completions;
mod config;
// Its events are what other systems have signals for.
#[cfg(windows)]
mod console;
mod demo;
// Commands of a shell, and checks of the pages, which are the same on every system.
#[cfg(unix)]
mod docs;
mod fidelity;
mod front;
mod import;
// Users and modes.
#[cfg(unix)]
mod isolation;
mod large_results;
// Only Linux shows what a launcher starts.
#[cfg(target_os = "linux")]
mod launcher;
mod layers;
mod lifetime;
mod limits;
mod matrix;
mod modes;
mod oauth;
// Packages for Linux are run.
#[cfg(target_os = "linux")]
mod packages;
mod pins;
mod protocol;
mod reload;
mod remote;
mod scripted;
mod search;
mod secret_commands;
// Shell scripts, modes and a D-Bus.
#[cfg(all(unix, not(target_os = "macos")))]
mod secrets;
mod security_doc;
// Signals.
#[cfg(unix)]
mod serve_http;
mod servers;
mod setup;
// Nothing is shared elsewhere.
#[cfg(target_os = "linux")]
mod sharing;
mod shell;
// Processes that are found in /proc.
#[cfg(unix)]
mod soak;
mod support;
// Sockets and pseudoterminals. Windows has no line breaks and escape sequences in names of files.
#[cfg(unix)]
mod terminal;
mod tokens;
mod upstreams;
// Windows has no warden: `process/windows_jobs/tests.rs` has the tests of what takes its place.
#[cfg(unix)]
mod warden;
// It replaces functions of the C library.
#[cfg(target_os = "linux")]
mod write_faults;
