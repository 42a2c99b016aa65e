//! Tests how a group is started for a call that is expected.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_is_started_for_an_expected_call_is_closed_after_30_s_without_one() {
    let half = Duration::from_secs(15);
    let fake = FakeConnector::with_outcomes(&[(0, true), (1, true)]);
    let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &SharedState::new(8));
    upstream.start().await;
    sleep(half).await;
    upstream.expect_call();
    sleep(half).await;
    assert_eq!((fake.attempts(), state_name(&upstream)), (2, "connected"));
    // A model that asks again may call, too.
    upstream.expect_call();
    sleep(2 * half - Duration::from_secs(1)).await;
    assert_eq!(
        (state_name(&upstream), upstream.snapshot().closes_in()),
        ("connected", Some(Duration::from_secs(1)))
    );
    sleep(Duration::from_secs(2)).await;
    assert_eq!(state_name(&upstream), "discovered");
    upstream.expect_call();
    sleep(Duration::from_secs(1)).await;
    drop(upstream.try_lease().unwrap());
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(
        (fake.attempts(), state_name(&upstream)),
        (3, "connected"),
        "a request makes it a usual connection"
    );
}

#[tokio::test(start_paused = true)]
async fn servers_are_started_for_expected_calls_one_at_a_time_but_for_callers_at_once() {
    let shared = SharedState::new(8);
    let groups = [(); 3].map(|()| {
        let fake = FakeConnector::with_outcomes(&[(0, true), (3, true)]);
        let upstream = spawn_group_with(&fake, server_config(Mode::Hybrid), &shared);
        (fake, upstream)
    });
    let attempts = || groups.each_ref().map(|(fake, _)| fake.attempts());
    for (_, upstream) in &groups {
        upstream.start().await;
    }
    sleep(Duration::from_secs(2)).await;
    for (_, upstream) in &groups {
        upstream.expect_call();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(attempts(), [2, 1, 1]);
    let called = Instant::now();
    assert!(groups[2].1.acquire(Need::Lists, WAIT).await.is_ok());
    assert_eq!((called.elapsed(), attempts()), (Duration::from_secs(3), [2, 2, 2]));
}
