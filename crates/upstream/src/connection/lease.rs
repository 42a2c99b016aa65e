//! The live connection of a group, and the leases that keep it open.

use super::malformed_lines::{SkippedText, UnreadableMessages};
use super::roots::RootsExchange;
use super::translate;
use crate::catalog::{Catalog, CatalogSource};
use crate::error::UpstreamError;
use crate::lifecycle::{KeptFor, Usage};
use crate::select::optional;
use crate::transport::ServerProcess;
use crate::transport::remote::server_stream::ServerStream;
use base::clock;
use base::use_count::UseCount;
use process::launch::direct::LauncherUse;
use process::server_log::{LogCursor, LogPage, READ_LOG};
use serde_json::json;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::body::Body;
use wire::peer::{CallError, CallOptions, Peer};
use wire::protocol::{Era, capability};
use wire::{CallReply, Raw, Reply, raw};

/// The right to use a connection. The connection is not closed for being idle while a lease exists.
pub struct Lease(Arc<LiveConnection>);

impl Lease {
    /// The connection's JSON-RPC peer.
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// The era that the server speaks.
    pub fn era(&self) -> Era {
        self.0.era
    }

    /// Returns whether the tools of the catalog were read on this connection.
    pub fn has_read(&self, catalog: &Catalog) -> bool {
        matches!(catalog.source, CatalogSource::Live(at) if at >= self.0.opened)
    }

    /// Sends a request of a client to a server of the same era. Returns also what members the answer may have. The first
    /// request on the connection waits until the server has the roots that it asked for.
    ///
    /// # Errors
    ///
    /// Those of [`call`](Self::call).
    pub async fn call_with(
        &self,
        method: &str,
        params: Option<&Body>,
        options: &CallOptions,
    ) -> Result<CallReply, CallError> {
        self.exchange_roots().await;
        // Here and not in a function of its own, whose future would have all of this once more.
        let outcome = match self.0.peer.send_call(method, params, options).await {
            Ok(sent) => sent.outcome().await,
            Err(error) => Err(error),
        };
        if let Err(CallError::Closed { .. }) = &outcome {
            self.end_known().await;
        }
        outcome
    }

    /// Sends a request of a client that was made in the era `from`, translated into the server's era. The first request
    /// on the connection waits until the server has the roots that it asked for.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. An error that the server answers with is an `Ok(Err(_))`.
    pub async fn call(
        &self,
        method: &str,
        params: Option<&Body>,
        from: Era,
        options: &CallOptions,
    ) -> Result<Reply, CallError> {
        self.exchange_roots().await;
        let outcome = match (from, self.0.era) {
            (Era::Handshake, Era::Handshake) => self.exchange(method, params, options).await,
            (from, to) => {
                let params = params.map(Body::join);
                let translated =
                    translate::request(params, from, to, &self.0.stateless_offer).map(Body::from);
                self.exchange(method, translated.as_ref(), options).await
            }
        };
        if let Err(CallError::Closed { .. }) = &outcome {
            self.end_known().await;
        }
        outcome
    }

    async fn exchange(
        &self,
        method: &str,
        params: Option<&Body>,
        options: &CallOptions,
    ) -> Result<Reply, CallError> {
        let sent = self.0.peer.send_call(method, params, options).await?;
        Ok(sent.outcome().await?.reply)
    }

    /// Waits until it is known why the connection ended, for `REASON_TIMEOUT` at most. A request may notice the end first.
    async fn end_known(&self) {
        // Boxed, so that the future of a call that is answered is small.
        drop(Box::pin(tokio::time::timeout(REASON_TIMEOUT, self.ended())).await);
    }

    async fn exchange_roots(&self) {
        if !self.0.roots.is_over() {
            // Boxed, so that the future of a call that need not wait is small.
            Box::pin(self.0.roots.over()).await;
        }
    }

    /// Resolves when the connection has ended, or will end as soon as no lease is left.
    pub async fn ended(&self) {
        loop {
            let closed = self.0.closed.notified();
            if self.0.leases.is_closed() {
                return;
            }
            closed.await;
        }
    }

