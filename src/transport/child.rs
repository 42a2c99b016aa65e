//! An upstream that is a child process: started, listened to, ended.

use super::launch::{self, ProcessEnv};
use super::stderr::Stderr;
use super::warden::{Exit, Grace, Process};
use super::{ConnectionEnd, OpenError, OpenTransport, RequestFailures, Transport, TransportHandle};
use crate::config::StdioConfig;
use crate::wire::output::{Output, PollableFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tracing::Instrument;

/// What a process still has to say after it ended (its last lines), or how it ended after it said its last.
const LAST: Duration = Duration::from_millis(100);
/// Lines of stderr that an error carries.
const LAST_WORDS: usize = 20;

/// A child process. Clones share it; the process is ended with the last one.
#[derive(Clone)]
pub struct Child(Arc<Inner>);

struct Inner {
    process: Process,
    stderr: Stderr,
    listening: tokio::task::JoinHandle<()>,
    ambient: Arc<ProcessEnv>,
    stdio: StdioConfig,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Child {
    /// Starts what `stdio` says. Bounded by `within`, besides the login shell that may be asked for its PATH once.
    pub async fn start(
        transport: &Transport,
        stdio: &StdioConfig,
        within: Duration,
    ) -> Result<OpenTransport, OpenError> {
        let launch = launch::prepare(stdio, &transport.ambient).await?;
        let started = timeout(within, transport.warden.spawn(launch)).await;
        let child = started.map_err(|_| OpenError::TimedOut(within))??;
        tracing::debug!(pid = child.pid, "process started");
        let stderr = Stderr::default();
        let listening = tokio::spawn(stderr.clone().follow(child.stderr).in_current_span());
        let (output, writer) = Output::direct(PollableFd::Pipe(child.stdin));
        let inner = Inner {
            process: child.process,
            stderr,
            listening,
            ambient: transport.ambient.clone(),
            stdio: stdio.clone(),
        };
        let link = TransportHandle::Child(Self(Arc::new(inner)));
        Ok(OpenTransport {
            input: Box::new(child.stdout),
            output,
            writer,
            link,
            failures: RequestFailures::NONE,
        })
    }

    /// What it last wrote to stderr.
    pub fn last_words(&self) -> String {
        self.0.stderr.tail(LAST_WORDS)
    }

    /// Resolves once the process has ended and had time to be read to its end.
    pub async fn drained(&self) {
        self.0.process.exited().await;
        tokio::time::sleep(LAST).await;
    }

    /// How it ended, asked when its stdout did.
    pub async fn ending(&self) -> ConnectionEnd {
        let exit = timeout(LAST, self.0.process.exited()).await;
        let stderr = self.last_words();
        let withheld = match exit {
            Ok(Exit::Code(0)) => Vec::new(),
            _ => launch::withheld(&self.0.ambient, &self.0.stdio, &stderr),
        };
        let how =
            exit.map_or_else(|_| "it closed its stdout".to_owned(), |exit| format!("its process {exit}"));
        ConnectionEnd::Process { how, stderr, withheld }
    }

    /// Ends it with all that it started. Its stdin was closed by the caller.
    pub async fn stop(&self, grace: Grace) {
        self.0.process.stop(grace).await;
    }
}
