//! Tests the task with scripted connections, in virtual time.

use super::*;
use crate::catalog::list_limits::LeftOff;
use crate::catalog::{OtherLists, ServerInfo};
use crate::connection::lease::LiveConnection;
use crate::connection::milestones::{Milestones, Need};
use crate::connection::roots::RootsExchange;
use crate::handle::AcquireError;
use crate::pins::group::GroupPins;
use config::tool_rules::Rules;
use config::{CommonConfig, Endpoint, HttpConfig, Mode, ServerConfig, StdioConfig, Timeouts};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::time::sleep;
use wire::Raw;
use wire::output::Output;
use wire::peer::Peer;
use wire::protocol::Era;

const WAIT: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);

/// A connector that makes fake connections. The next attempts follow a script; later ones succeed at once.
#[derive(Clone, Default)]
struct FakeConnector {
    /// How long each attempt takes, and whether it succeeds.
    script: Arc<Mutex<VecDeque<(Duration, bool)>>>,
    /// The number of attempts so far.
    attempts: Arc<AtomicU32>,
    /// Whether an attempt is in progress, or was dropped.
    unfinished: Arc<AtomicBool>,
    /// The number of connections that were closed.
    closed: Arc<AtomicU32>,
    /// Notify it to lose the connection.
    lose: Arc<Notify>,
    /// Notified when a connection is closed.
    shut: Arc<Notify>,
    /// Notify it to report that a list changed.
    lists_changed: Arc<Notify>,
    /// Whether the server reports a change whenever its lists are read.
    chatty: bool,
    /// Whether reading the lists again fails.
    refuses_lists: Arc<AtomicBool>,
    /// The number of times that the catalog was read again.
    refreshes: Arc<AtomicU32>,
    /// Whether each connection is lost as soon as it is made.
    loses_all: bool,
    /// Whether the server declares that it reports changes of its tools.
    announces: bool,
    /// Whether the server ends only when it is killed.
    ignores_the_end: bool,
}

impl FakeConnector {
    /// Returns a connector whose next attempts take so many seconds and succeed or fail.
    fn with_outcomes(outcomes: &[(u64, bool)]) -> Self {
        let outcomes = outcomes.iter().map(|&(seconds, good)| (Duration::from_secs(seconds), good));
        Self { script: Arc::new(Mutex::new(outcomes.collect())), ..Self::default() }
    }
    fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::SeqCst)
    }
    fn catalog(&self) -> Catalog {
        let capabilities = self.announces.then(|| r#"{"tools":{"listChanged":true}}"#.to_owned());
        let info = ServerInfo { capabilities, ..ServerInfo::default() };
        Catalog::new(info, Vec::new(), OtherLists::default(), LeftOff::default())
    }
    fn connection(&self) -> Connection {
        let peer = Peer::new(Output::any(tokio::io::sink()).0).0;
        let roots = RootsExchange::new(Arc::default(), false, Arc::default());
        let live = LiveConnection::new(peer, Era::Handshake, None, &Raw::from_static(b"{}"), roots, None);
        let (lose, lost, closed) = (self.lose.clone(), live.clone(), self.closed.clone());
        let (refuses_lists, read) = (self.refuses_lists.clone(), self.clone());
        let (refreshes, chatter) = (self.refreshes.clone(), self.chatty.then(|| self.lists_changed.clone()));
        let (shut, shutting) = (self.shut.clone(), self.shut.clone());
        let ignores_the_end = self.ignores_the_end;
        if self.loses_all {
            live.lose(UpstreamError::Internal);
            lose.notify_one();
        }
        Connection {
            live,
            ended: Box::pin(async move {
                tokio::select! {
                    () = lose.notified() => lost.lose(UpstreamError::Internal),
                    () = shut.notified() => {}
                }
            }),
            lists_changed: self.lists_changed.clone(),
            refresh: Box::new(move || {
                refreshes.fetch_add(1, Ordering::SeqCst);
                let (chatter, refuses) = (chatter.clone(), refuses_lists.load(Ordering::SeqCst));
                let catalog = read.catalog();
                Box::pin(async move {
                    sleep(Duration::from_millis(100)).await;
                    chatter.inspect(|chatter| chatter.notify_one());
                    if refuses { Err(UpstreamError::Internal) } else { Ok(catalog) }
                })
            }),
            close: Box::new(move |_| {
                closed.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    sleep(Duration::from_secs(if ignores_the_end { 4 } else { 1 })).await;
                    shutting.notify_waiters();
                })
            }),
        }
    }
}