    /// Why the connection ended, once it has ended by itself.
    pub fn lost(&self) -> Option<Arc<UpstreamError>> {
        self.0.lost.get().cloned()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A connection that is open, and the count of its users.
pub struct LiveConnection {
    /// The JSON-RPC peer.
    pub(super) peer: Arc<Peer>,
    /// The era that the server speaks.
    pub(crate) era: Era,
    /// The capabilities of the clients.
    pub(crate) offered: Raw,
    /// What of them requests declare to a stateless server, unless a request declares its own.
    pub(crate) stateless_offer: Raw,
    /// Whether the server has the client's roots, if it asks for them.
    pub(super) roots: Arc<RootsExchange>,
    /// The server's own event stream, if it may have one.
    server_stream: Option<Arc<ServerStream>>,
    /// The server's process, if it is one on this machine.
    process: Option<ServerProcess>,
    /// What `"launcher": "direct"` did for the process, if the config has it.
    launcher: OnceLock<LauncherUse>,
    /// The number of leases, and whether there may be more.
    leases: UseCount,
    /// When the connection was made.
    opened: Instant,
    /// When the connection was last used, in nanoseconds after `opened`.
    last_activity: AtomicU64,
    /// What the connection is kept for, a `KeptFor`.
    kept_for: AtomicU8,
    /// Notified when the last lease is returned, if somebody waits for that.
    unused: Notify,
    /// Notified when no more leases are given out.
    closed: Notify,
    /// Why the connection ended, if it did so by itself.
    pub(crate) lost: OnceLock<Arc<UpstreamError>>,
    /// The unreadable messages that belong to no call.
    pub(crate) unreadable: Arc<UnreadableMessages>,
    /// The first lines that were not meant as messages.
    pub(crate) skipped: Arc<SkippedText>,
}

/// How long after the handshake a server may take until its list of tools is complete.
const SETTLE_TIME: Duration = Duration::from_millis(500);
/// How long a call that ends with its connection waits for the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the host may take to send a log. It has the log and does not ask the server.
const READ_LOG_TIMEOUT: Duration = Duration::from_secs(1);

impl LiveConnection {
    /// Makes a connection without leases. `offered`: the capabilities of the clients.
    pub(crate) fn new(
        peer: Arc<Peer>,
        era: Era,
        process: Option<ServerProcess>,
        offered: &Raw,
        roots: Arc<RootsExchange>,
        server_stream: Option<Arc<ServerStream>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer,
            era,
            offered: offered.clone(),
            // A stateless server knows tasks as an extension.
            stateless_offer: raw::remove(offered, capability::TASKS),
            roots,
            server_stream,
            process,
            launcher: OnceLock::new(),
            leases: UseCount::default(),
            opened: Instant::now(),
            last_activity: AtomicU64::new(0),
            kept_for: AtomicU8::new(KeptFor::Use as u8),
            unused: Notify::new(),
            closed: Notify::new(),
            lost: OnceLock::new(),
            unreadable: Arc::default(),
            skipped: Arc::default(),
        })
    }

    /// Returns a lease, unless the connection is closed.
    pub(crate) fn lease(self: &Arc<Self>) -> Option<Lease> {
        self.leases.add().then(|| Lease(self.clone()))
    }

    /// Notes what `"launcher": "direct"` did for the server's process. Only the first call counts.
    pub(crate) fn set_launcher(&self, used: LauncherUse) {
        // Nobody else sets it.
        drop(self.launcher.set(used));
    }

    /// What `"launcher": "direct"` did for the server's process, if the config has it.
    pub(crate) fn launcher(&self) -> Option<&LauncherUse> {
        self.launcher.get()
    }

    /// The server's process, if it is one on this machine.
    pub(crate) fn process(&self) -> Option<ServerProcess> {
        self.process
    }

    /// Returns what the user should know of the connection although it works.
    pub(crate) fn finding(&self) -> Option<String> {
        self.server_stream.as_ref()?.finding()
    }

    /// How many requests of clients are in flight, and when the first of them began.
    pub(crate) fn calls_in_flight(&self) -> (usize, Option<Instant>) {
        self.peer.calls_in_flight()
    }

    /// Asks the host for the log of a shared server. `None` if it does not answer with the log within
    /// `READ_LOG_TIMEOUT`.
    pub(crate) async fn read_log(&self, after: Option<LogCursor>) -> Option<LogPage> {
        let params = Raw::from(json!({ "after": after }).to_string());
        let reply = self.peer.call(READ_LOG, Some(params), CallOptions::within(READ_LOG_TIMEOUT)).await;
        serde_json::from_slice(&reply.ok()?.ok()?).ok()
    }

