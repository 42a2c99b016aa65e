//! Takes the place of `shared` where servers cannot be shared: every connection is private. A config that asks for a
//! shared server gets a warning (`config/load/findings.rs`).

use super::child::ProcessEnd;
use super::connection::OpenTransport;
use super::launch::ProcessEnv;
use super::server_log::ServerLog;
use crate::config::{ServerConfig, StdioConfig};
use std::sync::Arc;
use std::time::Duration;
use wire::Raw;

/// Attaches to no server.
#[derive(Clone)]
pub struct NoSharedServers;

impl NoSharedServers {
    /// Whatever the environment is.
    pub fn new(_process_env: Arc<ProcessEnv>) -> Self {
        Self
    }

    /// Returns `None`: the server gets a process of its own.
    pub async fn open(
        &self,
        _server: &ServerConfig,
        _stdio: &StdioConfig,
        _max_message_bytes: usize,
        _limit: Duration,
        _log: &ServerLog,
    ) -> Option<OpenTransport<NoSession>> {
        None
    }
}

/// A session with a shared server. There is none.
#[derive(Clone)]
pub enum NoSession {}

impl NoSession {
    /// The pid of the server's process.
    pub fn pid(&self) -> u32 {
        match *self {}
    }

    /// Takes a notification that the host has sent.
    pub fn take_notification(&self, _method: &str, _params: Option<&Raw>) -> bool {
        match *self {}
    }

    /// Returns how the session ended.
    pub fn connection_end(&self) -> ProcessEnd {
        match *self {}
    }
}