impl Connect for FakeConnector {
    fn connect(&self, _: Arc<ServerConfig>, _: Milestones) -> BoxFuture<'static, AttemptResult> {
        let fake = self.clone();
        Box::pin(async move {
            fake.attempts.fetch_add(1, Ordering::SeqCst);
            let next = fake.script.lock().pop_front();
            let (takes, good) = next.unwrap_or((Duration::ZERO, true));
            fake.unfinished.store(true, Ordering::SeqCst);
            sleep(takes).await;
            fake.unfinished.store(false, Ordering::SeqCst);
            let error = UpstreamError::Spawn { message: "scripted".into() };
            if good { Ok((fake.connection(), fake.catalog())) } else { Err(error.into()) }
        })
    }
    fn abandon(&self, _: Grace) -> Option<BoxFuture<'static, ()>> {
        let closed = self.closed.clone();
        self.unfinished.swap(false, Ordering::SeqCst).then_some(())?;
        Some(Box::pin(async move {
            sleep(Duration::from_secs(1)).await;
            closed.fetch_add(1, Ordering::SeqCst);
        }))
    }
}

fn server_config(mode: Mode) -> ServerConfig {
    let stdio = StdioConfig {
        command: "x".into(),
        args: vec![],
        env: [].into(),
        cwd: None,
        inherit_env: config::InheritEnv::Safe,
    };
    ServerConfig {
        description: None,
        common: CommonConfig { mode, idle_timeout: Some(IDLE), ..CommonConfig::default() },
        timeout: Timeouts::default(),
        tools: Rules::default(),
        launch_text: config::LaunchText::default(),
        origin: config::ServerOrigin::default(),
        own_globs: vec![],
        warnings: vec![],
        endpoint: Endpoint::Stdio(stdio),
        secrets: config::secrets::ServerSecrets::default(),
    }
}

fn spawn_group(fake: &FakeConnector) -> Upstream {
    spawn_group_with(fake, server_config(Mode::Pure), &SharedState::new(8))
}

fn spawn_group_with(fake: &FakeConnector, server: ServerConfig, shared: &SharedState) -> Upstream {
    let spec = GroupSpec {
        name: GroupName::new("g"),
        server: Ok(Arc::new(server)),
        cached: None,
        pins: GroupPins::none(&GroupName::new("g")),
        predecessor: None,
        log: Default::default(),
        startup: Default::default(),
    };
    let (upstream, task) = create(spec, fake.clone(), shared.clone());
    tokio::spawn(task);
    upstream
}

fn state_name(upstream: &Upstream) -> &'static str {
    upstream.snapshot().state.name()
}

