//! The table of transitions, and what must hold whatever happens in whatever order.

use super::*;
use proptest::prelude::*;

const IDLE: Duration = Duration::from_secs(60);

fn policy() -> Policy {
    Policy { mode: Mode::Pure, idle_timeout: Some(IDLE) }
}

fn error() -> Arc<UpstreamError> {
    Arc::new(UpstreamError::Spawn { message: "no".into() })
}

fn name(state: &State) -> &'static str {
    state.name()
}

/// A group brought into each of the four states, at rest.
fn in_state(state: &str, now: Instant) -> Lifecycle {
    let mut group = Lifecycle::new(policy());
    match state {
        "pending" => {}
        "failed" => {
            group.on(Event::Wanted, None, now);
            group.on(Event::Failed(error()), None, now);
        }
        _ => {
            group.on(Event::Wanted, None, now);
            group.on(Event::Succeeded, None, now);
            if state == "discovered" {
                group.on(Event::Lost, None, now);
            }
        }
    }
    assert_eq!(name(group.state()), state);
    group
}

#[tokio::test(start_paused = true)]
async fn the_table_of_transitions() {
    let now = Instant::now();
    let later = now + COOL_DOWN;
    // from, event, when, to, action
    let connect = Some(Action::Connect);
    for (from, event, at, to, action) in [
        ("pending", Event::Wanted, now, "pending", connect),
        ("discovered", Event::Wanted, now, "discovered", Some(Action::Connect)),
        ("connected", Event::Wanted, now, "connected", Some(Action::AnswerConnected)),
        ("failed", Event::Wanted, now, "failed", Some(Action::AnswerFailed(error()))),
        ("failed", Event::Wanted, later, "failed", Some(Action::Connect)),
        ("pending", Event::Succeeded, now, "connected", Some(Action::AnswerConnected)),
        ("discovered", Event::Succeeded, now, "connected", Some(Action::AnswerConnected)),
        ("failed", Event::Succeeded, now, "connected", Some(Action::AnswerConnected)),
        ("pending", Event::Failed(error()), now, "failed", Some(Action::AnswerFailed(error()))),
        ("discovered", Event::Failed(error()), now, "failed", Some(Action::AnswerFailed(error()))),
        ("failed", Event::Failed(error()), now, "failed", Some(Action::AnswerFailed(error()))),
        ("connected", Event::Lost, now, "discovered", None),
        ("pending", Event::Tick, now, "pending", None),
        ("discovered", Event::Tick, now, "discovered", None),
        ("failed", Event::Tick, later, "failed", None),
    ] {
        let mut group = in_state(from, now);
        let shown = format!("{from} on {event:?}");
        assert_eq!(group.on(event, None, at), action, "{shown}");
        assert_eq!(name(group.state()), to, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn idles_out_exactly_when_due_and_only_when_unused() {
    let now = Instant::now();
    let mut group = in_state("connected", now);
    let usage = |leases| Some(Usage { leases, last_activity: now });
    assert_eq!(group.deadline(usage(0)), Some(now + IDLE));
    assert_eq!(group.deadline(usage(1)), None);
    assert_eq!(group.on(Event::Tick, usage(0), now + IDLE - Duration::from_nanos(1)), None);
    assert_eq!(group.on(Event::Tick, usage(1), now + IDLE), None);
    assert_eq!(group.on(Event::Tick, usage(0), now + IDLE), Some(Action::CloseIdle(IDLE)));
    group.closed();
    assert_eq!(name(group.state()), "discovered");
}

#[tokio::test(start_paused = true)]
async fn attempts_count_failures_in_a_row() {
    let now = Instant::now();
    let mut group = in_state("failed", now);
    let attempts = |group: &Lifecycle| match group.state() {
        State::Failed(failure) => failure.attempts,
        _ => 0,
    };
    group.on(Event::Wanted, None, now + COOL_DOWN);
    group.on(Event::Failed(error()), None, now + COOL_DOWN);
    assert_eq!(attempts(&group), 2);
    group.on(Event::Wanted, None, now + COOL_DOWN * 2);
    group.on(Event::Succeeded, None, now + COOL_DOWN * 2);
    group.on(Event::Lost, None, now + COOL_DOWN * 2);
    group.on(Event::Wanted, None, now + COOL_DOWN * 2);
    group.on(Event::Failed(error()), None, now + COOL_DOWN * 2);
    assert_eq!(attempts(&group), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_entry_is_never_attempted() {
    let now = Instant::now();
    let problem = crate::config::Problem { file: "x".into(), at: None, message: "wrong".into(), hint: None };
    let mut group = Lifecycle::broken(policy(), UpstreamError::Config(problem), now);
    let answer = group.on(Event::Wanted, None, now + COOL_DOWN * 9);
    assert!(matches!(answer, Some(Action::AnswerFailed(_))));
}

proptest! {
    /// Events as they can really come: an attempt ends only while one is under way, a loss only while connected.
    #[test]
    fn never_two_attempts_at_once_and_never_closed_in_use(steps in proptest::collection::vec((0u8..6, 0u64..90, 0usize..2), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut now = runtime.block_on(async { Instant::now() });
        let mut group = Lifecycle::new(policy());
        let (mut attempting, mut leases, mut last_activity) = (false, 0, now);
        for (what, seconds, leased) in steps {
            now += Duration::from_secs(seconds);
            let connected = matches!(group.state(), State::Connected);
            let event = match what {
                0 | 1 => Event::Wanted,
                2 if attempting => Event::Succeeded,
                3 if attempting => Event::Failed(error()),
                4 if connected => Event::Lost,
                5 => { leases = leased; last_activity = now; Event::Tick }
                _ => Event::Tick,
            };
            if matches!(event, Event::Succeeded | Event::Failed(_)) { attempting = false; }
            let usage = connected.then_some(Usage { leases, last_activity });
            match group.on(event, usage, now) {
                Some(Action::Connect) => {
                    prop_assert!(!attempting, "two attempts at once");
                    prop_assert!(!matches!(group.state(), State::Connected));
                    attempting = true;
                }
                Some(Action::CloseIdle(_)) => {
                    prop_assert!(leases == 0 && now >= last_activity + IDLE, "closed in use");
                    group.closed();
                }
                _ => {}
            }
            prop_assert_eq!(group.connecting(), attempting);
        }
    }
}
