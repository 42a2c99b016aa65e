//! Opens the transport a server's config asks for.
//!
//! `launch` finds out what to run, `warden` runs and ends it, `stderr` keeps its last words, `child` puts them
//! together. `remote` is for servers that are reached by HTTP.

use crate::config::{Endpoint, GroupName, ServerConfig};
use crate::wire::output::{Output, Writer};
use child::Child;
use launch::ProcessEnv;
use remote::Remote;
use remote::credentials::LoginService;
use remote::error::{FailedRequest, RemoteError};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use warden::{Grace, Warden};

pub mod child;
pub mod launch;
pub mod remote;
pub mod stderr;
pub mod warden;

/// Why a transport could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Launch(#[from] launch::LaunchError),
    #[error("the process could not be started: {0}")]
    Spawn(#[from] warden::SpawnError),
    #[error("the process was not started in time")]
    TimedOut(Duration),
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// How a connection ended by itself.
#[derive(Debug)]
pub enum ConnectionEnd {
    Process {
        /// A fragment such as "its process exited with code 3".
        how: String,
        /// The last lines of its stderr.
        stderr: String,
        /// Variables of ours that it was not given and that its stderr mentions.
        withheld: Vec<String>,
    },
    Remote(RemoteError),
}

/// A transport that is open: lines in, lines out.
pub struct OpenTransport {
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    pub output: Output,
    pub writer: Writer,
    pub link: TransportHandle,
    pub failures: RequestFailures,
}

/// Requests that the transport knows to have no answer.
pub struct RequestFailures(Option<mpsc::Receiver<FailedRequest>>);

impl RequestFailures {
    /// Of a transport that cannot tell: its requests have no answer when the connection has ended.
    pub const NONE: Self = Self(None);

    pub fn of(failures: mpsc::Receiver<FailedRequest>) -> Self {
        Self(Some(failures))
    }

    /// Never resolves where there is none. Cancel-safe.
    pub async fn next(&mut self) -> FailedRequest {
        let failure = match &mut self.0 {
            Some(failures) => failures.recv().await,
            None => None,
        };
        match failure {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }
}

/// What is at the other end. Clones share it; it is ended with the last one.
#[derive(Clone)]
pub enum TransportHandle {
    Child(Child),
    Remote(Remote),
}

impl TransportHandle {
    /// What it last wrote to stderr.
    pub fn last_words(&self) -> String {
        match self {
            Self::Child(child) => child.last_words(),
            Self::Remote(_) => String::new(),
        }
    }

    /// Resolves once it has ended by itself and had time to be read to its end.
    pub async fn drained(&self) {
        match self {
            Self::Child(child) => child.drained().await,
            // Its input ends then.
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Why it takes nothing more, if it is known already.
    pub fn over(&self) -> Option<ConnectionEnd> {
        match self {
            Self::Child(_) => None,
            Self::Remote(remote) => remote.end_reason(),
        }
    }

    /// How it ended, asked when its input did.
    pub async fn ending(&self) -> ConnectionEnd {
        match self {
            Self::Child(child) => child.ending().await,
            Self::Remote(remote) => remote
                .end_reason()
                .unwrap_or_else(|| ConnectionEnd::Remote(RemoteError::connection_lost("it was closed"))),
        }
    }

    /// Ends it with all that belongs to it. Its input was closed by the caller.
    pub async fn stop(&self, grace: Grace) {
        match self {
            Self::Child(child) => child.stop(grace).await,
            Self::Remote(remote) => remote.stop(grace.term).await,
        }
    }
}

/// What every connection needs of the process.
#[derive(Clone)]
pub struct Transport {
    pub ambient: Arc<ProcessEnv>,
    pub warden: Warden,
    pub logins: Arc<dyn LoginService>,
}

impl Transport {
    /// `limit`: bytes of one message.
    pub async fn open(
        &self,
        group: &GroupName,
        server: &ServerConfig,
        limit: usize,
    ) -> Result<OpenTransport, OpenError> {
        match &server.endpoint {
            Endpoint::Stdio(stdio) => Child::start(self, stdio, server.timeout.connect).await,
            Endpoint::Http(http) => {
                let credentials = self.logins.credentials(group, http)?;
                Remote::start(http, server.timeout.connect, limit, credentials).await
            }
        }
    }
}
