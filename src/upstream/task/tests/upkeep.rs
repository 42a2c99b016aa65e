//! What a task does beside calls: tools that are read again, predecessors that end first.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_change_that_is_told_while_the_tools_are_read_has_them_read_once_more() {
    let fake = Fake::default();
    let upstream = group(&fake);
    let _lease = upstream.acquire(WAIT).await.ok().unwrap();
    fake.lists_changed.notify_one();
    sleep(Duration::from_millis(50)).await;
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fake.refreshes.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_a_change_at_each_list_is_asked_once_a_second() {
    let fake = Fake { chatty: true, ..Fake::default() };
    let upstream = group(&fake);
    let _lease = upstream.acquire(WAIT).await.ok().unwrap();
    fake.lists_changed.notify_one();
    sleep(Duration::from_secs(10)).await;
    let refreshes = fake.refreshes.load(Ordering::SeqCst);
    assert!((9..=11).contains(&refreshes), "{refreshes}");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_replaced_before_its_predecessor_ended_does_not_end_before_it() {
    let fake = Fake::default();
    let spec = GroupSpec {
        name: GroupName::new("g"),
        server: Ok(Arc::new(server(Mode::Pure))),
        cached: None,
        predecessor: Some(Box::pin(sleep(Duration::from_secs(10)))),
    };
    let (upstream, task) = create(spec, fake.clone(), SharedState::new(8));
    tokio::spawn(task);
    let started = Instant::now();
    let waiting = upstream.acquire(Duration::from_secs(5)).await;
    assert!(matches!(waiting, Err(AcquireError::StillConnecting(_))));
    upstream.drain().await;
    upstream.ended().await;
    assert_eq!((fake.attempts(), started.elapsed()), (0, Duration::from_secs(10)));
}