    fn release(&self) {
        self.touch();
        // The load alone costs less.
        if self.kept_for.load(Ordering::Relaxed) != KeptFor::Use as u8 {
            self.kept_for.store(KeptFor::Use as u8, Ordering::Release);
        }
        if self.leases.remove() {
            self.unused.notify_one();
        }
    }

    /// Returns how the connection is used now. If it is in use, `until_unused` resolves when that ends.
    pub(crate) fn watch_usage(&self) -> Usage {
        Usage { leases: self.leases.watch(), ..self.usage() }
    }

    /// Resolves when the last lease is returned after `watch_usage` found the connection in use. It may also resolve
    /// earlier, so the task checks the usage again. Without a connection it never resolves. Cancel-safe.
    pub(crate) async fn until_unused(connection: Option<&Self>) {
        optional(connection.map(|connection| connection.unused.notified())).await;
    }

    /// Notes what the connection is kept for, until a lease is returned.
    pub(crate) fn set_kept_for(&self, kept_for: KeptFor) {
        self.kept_for.store(kept_for as u8, Ordering::Release);
    }

    /// Resolves when `SETTLE_TIME` has passed since the connection was made.
    pub(crate) fn settled(&self) -> tokio::time::Sleep {
        tokio::time::sleep_until(self.opened + SETTLE_TIME)
    }

    /// Restarts the idle timer.
    pub(crate) fn touch(&self) {
        let elapsed = clock::now().saturating_duration_since(self.opened);
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.last_activity.store(elapsed, Ordering::Release);
    }

    /// How the connection is used now.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            leases: self.leases.users(),
            last_activity: self.opened + Duration::from_nanos(self.last_activity.load(Ordering::Acquire)),
            kept_for: KeptFor::of(self.kept_for.load(Ordering::Acquire)),
        }
    }

    /// Stops giving out leases, unless one exists. Returns whether the connection is closed now.
    pub(crate) fn close_if_unused(&self) -> bool {
        self.leases.close_if_unused()
    }

    /// Stops giving out leases.
    pub(crate) fn close(&self) {
        self.leases.close();
        self.closed.notify_waiters();
    }

    /// Records why the connection ended, and gives out no more leases. The first reason stays.
    pub(crate) fn lose(&self, error: UpstreamError) {
        drop(self.lost.set(Arc::new(error)));
        self.close();
        self.roots.end();
    }
}

