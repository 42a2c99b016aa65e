//! What every transport gives to its users. Nothing here depends on the kind of transport.

use crate::select::optional;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use wire::Raw;
use wire::output::{Output, Writer};
use wire::peer::CallError;

/// An open transport, which carries messages as lines in both directions.
pub struct OpenTransport<H> {
    /// The lines that the upstream sends.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// Accepts the lines for the upstream.
    pub output: Output,
    /// Writes the lines that `output` accepted. The user of the transport has to run it.
    pub writer: Writer,
    /// Watches the connection and ends it.
    pub handle: H,
    /// The requests that the upstream will never answer.
    pub failures: RequestFailures,
}

impl<H> OpenTransport<H> {
    /// Replaces the handle.
    pub(crate) fn map_handle<T>(self, f: impl FnOnce(H) -> T) -> OpenTransport<T> {
        let Self { input, output, writer, handle, failures } = self;
        OpenTransport { input, output, writer, handle: f(handle), failures }
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
            None => std::future::pending().await,
        }
    }
}
