//! Accepts connections, and drains them at the end.

use super::access::AllowedNames;
use super::authentication::Access;
use super::limits::{PrincipalLimits, RequestCounter};
use super::service;
use super::timed_stream::TimedStream;
use super::tokens::Profile;
use front::server::single_request::RequestServer;
use front::session::sealed::KeyRing;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::inbound::ResponseFuture;

/// How many connections may be open. Further ones wait until one is closed.
const MAX_CONNECTIONS: usize = 20_000;
/// How long a client may take for the head of a request, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest head of a request, in bytes. hyper may read twice as much before it notices.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The largest number of headers.
const MAX_HEADERS: usize = 100;
/// How long to wait after the system refused a connection, for lack of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long open requests may take after the end began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests may still come after the end began: load balancers learn of it a moment later.
const DRAIN_QUIET: Duration = Duration::from_secs(3);

/// The options of the front.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The path of the MCP endpoint.
    pub path: String,
    /// The hosts and origins that requests may name.
    pub names: AllowedNames,
    /// The limits for each principal.
    pub limits: PrincipalLimits,
}

/// Whether requests should be sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet: the first lists of the servers are being read.
    Starting,
    /// Yes.
    Ready,
    /// No more: the process ends.
    Draining,
}

/// The HTTP server in front.
pub struct HttpFront {
    options: HttpOptions,
    /// Who may ask. It is replaced when the file of tokens changes.
    access: Mutex<Arc<Access>>,
    /// The keys for what clients carry. They are replaced when their file changes.
    keys: Mutex<Arc<KeyRing>>,
    /// The servers of requests, by profile.
    servers: Mutex<HashMap<Profile, Arc<RequestServer>>>,
    /// What each principal uses.
    counter: Arc<RequestCounter>,
    readiness: watch::Sender<Readiness>,
    /// The number of open requests.
    open: watch::Sender<usize>,
    /// The requests that end by themselves, whether or not their clients wait.
    running: Mutex<JoinSet<()>>,
}

/// Counts an open request until it is dropped.
pub(crate) struct OpenRequestGuard(watch::Sender<usize>);

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl HttpFront {
    /// Creates a front that has no servers yet.
    pub fn new(options: HttpOptions, access: Access, keys: KeyRing) -> Arc<Self> {
        Arc::new(Self {
            counter: RequestCounter::new(options.limits),
            options,
            access: Mutex::new(Arc::new(access)),
            keys: Mutex::new(Arc::new(keys)),
            servers: Mutex::default(),
            readiness: watch::Sender::new(Readiness::Starting),
            open: watch::Sender::new(0),
            running: Mutex::default(),
        })
    }

    /// Sets the server of requests whose principals have a profile.
    pub fn set_server(&self, profile: Profile, server: Arc<RequestServer>) {
        self.servers.lock().insert(profile, server);
    }

    /// Returns whether there is a server of requests for a profile.
    pub fn has_server(&self, profile: &Profile) -> bool {
        self.server(profile).is_some()
    }

    /// Replaces who may ask.
    pub fn set_access(&self, access: Access) {
        *self.access.lock() = Arc::new(access);
    }

    /// Replaces the keys.
    pub fn set_keys(&self, keys: KeyRing) {
        *self.keys.lock() = Arc::new(keys);
    }

    /// Notes that requests may be sent here. Does nothing once the process ends.
    pub fn set_ready(&self) {
        self.readiness.send_if_modified(|readiness| {
            let starts = *readiness == Readiness::Starting;
            if starts {
                *readiness = Readiness::Ready;
            }
            starts
        });
    }

    /// Serves requests until `stop` resolves. Then ends every stream that would not end by itself, and waits until no
    /// request is open and none has come for 3 s, but for 30 s at most.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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

    fn start(self: &Arc<Self>, (stream, place): Accepted, connections: &mut JoinSet<()>) {
        let front = self.clone();
        connections.spawn(async move {
            front.serve_connection(stream).await;
            drop(place);
        });
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        // It fails only if the client is gone already.
        drop(stream.set_nodelay(true));
        let service = service_fn(|request| {
            let front = self.clone();
            async move { Ok::<_, Infallible>(service::answer(&front, request).await) }
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

    pub(crate) fn options(&self) -> &HttpOptions {
        &self.options
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        self.access.lock().clone()
    }

    pub(crate) fn keys(&self) -> Arc<KeyRing> {
        self.keys.lock().clone()
    }

    pub(crate) fn counter(&self) -> &Arc<RequestCounter> {
        &self.counter
    }

    pub(crate) fn readiness(&self) -> Readiness {
        *self.readiness.borrow()
    }

    pub(crate) fn server(&self, profile: &Profile) -> Option<Arc<RequestServer>> {
        self.servers.lock().get(profile).cloned()
    }

    /// Counts an open request until the guard is dropped.
    pub(crate) fn open_request(&self) -> OpenRequestGuard {
        self.open.send_modify(|open| *open += 1);
        OpenRequestGuard(self.open.clone())
    }

    /// Returns a future for the answer. The request itself goes on if that is dropped.
    pub(crate) fn run_to_the_end(&self, answer: ResponseFuture) -> ResponseFuture {
        let (sender, receiver) = oneshot::channel();
        let mut running = self.running.lock();
        while running.try_join_next().is_some() {}
        running.spawn(async move { drop(sender.send(answer.await)) });
        // The task is dropped only if the request panics or the process ends.
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(front::errors::internal().into())) })
    }
}

/// A connection, and its place among those that may be open.
type Accepted = (TcpStream, OwnedSemaphorePermit);

/// Waits for a place and the next connection. Cancel-safe.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Accepted {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::debug!("no connection was accepted: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
