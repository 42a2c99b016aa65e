//! An upstream that is reached by HTTP: Streamable HTTP of every revision, and the HTTP+SSE before it.
//!
//! The peer of a remote connection writes and reads lines like any other. `driver` takes its lines and has each sent
//! by an `exchange`; what comes back goes to the peer through `intake`. A request that has no answer is a `Failure`,
//! beside the lines. `http` sends, `events` reads event streams, `standing` is the stream that belongs to no request,
//! `legacy` the older transport, `headers` and `annotations` what a stateless request says beside its body,
//! `credentials` who we are, `fault` what went wrong, `proxy` what of it is a proxy's fault.

use super::connection::{ConnectionEnd, OpenTransport, RequestFailures};
use super::error::OpenError;
use crate::config;
use crate::wire::lines::LineReader;
use crate::wire::output::Output;
use credentials::Credentials;
use driver::Driver;
use error::RemoteError;
use exchange::Exchange;
use http::Http;
use intake::Intake;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::Instrument;

pub mod annotations;
pub mod credentials;
pub mod driver;
pub mod error;
pub mod events;
pub mod exchange;
pub mod headers;
pub mod http;
pub mod intake;
pub mod legacy;
pub mod post;
pub mod proxy;
pub mod standing;
pub mod tls;

/// Messages that were received and not read yet; streams wait beyond that.
const RECEIVED: usize = 2;
/// What the driver has not read yet of what we send.
const WRITTEN: usize = 64 << 10;
const FAILURES: usize = 64;

/// A remote connection. Clones share it; it is ended with the last one.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    over: Arc<OnceLock<RemoteError>>,
    stop: watch::Sender<Option<Duration>>,
    driver: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Remote {
    /// Nothing is sent yet: the first message opens the connection.
    pub async fn start(
        config: &config::HttpConfig,
        connect: Duration,
        limit: usize,
        credentials: Arc<dyn Credentials>,
    ) -> Result<OpenTransport<Self>, OpenError> {
        let http = Http::new(config, connect, credentials).await?;
        let (incoming, received) = mpsc::channel(RECEIVED);
        let (failures, failed) = mpsc::channel(FAILURES);
        let exchange = Exchange::new(http, config.kind, limit, (incoming, failures));
        let over = exchange.over.clone();
        let (ours, theirs) = tokio::io::duplex(WRITTEN);
        let (output, writer) = Output::any(ours);
        let (stop, stopped) = watch::channel(None);
        // What we send is as long as our client may make it, and it was measured there.
        let driver = Driver::new(exchange, LineReader::new(theirs, usize::MAX), stopped);
        let driver = tokio::spawn(driver.run().in_current_span()).abort_handle();
        Ok(OpenTransport {
            input: Box::new(Intake::new(received)),
            output,
            writer,
            handle: Self(Arc::new(Inner { over, stop, driver })),
            failures: RequestFailures::new(failed),
        })
    }

    /// Why nothing more can be sent, if that is so.
    pub fn over(&self) -> Option<ConnectionEnd> {
        self.0.over.get().cloned().map(ConnectionEnd::Remote)
    }

    /// Ends what is under way and the session, in this time.
    pub async fn stop(&self, within: Duration) {
        self.0.stop.send_replace(Some(within));
        self.0.stop.closed().await;
    }
}
