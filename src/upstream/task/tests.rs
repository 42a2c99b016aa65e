//! The task with a scripted connection, told in virtual time.

use super::super::AcquireError;
use super::super::catalog::{OtherLists, ServerInfo};
use super::super::lease::LiveConnection;
use super::*;
use crate::config::{Endpoint, Features, Mode, StdioConfig, Timeouts, ToolRules};
use crate::protocol::Era;
use crate::wire::output::Output;
use crate::wire::peer::Peer;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::sleep;

const WAIT: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);

/// What happens to the next attempts, each after its time; then they succeed at once.
#[derive(Clone, Default)]
struct Fake {
    script: Arc<Mutex<VecDeque<(Duration, bool)>>>,
    attempts: Arc<AtomicU32>,
    closed: Arc<AtomicU32>,
    lose: Arc<Notify>,
    shut: Arc<Notify>,
    lists_changed: Arc<Notify>,
    /// The server says that its tools changed whenever it lists them.
    chatty: bool,
    refreshes: Arc<AtomicU32>,
}

impl Fake {
    fn script(outcomes: &[(u64, bool)]) -> Self {
        let outcomes = outcomes.iter().map(|&(seconds, good)| (Duration::from_secs(seconds), good));
        Self { script: Arc::new(Mutex::new(outcomes.collect())), ..Self::default() }
    }
    fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::SeqCst)
    }
    fn connection(&self) -> Connection {
        let peer = Peer::new(Output::any(tokio::io::sink()).0);
        let live = LiveConnection::new(peer, Era::Handshake);
        let (lose, lost, closed) = (self.lose.clone(), live.clone(), self.closed.clone());
        let (refreshes, chatter) = (self.refreshes.clone(), self.chatty.then(|| self.lists_changed.clone()));
        let (shut, shutting) = (self.shut.clone(), self.shut.clone());
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
                let chatter = chatter.clone();
                Box::pin(async move {
                    sleep(Duration::from_millis(100)).await;
                    chatter.inspect(|chatter| chatter.notify_one());
                    Err(UpstreamError::Internal)
                })
            }),
            close: Box::new(move |_| {
                closed.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    sleep(Duration::from_secs(1)).await;
                    shutting.notify_waiters();
                })
            }),
        }
    }
}

impl Connect for Fake {
    fn connect(&self, _: Arc<ServerConfig>) -> BoxFuture<'static, AttemptResult> {
        let fake = self.clone();
        Box::pin(async move {
            fake.attempts.fetch_add(1, Ordering::SeqCst);
            let next = fake.script.lock().pop_front();
            let (takes, good) = next.unwrap_or((Duration::ZERO, true));
            sleep(takes).await;
            let error = UpstreamError::Spawn { message: "scripted".into() };
            let catalog = Catalog::new(ServerInfo::default(), Vec::new(), OtherLists::default());
            if good { Ok((fake.connection(), catalog)) } else { Err(AttemptError { error, closing: None }) }
        })
    }
}

fn server(mode: Mode) -> ServerConfig {
    let stdio = StdioConfig {
        command: "x".into(),
        args: vec![],
        env: [].into(),
        cwd: None,
        inherit_env: crate::config::InheritEnv::Safe,
    };
    ServerConfig {
        description: None,
        mode,
        idle_timeout: Some(IDLE),
        stateful: false,
        timeout: Timeouts::default(),
        features: Features::default(),
        tools: ToolRules::default(),
        expose: vec![],
        launch_text: crate::config::LaunchText::default(),
        endpoint: Endpoint::Stdio(stdio),
    }
}

fn group(fake: &Fake) -> Upstream {
    group_of(fake, server(Mode::Pure), &SharedState::new(8))
}

fn group_of(fake: &Fake, server: ServerConfig, shared: &SharedState) -> Upstream {
    let spec = GroupSpec {
        name: GroupName::new("g"),
        server: Ok(Arc::new(server)),
        cached: None,
        predecessor: None,
    };
    let (upstream, task) = create(spec, fake.clone(), shared.clone());
    tokio::spawn(task);
    upstream
}

fn state(upstream: &Upstream) -> &'static str {
    upstream.snapshot().state.name()
}

