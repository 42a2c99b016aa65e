//! The task with a scripted connection, told in virtual time.

use super::super::Unavailable;
use super::super::catalog::Introduction;
use super::*;
use crate::config::{Endpoint, Features, Mode, Stdio, Timeouts, ToolRules};
use crate::wire::output::Output;
use crate::wire::peer::Peer;
use std::collections::VecDeque;
use std::sync::Mutex;
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
        let live = Live::new(peer);
        let (lose, lost, closed) = (self.lose.clone(), live.clone(), self.closed.clone());
        Connection {
            live,
            catalog: Catalog {
                introduction: Introduction::default(),
                tools: Vec::new(),
                read: Instant::now(),
            },
            ended: Box::pin(async move {
                lose.notified().await;
                lost.lose(UpstreamError::Internal);
            }),
            tools_changed: Arc::default(),
            reread: Box::new(|| Box::pin(async { Err(UpstreamError::Internal) })),
            close: Box::new(move |_| {
                closed.fetch_add(1, Ordering::SeqCst);
                Box::pin(sleep(Duration::from_secs(1)))
            }),
        }
    }
}

impl Connect for Fake {
    fn connect(&self, _: Arc<Server>) -> BoxFuture<Result<Connection, FailedAttempt>> {
        let fake = self.clone();
        Box::pin(async move {
            fake.attempts.fetch_add(1, Ordering::SeqCst);
            let next = fake.script.lock().unwrap().pop_front();
            let (takes, good) = next.unwrap_or((Duration::ZERO, true));
            sleep(takes).await;
            let error = UpstreamError::Spawn { message: "scripted".into() };
            if good { Ok(fake.connection()) } else { Err(FailedAttempt { error, closing: None }) }
        })
    }
}

fn server() -> Server {
    let stdio = Stdio {
        command: "x".into(),
        args: vec![],
        env: [].into(),
        cwd: None,
        inherit_env: crate::config::InheritEnv::Safe,
    };
    Server {
        description: None,
        mode: Mode::Pure,
        idle_timeout: Some(IDLE),
        stateful: false,
        timeout: Timeouts::default(),
        features: Features::default(),
        tools: ToolRules::default(),
        expose: vec![],
        written: crate::config::Written::default(),
        endpoint: Endpoint::Stdio(stdio),
    }
}

fn group(fake: &Fake) -> Upstream {
    let (upstream, task) = start(GroupName::new("g"), Ok(server()), fake.clone());
    tokio::spawn(task);
    upstream
}

fn state(upstream: &Upstream) -> &'static str {
    upstream.snapshot().state.name()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_connected_before_it_is_wanted() {
    let fake = Fake::default();
    let upstream = group(&fake);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((fake.attempts(), state(&upstream)), (0, "pending"));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_callers_share_one_attempt() {
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
        assert!(matches!(outcome, Err(Unavailable::StillConnecting(waited)) if waited.as_secs() == 10));
        assert!(upstream.snapshot().connecting.is_some());
    }
    assert!(upstream.acquire(Duration::from_secs(10)).await.is_ok());
    assert_eq!(fake.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn idles_out_only_when_unused_and_exactly_then() {
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
    let fake = Fake::script(&[(1, false)]);
    let upstream = group(&fake);
    for _ in 0..3 {
        let outcome = upstream.acquire(WAIT).await;
        assert!(matches!(outcome, Err(Unavailable::Failed(_))));
    }
    assert_eq!((fake.attempts(), state(&upstream)), (1, "failed"));
    sleep(Duration::from_secs(5)).await;
    assert!(upstream.acquire(WAIT).await.is_ok());
    assert_eq!(fake.attempts(), 2);
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
    assert!(matches!(answer, Some(Unavailable::Failed(e)) if *e == UpstreamError::ShuttingDown));

    let open = Fake::default();
    let upstream = group(&open);
    let lease = upstream.acquire(WAIT).await;
    upstream.stop(Grace::Shutdown).await;
    upstream.stopped().await;
    assert_eq!(open.closed.load(Ordering::SeqCst), 1);
    drop(lease);
    assert!(matches!(upstream.acquire(WAIT).await, Err(Unavailable::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_keeps_no_lease() {
    let fake = Fake::script(&[(5, true)]);
    let upstream = group(&fake);
    drop(upstream.acquire(Duration::from_secs(1)).await);
    sleep(Duration::from_secs(5) + IDLE).await;
    assert_eq!(state(&upstream), "discovered");
}
