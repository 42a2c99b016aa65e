//! Accepts connections, and drains them at the end.

use super::service;
use super::state::{HttpFront, MAX_HEAD_BYTES, Readiness};
use super::timed_stream::TimedStream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How long a client may take for the head of a request, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest number of headers.
const MAX_HEADERS: usize = 100;
/// How long to wait after the system refused a connection, for lack of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long open requests may take after the end began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests may still come after the end began: load balancers learn of it a moment later.
const DRAIN_QUIET: Duration = Duration::from_secs(3);

impl HttpFront {
    /// Serves requests until `stop` resolves. Then ends every stream that would not end by itself, and waits until no
    /// request is open and none has come for 3 s, but for 30 s at most.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(self.options().connections));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = accept(&listener, &places) => self.start(accepted, &mut connections),
                Some(_) = connections.join_next() => {}
            }
        }
        self.readiness.send_replace(Readiness::Draining);
        self.servers.lock().values().for_each(|server| server.close());
        let mut drained = pin!(self.drained());
        loop {
            tokio::select! {
                biased;
                () = &mut drained => break,
                accepted = accept(&listener, &places) => self.start(accepted, &mut connections),
                Some(_) = connections.join_next() => {}
            }
        }
        connections.shutdown().await;
    }

    fn start(self: &Arc<Self>, (stream, peer, place): Accepted, connections: &mut JoinSet<()>) {
        let front = self.clone();
        connections.spawn(async move {
            front.serve_connection(stream, peer).await;
            drop(place);
        });
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, peer: IpAddr) {
        // It fails only if the client is gone already.
        drop(stream.set_nodelay(true));
        let service = service_fn(|request| {
            let front = self.clone();
            // Boxed, so that a connection is small while it is idle.
            Box::pin(async move { Ok::<_, Infallible>(service::answer(&front, peer, request).await) })
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
        // At the end, each answer closes its connection. An idle one stays open: a load balancer may just send on it.
        let ended = builder.serve_connection(TokioIo::new(TimedStream::new(stream)), service).await;
        if let Err(error) = ended {
            tracing::debug!("a connection ended: {error}");
        }
    }

    /// Waits until no request is open and none has come for `DRAIN_QUIET`, for `DRAIN_TIMEOUT` at most.
    async fn drained(&self) {
        let mut open = self.open.subscribe();
        let quiet = async {
            loop {
                if open.wait_for(|open| *open == 0).await.is_err() {
                    return;
                }
                open.mark_unchanged();
                if timeout(DRAIN_QUIET, open.changed()).await.is_err() {
                    return;
                }
            }
        };
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        tokio::select! {
            () = quiet => tracing::info!("every request was answered"),
            () = sleep_until(deadline) => tracing::warn!("some requests took too long and are cut off"),
        }
    }
}

/// A connection, the address of its other side, and its place among those that may be open.
type Accepted = (TcpStream, IpAddr, OwnedSemaphorePermit);

/// Waits for a place and the next connection. Cancel-safe.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Accepted {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer.ip(), place),
            Err(error) => {
                tracing::debug!("no connection was accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
