//! Opens the transport a server's config asks for.
//!
//! `launch` finds out what to run, `warden` runs and ends it, `stderr` keeps its last words, `child` puts them
//! together. Remote transports have their place beside `child`.

use crate::config::{Endpoint, Server};
use child::Child;
use launch::Ambient;
use std::sync::Arc;
use std::time::Duration;
use warden::Warden;

pub mod child;
pub mod launch;
pub mod stderr;
pub mod warden;

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Unsupported(&'static str),
    #[error(transparent)]
    Launch(#[from] launch::LaunchError),
    #[error("the process could not be started: {0}")]
    Spawn(#[from] warden::SpawnError),
    #[error("the process was not started in time")]
    TimedOut(Duration),
}

/// How a connection ended by itself.
#[derive(Debug)]
pub struct Ending {
    /// A fragment such as "its process exited with code 3".
    pub how: String,
    /// The last lines of its stderr.
    pub stderr: String,
    /// Variables of ours that it was not given and that its stderr mentions.
    pub withheld: Vec<String>,
}

/// What every connection needs of the process.
#[derive(Clone)]
pub struct Transport {
    pub ambient: Arc<Ambient>,
    pub warden: Warden,
}

impl Transport {
    pub async fn open(&self, server: &Server) -> Result<child::Opened, OpenError> {
        match &server.endpoint {
            Endpoint::Stdio(stdio) => Child::start(self, stdio, server.timeout.connect).await,
            Endpoint::Http(_) => Err(OpenError::Unsupported(
                "remote servers (\"url\") come with a later version of dynamic-mcp; \
                 until then, run it through a stdio bridge such as `npx mcp-remote URL`",
            )),
        }
    }
}