#[tokio::test(start_paused = true)]
async fn test_pending_state_created_on_init() {
    let fake = Fake::default();
    for mode in [Mode::Eager, Mode::Hybrid, Mode::Pure] {
        let upstream = group_of(&fake, server(mode), &SharedState::new(8));
        sleep(Duration::from_secs(3600)).await;
        assert_eq!((fake.attempts(), state(&upstream)), (0, "pending"), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_transitions_pending_to_connected() {
    let fake = Fake::default();
    let upstream = group(&fake);
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_noop_if_already_connected() {
    let fake = Fake::default();
    let upstream = group(&fake);
    for _ in 0..3 {
        assert!(upstream.acquire(WAIT).await.is_ok());
    }
    assert_eq!((fake.attempts(), state(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn test_ensure_connected_returns_error_on_max_retries() {
    let fake = Fake::script(&[(0, false); 4]);
    let upstream = group(&fake);
    let started = Instant::now();
    assert!(matches!(upstream.acquire(WAIT).await, Err(AcquireError::Failed(_))));
    assert_eq!((fake.attempts(), state(&upstream)), (4, "failed"));
    let took = started.elapsed().as_secs_f64();
    assert!((5.6..=8.4).contains(&took), "1 + 2 + 4 s, give or take a fifth: {took}");
}

#[tokio::test(start_paused = true)]
async fn test_record_activity_updates_timestamp() {
    let fake = Fake::default();
    let upstream = group(&fake);
    drop(upstream.acquire(WAIT).await);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(upstream.snapshot().idle(), Some(Duration::from_secs(30)));
    upstream.touch();
    assert_eq!(upstream.snapshot().idle(), Some(Duration::ZERO));
    sleep(Duration::from_secs(10)).await;
    let lease = upstream.try_lease().unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(upstream.snapshot().idle(), None, "it is in use");
    drop(lease);
    assert_eq!(upstream.snapshot().idle(), Some(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn test_concurrent_ensure_connected_dedupes() {
    let fake = Fake::script(&[(3, true)]);
    let upstream = group(&fake);
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.acquire(WAIT).await.is_ok() })
        })
        .collect();
    let started = Instant::now();
    for caller in callers {
        assert!(caller.await.unwrap());
    }
    assert_eq!((fake.attempts(), started.elapsed()), (1, Duration::from_secs(3)));
    assert_eq!(state(&upstream), "connected");
}

#[tokio::test(start_paused = true)]
async fn an_impatient_caller_ends_its_wait_and_not_the_attempt() {
    let fake = Fake::script(&[(25, true)]);
    let upstream = group(&fake);
    for _ in 0..2 {
        let outcome = upstream.acquire(Duration::from_secs(10)).await;
        assert!(matches!(outcome, Err(AcquireError::StillConnecting(waited)) if waited.as_secs() == 10));
        assert!(upstream.snapshot().connecting.is_some());
    }
    assert!(upstream.acquire(Duration::from_secs(10)).await.is_ok());
    assert_eq!(fake.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn test_idle_timeout_disconnects_lazy_server() {
    let fake = Fake::default();
    let upstream = group(&fake);
    let lease = upstream.acquire(WAIT).await.unwrap_or_else(|_| panic!());
    sleep(IDLE * 10).await;
    assert_eq!(state(&upstream), "connected");
    drop(lease);
    sleep(IDLE - Duration::from_millis(1)).await;
    assert_eq!(state(&upstream), "connected");
    sleep(Duration::from_millis(2)).await;
    assert_eq!(state(&upstream), "discovered");
    assert!(upstream.try_lease().is_none());
    assert!(upstream.snapshot().catalog.is_some(), "the catalog outlives the connection");
}

#[tokio::test(start_paused = true)]
async fn test_idle_timeout_preserves_eager_servers() {
    let stateful = ServerConfig { stateful: true, ..server(Mode::Pure) };
    let never = ServerConfig { idle_timeout: None, ..server(Mode::Pure) };
    for server in [server(Mode::Eager), stateful, never] {
        let fake = Fake::default();
        let upstream = group_of(&fake, server, &SharedState::new(8));
        drop(upstream.acquire(WAIT).await);
        sleep(IDLE * 100).await;
        assert_eq!((fake.attempts(), state(&upstream)), (1, "connected"));
    }
}

#[tokio::test(start_paused = true)]
async fn hybrid_connects_at_start_closes_and_comes_back_on_use() {
    let fake = Fake::default();
    let upstream = group_of(&fake, server(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((fake.attempts(), state(&upstream)), (1, "discovered"));
    assert!(upstream.snapshot().catalog.is_some());
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state(&upstream)), (2, "connected"));
}

#[tokio::test(start_paused = true)]
async fn hybrid_keeps_a_discovery_that_somebody_waits_for() {
    let fake = Fake::script(&[(3, true)]);
    let upstream = group_of(&fake, server(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!((fake.attempts(), state(&upstream)), (1, "connected"));
}

#[tokio::test(start_paused = true)]
async fn eager_connects_at_start_and_comes_back_for_ever() {
    let fake = Fake::default();
    let upstream = group_of(&fake, server(Mode::Eager), &SharedState::new(8));
    upstream.start().await;
    for attempts in 1..20 {
        sleep(Duration::from_secs(400)).await;
        assert_eq!((fake.attempts(), state(&upstream)), (attempts, "connected"));
        fake.lose.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn start_up_is_bounded_and_servers_that_hang_hold_up_nobody() {
    let shared = SharedState::new(2);
    let slow = Fake::script(&[(3600, true); 4]);
    let quick = Fake::default();
    let hung: Vec<_> = (0..4).map(|_| group_of(&slow, server(Mode::Hybrid), &shared)).collect();
    let last = group_of(&quick, server(Mode::Hybrid), &shared);
    for upstream in hung.iter().chain([&last]) {
        upstream.start().await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!((slow.attempts(), quick.attempts()), (2, 0));
    // Two rounds of slots given back after 5 s each.
    sleep(Duration::from_secs(10)).await;
    assert_eq!((slow.attempts(), state(&last)), (4, "discovered"));
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_for_does_not_wait_for_a_slot() {
    let shared = SharedState::new(1);
    let (slow, quick) = (Fake::script(&[(3600, true)]), Fake::default());
    let hung = group_of(&slow, server(Mode::Hybrid), &shared);
    let asked = group_of(&quick, server(Mode::Hybrid), &shared);
    hung.start().await;
    asked.start().await;
    let started = Instant::now();
    assert!(asked.acquire(WAIT).await.is_ok());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_server_that_was_lost_is_told_of_once() {
    let fake = Fake::default();
    let upstream =
        group_of(&fake, ServerConfig { stateful: true, ..server(Mode::Pure) }, &SharedState::new(8));
    drop(upstream.acquire(WAIT).await);
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert!(!upstream.take_lost_state(), "nothing was ever called: there is no state");
    drop(upstream.acquire(WAIT).await);
    upstream.stats.record(Duration::ZERO);
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert!(upstream.take_lost_state());
    assert!(!upstream.take_lost_state());
}

#[tokio::test(start_paused = true)]
async fn draining_lets_calls_finish_for_ten_seconds_and_takes_no_more() {
    for (held, ends_after) in [(3, 3), (60, 10)] {
        let fake = Fake::default();
        let upstream = group(&fake);
        let lease = upstream.acquire(WAIT).await.unwrap_or_else(|_| panic!());
        let started = Instant::now();
        upstream.drain().await;
        tokio::spawn(async move {
            sleep(Duration::from_secs(held)).await;
            drop(lease);
        });
        tokio::task::yield_now().await;
        assert!(matches!(upstream.acquire(WAIT).await, Err(AcquireError::Gone)));
        upstream.ended().await;
        // The fake takes a second to close, and loses its connection never.
        assert_eq!(started.elapsed().as_secs(), ends_after + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_use_postpones_the_idle_close() {
    let fake = Fake::default();
    let upstream = group(&fake);
    drop(upstream.acquire(WAIT).await);
    for _ in 0..5 {
        sleep(IDLE / 2).await;
        drop(upstream.try_lease());
    }
    assert_eq!((state(&upstream), fake.attempts()), ("connected", 1));
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_begins_after_the_last_connection_is_gone() {
    let fake = Fake::default();
    let upstream = group(&fake);
    drop(upstream.acquire(WAIT).await);
    sleep(IDLE + Duration::from_millis(100)).await;
    let started = Instant::now();
    assert!(upstream.acquire(WAIT).await.is_ok());
    // The fake takes a second to close and 100 ms of it are over.
    assert_eq!(started.elapsed(), Duration::from_millis(900));
    assert_eq!(fake.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_back_on_the_next_use() {
    let fake = Fake::default();
    let upstream = group(&fake);
    let lease = upstream.acquire(WAIT).await.unwrap_or_else(|_| panic!());
    fake.lose.notify_one();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(state(&upstream), "discovered");
    assert_eq!(lease.lost().as_deref(), Some(&UpstreamError::Internal));
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!((state(&upstream), fake.attempts()), ("connected", 2));
}

#[tokio::test(start_paused = true)]
async fn a_young_failure_is_told_again_and_an_old_one_is_tried_again() {
    let fake = Fake::script(&[(0, false); 4]);
    let upstream = group(&fake);
    for _ in 0..3 {
        let outcome = upstream.acquire(WAIT).await;
        assert!(matches!(outcome, Err(AcquireError::Failed(_))));
    }
    assert_eq!((fake.attempts(), state(&upstream)), (4, "failed"));
    sleep(Duration::from_secs(5)).await;
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!(fake.attempts(), 5);
}

#[tokio::test(start_paused = true)]
async fn stopping_answers_those_who_wait_and_closes_what_is_open() {
    let slow = Fake::script(&[(3600, true)]);
    let upstream = group(&slow);
    let waiting = tokio::spawn({
        let upstream = upstream.clone();
        async move { upstream.acquire(WAIT).await.err() }
    });
    sleep(Duration::from_secs(1)).await;
    upstream.stop(Grace::Shutdown).await;
    let answer = waiting.await.unwrap();
    assert!(matches!(answer, Some(AcquireError::Gone)));

    let open = Fake::default();
    let upstream = group(&open);
    let lease = upstream.acquire(WAIT).await;
    upstream.stop(Grace::Shutdown).await;
    upstream.ended().await;
    assert_eq!(open.closed.load(Ordering::SeqCst), 1);
    drop(lease);
    assert!(matches!(upstream.acquire(WAIT).await, Err(AcquireError::Gone)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_keeps_no_lease() {
    let fake = Fake::script(&[(5, true)]);
    let upstream = group(&fake);
    drop(upstream.acquire(Duration::from_secs(1)).await);
    sleep(Duration::from_secs(5) + IDLE).await;
    assert_eq!(state(&upstream), "discovered");
}

#[path = "tests/upkeep.rs"]
mod upkeep;
