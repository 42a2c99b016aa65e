//! Tests of reading the catalog again, and of groups that replace others.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_during_a_refresh_causes_another_refresh() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    let _lease = upstream.acquire(Need::Lists, WAIT).await.ok().unwrap();
    fake.lists_changed.notify_one();
    sleep(Duration::from_millis(50)).await;
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reports_a_change_at_each_list_is_refreshed_once_a_second() {
    let fake = FakeConnector { chatty: true, ..FakeConnector::default() };
    let upstream = spawn_group(&fake);
    let _lease = upstream.acquire(Need::Lists, WAIT).await.ok().unwrap();
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(10)).await;
    let refreshes = fake.refreshes.load(Ordering::SeqCst);
    assert!((9..=11).contains(&refreshes), "{refreshes}");
}

#[tokio::test(start_paused = true)]
async fn lists_that_cannot_be_read_again_are_tried_every_30_s() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    let _lease = upstream.acquire(Need::Lists, WAIT).await.ok().unwrap();
    fake.refuses_lists.store(true, Ordering::SeqCst);
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(75)).await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 3);
    fake.refuses_lists.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(300)).await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_group_does_not_end_before_its_predecessor() {
    let fake = FakeConnector::default();
    let spec = GroupSpec {
        name: GroupName::new("g"),
        server: Ok(Arc::new(server_config(Mode::Pure))),
        cached: None,
        pins: GroupPins::none(&GroupName::new("g")),
        predecessor: Some(Box::pin(sleep(Duration::from_secs(10)))),
        log: Default::default(),
        startup: Default::default(),
    };
    let (upstream, task) = create(spec, fake.clone(), SharedState::new(8));
    tokio::spawn(task);
    let started = Instant::now();
    let waiting = upstream.acquire(Need::Lists, Duration::from_secs(5)).await;
    assert!(matches!(waiting, Err(AcquireError::StillConnecting(_))));
    upstream.drain().await;
    upstream.ended().await;
    assert_eq!((fake.attempts(), started.elapsed()), (0, Duration::from_secs(10)));
}
