//! What all requests share: the options, who may ask, the keys, the servers, and the number of open requests. And what an
//! answer depends on for as long as it lasts: the token of its request, and the profile that the token gives.

use super::access::AllowedNames;
use super::authentication::UserAccess;
use super::limits::{PrincipalLimits, RequestCounter};
use super::tokens::{Principal, UserProfile};
use config::Config;
use front::server::single_request::RequestServer;
use front::session::caller::KeyRing;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use wire::inbound::ResponseFuture;

/// The longest head of a request, in bytes. hyper may read twice as much before it notices.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// The options of the front.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The path of the MCP endpoint.
    pub path: String,
    /// The hosts and origins that requests may name.
    pub names: AllowedNames,
    /// The limits for each principal.
    pub limits: PrincipalLimits,
    /// How many connections may be open. Further ones wait until one is closed.
    pub connections: usize,
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
    access: Mutex<Arc<UserAccess>>,
    /// The keys for what clients carry. They are replaced when their file changes.
    keys: Mutex<Arc<KeyRing>>,
    /// The servers of requests, by profile.
    pub(super) servers: Mutex<HashMap<UserProfile, Arc<RequestServer>>>,
    /// What each principal uses.
    counter: Arc<RequestCounter>,
    /// What each address uses without a token that counts.
    strangers: Arc<RequestCounter>,
    pub(super) readiness: watch::Sender<Readiness>,
    /// The number of open requests.
    pub(super) open: watch::Sender<usize>,
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
    pub fn new(options: HttpOptions, access: UserAccess, keys: KeyRing) -> Arc<Self> {
        Arc::new(Self {
            counter: RequestCounter::new(options.limits),
            strangers: RequestCounter::new(PrincipalLimits::STRANGERS),
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
    pub fn set_server(&self, profile: UserProfile, server: Arc<RequestServer>) {
        self.servers.lock().insert(profile, server);
    }

    /// Returns whether there is a server of requests for a profile.
    pub fn has_server(&self, profile: &UserProfile) -> bool {
        self.server(profile).is_some()
    }

    /// Replaces who may ask. Keys that were fetched from the same address stay.
    pub fn set_access(&self, mut access: UserAccess) {
        let mut current = self.access.lock();
        if let (Some(oauth), Some(last)) = (&mut access.oauth, &current.oauth) {
            oauth.keep_keys_of(last);
        }
        *current = Arc::new(access);
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

    pub(crate) fn options(&self) -> &HttpOptions {
        &self.options
    }

    pub(crate) fn access(&self) -> Arc<UserAccess> {
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

    /// Waits for the turn of a request that needs no token, so that a flood of them takes no time of users. Each address has
    /// turns of its own for each kind of request.
    pub(crate) async fn pace(&self, kind: &str, peer: IpAddr) {
        let begun = self.strangers.begin(&format!("{kind} from {}", network(peer)).into());
        let (Ok((_, wait)) | Err(wait)) = &begun;
        self.pause(*wait).await;
    }

    /// Waits for this long, or until the process ends.
    pub(crate) async fn pause(&self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        let mut readiness = self.readiness.subscribe();
        let ends = readiness.wait_for(|readiness| *readiness == Readiness::Draining);
        // Either outcome is the end of the wait.
        drop(timeout(wait, ends).await);
    }

    pub(crate) fn server(&self, profile: &UserProfile) -> Option<Arc<RequestServer>> {
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

/// Returns the address, or, in IPv6, the first of its network: whoever has one address there has all.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64)).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

/// How long a token that was checked counts, unless the tokens change.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// The right of a client to an answer.
pub(crate) struct Grant {
    front: Arc<HttpFront>,
    /// The bearer token, if the request has one.
    token: Option<Box<str>>,
    /// Whose token it is.
    principal: Principal,
    /// The config of the servers that the profile of the principal has.
    config: watch::Receiver<Arc<Config>>,
    /// Whether the config had the profile at first.
    had_profile: bool,
    /// Who could ask when the token was checked last, and when that was.
    checked: (Arc<UserAccess>, Instant),
}

impl Grant {
    /// Creates the right of a principal whose token was checked just now, by `access`.
    pub(crate) fn new(
        front: &Arc<HttpFront>,
        access: Arc<UserAccess>,
        token: Option<&str>,
        principal: Principal,
        config: watch::Receiver<Arc<Config>>,
    ) -> Self {
        let had_profile = !config.borrow().lacks_profile();
        let (front, token) = (front.clone(), token.map(Into::into));
        Self { front, token, principal, config, had_profile, checked: (access, Instant::now()) }
    }

    /// Returns whether the token still counts and gives the same, and whether the config still has the profile.
    pub(crate) async fn holds(&mut self) -> bool {
        if self.had_profile && self.config.borrow().lacks_profile() {
            return false;
        }
        let access = self.front.access();
        let (checked_by, at) = &self.checked;
        if Arc::ptr_eq(&access, checked_by) && at.elapsed() < CHECKED_FOR {
            return true;
        }
        let holds = access.principal(self.token.as_deref()).await.is_ok_and(|now| now == self.principal);
        self.checked = (access, Instant::now());
        holds
    }

    /// The name of the principal.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.principal.name
    }
}