#[tokio::test(start_paused = true)]
async fn test_pending_state_created_on_init() {
    let fake = FakeConnector::default();
    for mode in [Mode::Eager, Mode::Hybrid, Mode::Pure] {
        let upstream = spawn_group_with(&fake, server_config(mode), &SharedState::new(8));
        sleep(Duration::from_secs(3600)).await;
        assert_eq!((fake.attempts(), state_name(&upstream)), (0, "pending"), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_transitions_pending_to_connected() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state_name(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_noop_if_already_connected() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    for _ in 0..3 {
        assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    }
    assert_eq!((fake.attempts(), state_name(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_returns_error_on_max_retries() {
    let fake = FakeConnector::with_outcomes(&[(0, false); 4]);
    let upstream = spawn_group(&fake);
    let started = Instant::now();
    assert!(matches!(upstream.acquire(Need::Lists, WAIT).await, Err(AcquireError::Failed(_))));
    assert_eq!((fake.attempts(), state_name(&upstream)), (4, "failed"));
    let took = started.elapsed().as_secs_f64();
    assert!((5.6..=8.4).contains(&took), "1 + 2 + 4 s, each ± 20 %: {took}");
}

#[tokio::test(start_paused = true)]
async fn test_record_activity_updates_timestamp() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    drop(upstream.acquire(Need::Lists, WAIT).await);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(upstream.snapshot().idle(), Some(Duration::from_secs(30)));
    assert_eq!(upstream.snapshot().closes_in(), Some(IDLE - Duration::from_secs(30)));
    upstream.expect_call();
    assert_eq!(upstream.snapshot().idle(), Some(Duration::ZERO));
    sleep(Duration::from_secs(10)).await;
    let lease = upstream.try_lease().unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!((upstream.snapshot().idle(), upstream.snapshot().closes_in()), (None, None), "it is in use");
    drop(lease);
    assert_eq!(upstream.snapshot().idle(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn test_concurrent_ensure_connected_dedupes() {
    let fake = FakeConnector::with_outcomes(&[(3, true)]);
    let upstream = spawn_group(&fake);
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.acquire(Need::Lists, WAIT).await.is_ok() })
        })
        .collect();
    let started = Instant::now();
    for caller in callers {
        assert!(caller.await.unwrap());
    }
    assert_eq!((fake.attempts(), started.elapsed()), (1, Duration::from_secs(3)));
    assert_eq!(state_name(&upstream), "connected");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_does_not_end_the_attempt() {
    let fake = FakeConnector::with_outcomes(&[(25, true)]);
    let upstream = spawn_group(&fake);
    for so_far in [10, 20] {
        let outcome = upstream.acquire(Need::Lists, Duration::from_secs(10)).await;
        let Err(AcquireError::StillConnecting(progress)) = outcome else { panic!() };
        assert_eq!(progress.elapsed.as_secs(), so_far);
        assert!(progress.last_failure.is_none());
        assert!(upstream.snapshot().connecting.is_some());
    }
    assert!(upstream.acquire(Need::Lists, Duration::from_secs(10)).await.is_ok());
    assert_eq!(fake.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_learns_the_last_failure_or_loss() {
    let last_failure = async |upstream: &Upstream| match upstream.acquire(Need::Lists, WAIT).await {
        Err(AcquireError::StillConnecting(progress)) => progress.last_failure,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("connected"),
    };
    // The first attempt fails, and the second one takes longer than the caller waits.
    let fake = FakeConnector::with_outcomes(&[(12, false), (20, true), (3600, true)]);
    let upstream = spawn_group(&fake);
    let failed = last_failure(&upstream).await;
    assert!(failed.is_some() && upstream.snapshot().connecting.is_some());
    assert_eq!(upstream.snapshot().last_failure(), failed.as_ref());
    // A connection forgets earlier failures; its loss is the next one.
    drop(upstream.acquire(Need::Lists, WAIT).await.unwrap_or_else(|_| panic!()));
    assert_eq!(upstream.snapshot().last_failure(), None);
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(last_failure(&upstream).await.as_deref(), Some(&UpstreamError::Internal));
}

#[tokio::test(start_paused = true)]
async fn test_idle_timeout_disconnects_lazy_server() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    let lease = upstream.acquire(Need::Lists, WAIT).await.unwrap_or_else(|_| panic!());
    sleep(IDLE * 10).await;
    assert_eq!(state_name(&upstream), "connected");
    drop(lease);
    sleep(IDLE - Duration::from_millis(1)).await;
    assert_eq!(state_name(&upstream), "connected");
    sleep(Duration::from_millis(2)).await;
    assert_eq!(state_name(&upstream), "discovered");
    assert!(upstream.try_lease().is_none());
    assert!(upstream.snapshot().catalog.is_some(), "the catalog outlives the connection");
}

#[tokio::test(start_paused = true)]
async fn test_idle_timeout_preserves_eager_servers() {
    let (mut stateful, mut never) = (server_config(Mode::Pure), server_config(Mode::Pure));
    stateful.common.stateful = true;
    never.common.idle_timeout = None;
    for server in [server_config(Mode::Eager), stateful, never] {
        let fake = FakeConnector::default();
        let upstream = spawn_group_with(&fake, server, &SharedState::new(8));
        drop(upstream.acquire(Need::Lists, WAIT).await);
        sleep(IDLE * 100).await;
        assert_eq!((fake.attempts(), state_name(&upstream)), (1, "connected"));
        assert_eq!((upstream.snapshot().idle(), upstream.snapshot().closes_in()), (Some(IDLE * 100), None));
    }
}

#[tokio::test(start_paused = true)]
async fn hybrid_connects_at_start_closes_and_reconnects_on_use() {
    let fake = FakeConnector::default();
    let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((fake.attempts(), state_name(&upstream)), (1, "discovered"));
    assert!(upstream.snapshot().catalog.is_some());
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state_name(&upstream)), (2, "connected"));
}

#[tokio::test(start_paused = true)]
async fn hybrid_keeps_its_discovery_connection_if_a_caller_waits_for_it() {
    let fake = FakeConnector::with_outcomes(&[(3, true)]);
    let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state_name(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn eager_connects_at_start_and_always_reconnects() {
    let fake = FakeConnector::default();
    let upstream = spawn_group_with(&fake, server_config(Mode::Eager), &SharedState::new(8));
    upstream.start().await;
    for attempts in 1..20 {
        sleep(Duration::from_secs(400)).await;
        assert_eq!((fake.attempts(), state_name(&upstream)), (attempts, "connected"));
        fake.lose.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn connects_at_start_are_bounded_and_hanging_servers_delay_no_others() {
    let shared = SharedState::new(2);
    let slow = FakeConnector::with_outcomes(&[(3600, true); 4]);
    let quick = FakeConnector::default();
    let hung: Vec<_> =
        (0..4).map(|_| spawn_group_with(&slow, server_config(Mode::Hybrid), &shared)).collect();
    let last = spawn_group_with(&quick, server_config(Mode::Hybrid), &shared);
    for upstream in hung.iter().chain([&last]) {
        upstream.start().await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!((slow.attempts(), quick.attempts()), (2, 0));
    // Hanging attempts return their slots after 5 s, and there are two rounds of them.
    sleep(Duration::from_secs(10)).await;
    assert_eq!((slow.attempts(), state_name(&last)), (4, "discovered"));
}

#[tokio::test(start_paused = true)]
async fn a_requested_group_does_not_wait_for_a_slot() {
    let shared = SharedState::new(1);
    let (slow, quick) = (FakeConnector::with_outcomes(&[(3600, true)]), FakeConnector::default());
    let hung = spawn_group_with(&slow, server_config(Mode::Hybrid), &shared);
    let asked = spawn_group_with(&quick, server_config(Mode::Hybrid), &shared);
    hung.start().await;
    asked.start().await;
    let started = Instant::now();
    assert!(asked.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_stateful_server_is_reported_to_all_callers_that_relied_on_it() {
    let fake = FakeConnector::default();
    let mut stateful = server_config(Mode::Pure);
    stateful.common.stateful = true;
    let upstream = spawn_group_with(&fake, stateful, &SharedState::new(8));
    drop(upstream.acquire(Need::Lists, WAIT).await);
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert!(!upstream.lost_state_since(0), "without a call there is no state to lose");
    drop(upstream.acquire(Need::Lists, WAIT).await);
    upstream.stats.begin_call();
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    let waiting = [upstream.known_losses(); 3];
    for known in waiting {
        assert!(upstream.lost_state_since(known), "each of them began before anybody knew");
    }
    assert!(!upstream.lost_state_since(upstream.known_losses()), "a later call relies on the new state");
}

#[tokio::test(start_paused = true)]
async fn draining_lets_calls_finish_for_a_while_and_rejects_new_ones() {
    let remote = || {
        Endpoint::Http(HttpConfig {
            url: "https://host.invalid/".to_owned(),
            kind: None,
            headers: vec![],
            ca_file: None,
            oauth: None,
        })
    };
    let local = || server_config(Mode::Pure).endpoint;
    let cases = [(local(), 3, 3), (local(), 60, 10), (remote(), 60, 60), (remote(), 900, 300)];
    for (endpoint, held, ends_after) in cases {
        let fake = FakeConnector::default();
        let server = ServerConfig { endpoint, ..server_config(Mode::Pure) };
        let upstream = spawn_group_with(&fake, server, &SharedState::new(8));
        let lease = upstream.acquire(Need::Lists, WAIT).await.unwrap_or_else(|_| panic!());
        let started = Instant::now();
        upstream.drain().await;
        tokio::spawn(async move {
            sleep(Duration::from_secs(held)).await;
            drop(lease);
        });
        tokio::task::yield_now().await;
        assert!(matches!(upstream.acquire(Need::Lists, WAIT).await, Err(AcquireError::Gone)));
        upstream.ended().await;
        // The fake connection takes a second to close and is never lost.
        assert_eq!(started.elapsed().as_secs(), ends_after + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_connects_again_at_growing_intervals_until_its_deadline() {
    let fake = FakeConnector { loses_all: true, ..FakeConnector::default() };
    let upstream = spawn_group(&fake);
    let outcome = upstream.acquire(Need::Lists, WAIT).await;
    assert!(matches!(outcome, Err(AcquireError::StillConnecting(_))));
    // At 0, 1, 3, 7, 11, 15 and 19 s.
    assert_eq!(fake.attempts(), 7);
    sleep(Duration::from_secs(600)).await;
    assert!(fake.attempts() <= 8, "nobody waits any more: {}", fake.attempts());
}

#[tokio::test(start_paused = true)]
async fn every_use_postpones_the_idle_close() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    drop(upstream.acquire(Need::Lists, WAIT).await);
    for _ in 0..5 {
        sleep(IDLE / 2).await;
        drop(upstream.try_lease());
    }
    assert_eq!((state_name(&upstream), fake.attempts()), ("connected", 1));
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_begins_after_the_last_connection_closed() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    drop(upstream.acquire(Need::Lists, WAIT).await);
    sleep(IDLE + Duration::from_millis(100)).await;
    let started = Instant::now();
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    // The fake connection takes a second to close, and 100 ms of it are over.
    assert_eq!(started.elapsed(), Duration::from_millis(900));
    assert_eq!(fake.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_reconnected_on_the_next_use() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    let lease = upstream.acquire(Need::Lists, WAIT).await.unwrap_or_else(|_| panic!());
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(state_name(&upstream), "discovered");
    assert_eq!(lease.lost().as_deref(), Some(&UpstreamError::Internal));
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!((state_name(&upstream), fake.attempts()), ("connected", 2));
}

#[tokio::test(start_paused = true)]
async fn a_request_soon_after_a_failure_gets_it_and_a_later_one_retries() {
    let fake = FakeConnector::with_outcomes(&[(0, false); 4]);
    let upstream = spawn_group(&fake);
    for _ in 0..3 {
        let outcome = upstream.acquire(Need::Lists, WAIT).await;
        assert!(matches!(outcome, Err(AcquireError::Failed(_))));
    }
    assert_eq!((fake.attempts(), state_name(&upstream)), (4, "failed"));
    sleep(Duration::from_secs(5)).await;
    assert!(upstream.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!(fake.attempts(), 5);
}

#[tokio::test(start_paused = true)]
async fn stopping_answers_waiting_callers_and_closes_the_connection() {
    let slow = FakeConnector::with_outcomes(&[(3600, true)]);
    let upstream = spawn_group(&slow);
    let waiting = tokio::spawn({
        let upstream = upstream.clone();
        async move { upstream.acquire(Need::Lists, WAIT).await.err() }
    });
    sleep(Duration::from_secs(1)).await;
    upstream.stop(Grace::Shutdown).await;
    let answer = waiting.await.unwrap();
    assert!(matches!(answer, Some(AcquireError::Gone)));

    let open = FakeConnector::default();
    let upstream = spawn_group(&open);
    let lease = upstream.acquire(Need::Lists, WAIT).await;
    upstream.stop(Grace::Shutdown).await;
    upstream.ended().await;
    assert_eq!(open.closed.load(Ordering::SeqCst), 1);
    drop(lease);
    assert!(matches!(upstream.acquire(Need::Lists, WAIT).await, Err(AcquireError::Gone)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_holds_no_lease() {
    let fake = FakeConnector::with_outcomes(&[(5, true)]);
    let upstream = spawn_group(&fake);
    drop(upstream.acquire(Need::Lists, Duration::from_secs(1)).await);
    sleep(Duration::from_secs(5) + IDLE).await;
    assert_eq!(state_name(&upstream), "discovered");
}

#[path = "tests/prefetch.rs"]
mod prefetch;
#[path = "tests/refresh.rs"]
mod refresh;

#[test]
fn jitter_varies_over_its_range() {
    let values: Vec<f64> = (0..200).map(|_| jitter()).collect();
    assert!(values.iter().all(|value| (-1.0..=1.0).contains(value)), "{values:?}");
    for (what, is_there) in [("below", -1.0..-0.5), ("around", -0.5..0.5), ("above", 0.5..1.01)]
        .map(|(what, range)| (what, values.iter().any(|value| range.contains(value))))
    {
        assert!(is_there, "no value {what} zero: {values:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_has_ended_only_when_its_attempt_in_progress_has_left_nothing() {
    let fake = FakeConnector::with_outcomes(&[(100, true)]);
    let group = spawn_group(&fake);
    let waiting = tokio::spawn({
        let group = group.clone();
        async move { group.acquire(Need::Lists, WAIT).await.map(drop) }
    });
    sleep(Duration::from_secs(1)).await;
    group.drain().await;
    group.ended().await;
    assert_eq!(fake.closed.load(Ordering::SeqCst), 1);
    assert!(matches!(waiting.await.unwrap(), Err(AcquireError::Gone)));
}
