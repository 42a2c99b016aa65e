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

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_changes_has_time_to_add_tools_before_it_is_closed() {
    let millis = |millis| sleep(Duration::from_millis(millis));
    let fake = FakeConnector { announces: true, ..FakeConnector::default() };
    let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    millis(240).await;
    assert_eq!(state_name(&upstream), "connected");
    fake.lists_changed.notify_one();
    // Reading takes 100 ms. A second change is read a second after the first one.
    millis(200).await;
    fake.lists_changed.notify_one();
    millis(1500).await;
    assert_eq!((fake.refreshes.load(Ordering::SeqCst), state_name(&upstream)), (2, "connected"));
    millis(1000).await;
    assert_eq!(state_name(&upstream), "discovered");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_reports_changes_is_closed_all_the_same() {
    let fake = FakeConnector { announces: true, chatty: true, ..FakeConnector::default() };
    let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    sleep(Duration::from_millis(1)).await;
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(state_name(&upstream), "discovered");
}

#[tokio::test(start_paused = true)]
async fn refused_calls_have_the_lists_read_again_once_in_10_s() {
    let fake = FakeConnector::default();
    let upstream = spawn_group(&fake);
    let _lease = upstream.acquire(Need::Lists, WAIT).await.ok().unwrap();
    for (after, refreshes) in [(1, 1), (1, 1), (8, 1), (2, 2)] {
        sleep(Duration::from_secs(after)).await;
        upstream.refresh_if_old().await;
        assert_eq!(fake.refreshes.load(Ordering::SeqCst), refreshes);
    }
    fake.lists_changed.notify_one();
    sleep(Duration::from_millis(10)).await;
    upstream.refresh_if_old().await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 3, "the change is read");
    upstream.refresh(Need::Tools).await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 4, "who misses a tool always looks again");
}

#[tokio::test(start_paused = true)]
async fn callers_wait_long_enough_for_a_start_like_the_last_one() {
    for (start, wait) in [(2, 20), (22, 33), (50, 55)] {
        let fake = FakeConnector::with_outcomes(&[(start, true)]);
        let upstream = spawn_group(&fake);
        assert_eq!(upstream.snapshot().wait(), WAIT);
        assert!(upstream.acquire(Need::Lists, Duration::from_secs(60)).await.is_ok());
        assert_eq!(upstream.snapshot().wait(), Duration::from_secs(wait));
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_had_to_be_killed_twice_is_not_closed_any_more() {
    for (program, expected) in [("docker", "connected"), ("x", "discovered")] {
        let fake = FakeConnector { ignores_the_end: true, ..FakeConnector::default() };
        let mut server = server_config(Mode::Pure);
        if let Endpoint::Stdio(stdio) = &mut server.endpoint {
            stdio.command = program.into();
        }
        let upstream = spawn_group_with(&fake, server, &SharedState::new(8));
        for kills in 0..2 {
            assert_eq!(upstream.stats.kills(), kills);
            drop(upstream.acquire(Need::Lists, WAIT).await.unwrap());
            sleep(2 * IDLE).await;
            assert_eq!(state_name(&upstream), "discovered");
        }
        drop(upstream.acquire(Need::Lists, WAIT).await.unwrap());
        sleep(2 * IDLE).await;
        assert_eq!(state_name(&upstream), expected, "{program}");
    }
}
