//! Tests of the built program. They are one crate, which links once and shares `support`.
//!
//! - `front`, `calls`, `protocol`: what a client can send, and what passes between client and upstreams;
//! - `fidelity`, `matrix`: an index by the behaviors of proxies, and every revision with every other;
//! - `upstreams`, `remote`, `oauth`: servers as processes, servers over HTTP, and logins;
//! - `config`, `modes`, `reload`: configs, when groups connect, and changes of the config;
//! - `lifetime`, `warden`: how the program and its processes end;
//! - `sharing`: servers that several windows share;
//! - `demo`: the command `demo`;
//! - `layers`: checks of the source tree;
//! - `scripted`: the scripted upstream itself, on which the other tests rely.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

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
mod sharing;
mod support;
mod upstreams;
mod warden;
