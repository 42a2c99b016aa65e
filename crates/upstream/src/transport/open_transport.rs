//! What every transport gives to its users. Nothing here depends on the kind of transport.

use super::remote::server_stream::ServerStream;
use crate::error::UpstreamError;
use crate::select::optional;
use futures_util::future::BoxFuture;
use http_client::error::RemoteError;
use process::launch::direct::LauncherUse;
use std::future::{pending, ready};
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use wire::Raw;
use wire::output::{Output, Writer};
use wire::peer::CallError;

/// An open transport, which carries messages as lines in both directions.
pub struct OpenTransport {
    /// The lines that the upstream sends.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// Accepts the lines for the upstream.
    pub output: Output,
    /// Writes the lines that `output` accepted. The user of the transport has to run it.
    pub writer: Writer,
    /// Watches the connection and ends it.
    pub handle: TransportHandle,
    /// The requests that the upstream will never answer.
    pub failures: RequestFailures,
}

/// How much time the end of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// One upstream stops while the proxy continues.
    Ordinary,
    /// The proxy itself ends. A client does not wait for that, but the warden gives processes their time.
    Shutdown,
}

/// The upstream's side of an open transport. The connection ends when the last clone is dropped.
pub type TransportHandle = Arc<dyn ServerControl>;

/// What is known of the server at the other end of a transport, and how the transport ends it. What a kind of server
/// cannot tell is left out.
pub trait ServerControl: Send + Sync {
    /// Returns the last lines that the upstream wrote to stderr; empty for a remote server and for a shared one that
    /// runs.
    fn stderr_tail(&self) -> String {
        String::new()
    }

    /// Returns advice to change the config although the connection works, if there is any.
    fn finding(&self) -> Option<String> {
        None
    }

    /// Returns what is known of the upstream's own event stream, if it may have one.
    fn server_stream(&self) -> Option<Arc<ServerStream>> {
        None
    }

    /// Returns the upstream's process, if it is one on this machine.
    fn process(&self) -> Option<ServerProcess> {
        None
    }

    /// Notes how to start the upstream's process without its launcher, if that is possible. Called once the server has
    /// answered. Takes 2 s at most.
    fn learn_start(&self) -> BoxFuture<'_, Option<LauncherUse>> {
        Box::pin(ready(None))
    }

    /// Forgets how to start the upstream without its launcher. Returns whether it was started without it.
    fn forget_direct_start(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(false))
    }

    /// Waits until the upstream has ended by itself and its last output has had time to be read. Only a process of our
    /// own can tell; for the others it never resolves, because they end their input when they end.
    fn drained(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// Returns why the connection accepts no more messages, if that is known before its input ends. Always `None` for a
    /// process.
    fn close_reason(&self) -> Option<RemoteError> {
        None
    }

    /// Returns the id of our request that the upstream's request `id` concerns, if the transport tells.
    fn call_of(&self, _id: &Raw) -> Option<Raw> {
        None
    }

    /// Returns how the connection ended. To be called after the end of its input.
    fn connection_end(&self) -> BoxFuture<'_, UpstreamError>;

    /// Ends the upstream process with its descendants, or the remote session. Returns when that is done. Does nothing for
    /// a shared process, whose host ends the session when the output is closed; the server keeps running while others use
    /// it. The caller closes the output first.
    fn stop(&self, _grace: Grace) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Handles a notification of the transport itself. Returns false if the notification is the upstream's.
    fn take_notification(&self, _method: &str, _params: Option<&Raw>) -> bool {
        false
    }
}

/// The process of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// The pid, for display only: the process may have ended.
    pub pid: u32,
    /// Whether other instances use it as well.
    pub is_shared: bool,
}

/// A request that will never be answered although the connection may still answer others.
#[derive(Debug)]
pub struct FailedRequest {
    /// The id of the request; `None` if the failure concerns the whole connection.
    pub id: Option<Raw>,
    /// Why it will not be answered.
    pub error: CallError,
}

/// The requests of one connection that will never be answered, as the transport learns of them.
pub struct RequestFailures(Option<mpsc::Receiver<FailedRequest>>);

impl RequestFailures {
    /// Makes the failures of a transport that cannot tell what became of a single request. Its requests fail when the
    /// connection ends.
    pub const NONE: Self = Self(None);

    /// Makes the failures that come from `receiver`.
    pub fn new(receiver: mpsc::Receiver<FailedRequest>) -> Self {
        Self(Some(receiver))
    }

    /// Waits for the next failure, forever if there is none. Cancel-safe.
    pub async fn next(&mut self) -> FailedRequest {
        match optional(self.0.as_mut().map(mpsc::Receiver::recv)).await {
            Some(failure) => failure,
            None => pending().await,
        }
    }
}