impl std::fmt::Debug for LiveConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveConnection").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use process::server_log::ServerLog;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use wire::lines::LineReader;
    use wire::output::Output;

    fn new_connection(peer: Arc<Peer>, era: Era, process: Option<ServerProcess>) -> Arc<LiveConnection> {
        let roots = RootsExchange::new(Arc::default(), false, Arc::default());
        LiveConnection::new(peer, era, process, &Raw::from_static(b"{}"), roots, None)
    }

    fn connection() -> Arc<LiveConnection> {
        let (output, _writer) = Output::any(tokio::io::sink());
        new_connection(Peer::new(output).0, Era::Handshake, None)
    }

    fn was_notified(connection: &LiveConnection) -> bool {
        LiveConnection::until_unused(Some(connection)).now_or_never().is_some()
    }

    #[test]
    fn the_end_of_a_use_is_told_only_to_those_who_saw_it() {
        let connection = connection();
        assert_eq!(connection.watch_usage().leases, 0);
        drop(connection.lease());
        assert!(!was_notified(&connection), "a call that nobody saw wakes nobody");
        let (first, second) = (connection.lease(), connection.lease());
        assert_eq!(connection.watch_usage().leases, 2);
        drop(first);
        assert!(!was_notified(&connection), "it is still in use");
        drop(second);
        assert!(was_notified(&connection));
        drop(connection.lease());
        assert!(!was_notified(&connection), "nobody has looked since");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_counts_as_used_until_its_lease_is_returned() {
        let connection = connection();
        let opened = connection.usage();
        assert_eq!(opened, Usage { leases: 0, last_activity: Instant::now(), kept_for: KeptFor::Use });
        let lease = connection.lease();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(connection.usage(), Usage { leases: 1, ..opened });
        drop(lease);
        assert_eq!(connection.usage(), Usage { last_activity: Instant::now(), ..opened });
        assert!(format!("{connection:?}").contains("leases: 0"), "a failed assertion shows the usage");
    }

    #[test]
    fn only_a_connection_without_leases_is_closed_for_being_unused() {
        let connection = connection();
        let lease = connection.lease();
        assert!(!connection.close_if_unused());
        drop(lease);
        assert!(connection.close_if_unused());
        assert!(connection.lease().is_none());
    }

    #[test]
    fn whoever_has_a_lease_hears_that_the_connection_ends_and_why() {
        let closed = connection();
        let lease = closed.lease().unwrap();
        let mut ended = std::pin::pin!(lease.ended());
        assert!(ended.as_mut().now_or_never().is_none());
        closed.close();
        assert!(ended.now_or_never().is_some());
        assert!(lease.ended().now_or_never().is_some(), "also who asks later");
        assert!(lease.lost().is_none() && closed.lease().is_none());
        let lost = connection();
        let lease = lost.lease().unwrap();
        lost.lose(UpstreamError::Spawn { message: "first".into() });
        lost.lose(UpstreamError::Internal);
        assert!(lease.ended().now_or_never().is_some());
        assert!(
            matches!(lease.lost().as_deref(), Some(UpstreamError::Spawn { .. })),
            "the first reason stays"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_after_the_reason_is_known() {
        let connection = connection();
        connection.peer.output().close();
        let lease = connection.lease().unwrap();
        let lose = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            connection.lose(UpstreamError::Internal);
        };
        let options = CallOptions::within(Duration::from_secs(9));
        let call = async {
            let outcome = lease.call("tools/call", None, Era::Handshake, &options).await;
            (matches!(outcome, Err(CallError::Closed { .. })), lease.lost().is_some())
        };
        assert_eq!(tokio::join!(call, lose).0, (true, true));
    }

    #[test]
    fn what_is_known_of_the_server_is_kept() {
        let (output, _writer) = Output::any(tokio::io::sink());
        let process = Some(ServerProcess { pid: 7, is_shared: false });
        let connection = new_connection(Peer::new(output).0, Era::Stateless, process);
        assert_eq!(connection.process(), process);
        assert!(connection.launcher().is_none());
        connection.set_launcher(LauncherUse::LeftOut);
        connection.set_launcher(LauncherUse::Learned);
        assert!(matches!(connection.launcher(), Some(LauncherUse::LeftOut)), "only the first call counts");
        let lease = connection.lease().unwrap();
        assert_eq!(lease.era(), Era::Stateless);
        assert!(std::ptr::eq(lease.peer(), &raw const *connection.peer));
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_of_a_shared_server_comes_from_the_host() {
        let (stream, host) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(stream);
        let (output, writer) = Output::any(write);
        let writing = tokio::spawn(writer.run());
        let peer = Peer::new(output).0;
        let reader = peer.clone();
        let reading = tokio::spawn(async move {
            let mut lines = LineReader::new(Box::new(read), 1 << 16);
            while reader.receive(&mut lines).await.is_some() {}
        });
        let connection = new_connection(peer, Era::Handshake, None);
        let server = ServerLog::default();
        server.push("a line".to_owned());
        let page = server.after(None);
        let (question, mut answers) = tokio::io::split(host);
        let answer = async {
            let question = BufReader::new(question).lines().next_line().await.unwrap().unwrap();
            assert!(question.contains(READ_LOG), "{question}");
            let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": page });
            answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        };
        let log = async { tokio::join!(connection.read_log(None), answer).0 };
        let log = tokio::time::timeout(Duration::from_secs(60), log).await.unwrap();
        assert_eq!(log.as_ref(), Some(&page));
        reading.abort();
        writing.abort();
    }

    #[tokio::test]
    async fn the_requests_of_clients_are_counted() {
        let (output, _writer) = Output::any(tokio::io::sink());
        let connection = new_connection(Peer::new(output).0, Era::Handshake, None);
        assert_eq!(connection.calls_in_flight(), (0, None));
        let options = CallOptions { origin: Some(1), ..CallOptions::within(Duration::from_secs(9)) };
        let mut call = std::pin::pin!(connection.peer.call("tools/call", None::<Raw>, options));
        assert!(futures_util::poll!(&mut call).is_pending());
        let (count, since) = connection.calls_in_flight();
        assert!(count == 1 && since.is_some_and(|since| since <= Instant::now()));
    }
}
