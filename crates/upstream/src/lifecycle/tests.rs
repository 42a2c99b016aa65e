//! The table of transitions, the retries, and invariants that hold for every sequence of events.

use super::*;
use crate::error::server_output::ServerOutput;
use http_client::error::RemoteError;
use proptest::prelude::*;
use reqwest::StatusCode;

const IDLE: Duration = Duration::from_secs(60);
const MODES: [Mode; 3] = [Mode::Eager, Mode::Hybrid, Mode::Pure];

fn policy(mode: Mode) -> Policy {
    Policy { mode, idle_timeout: (mode != Mode::Eager).then_some(IDLE) }
}

fn error() -> Arc<UpstreamError> {
    Arc::new(UpstreamError::Spawn { message: "no".into() })
}

fn failed() -> Event {
    Event::Failed(error(), 0.0)
}

fn not_retryable() -> Event {
    Event::Failed(Arc::new(UpstreamError::Launch { message: "not found".into(), brief: "not found" }), 0.0)
}

fn next_attempt_in(group: &Lifecycle, now: Instant) -> Option<u64> {
    group.next_attempt().map(|at| (at - now).as_secs())
}

/// A group brought into each of the four states; Failed means that its round is over.
fn in_state(mode: Mode, state: &str, now: Instant) -> Lifecycle {
    let mut group = Lifecycle::new(policy(mode), state == "discovered");
    match state {
        "connected" => {
            group.on(Event::Requested, None, now);
            group.on(Event::Succeeded, None, now);
        }
        "failed" => {
            group.on(Event::Requested, None, now);
            for _ in 0..4 {
                group.on(failed(), None, now);
            }
        }
        _ => {}
    }
    assert_eq!(group.state().name(), state);
    group
}

#[tokio::test(start_paused = true)]
async fn the_table_of_transitions() {
    let now = Instant::now();
    let later = now + backoff::COOL_DOWN;
    let failure = || Some(Action::AnswerFailed(error()));
    let connect = || Some(Action::Connect);
    for mode in MODES {
        let at_start = || (mode != Mode::Pure).then_some(Action::Connect);
        let unrequested =
            || Some(if mode == Mode::Hybrid { Action::CloseDiscovered } else { Action::AnswerConnected });
        // from, event, when, to, action
        for (from, event, at, to, action) in [
            ("pending", Event::Start, now, "pending", at_start()),
            ("discovered", Event::Start, now, "discovered", at_start()),
            ("connected", Event::Start, now, "connected", None),
            ("pending", Event::Requested, now, "pending", connect()),
            ("discovered", Event::Requested, now, "discovered", connect()),
            ("connected", Event::Requested, now, "connected", Some(Action::AnswerConnected)),
            ("failed", Event::Requested, now, "failed", failure()),
            ("failed", Event::Requested, later, "failed", connect()),
            ("pending", Event::Prefetch, now, "pending", None),
            ("discovered", Event::Prefetch, now, "discovered", connect()),
            ("connected", Event::Prefetch, now, "connected", None),
            ("failed", Event::Prefetch, later, "failed", None),
            ("pending", Event::LoggedIn, now, "pending", None),
            ("discovered", Event::LoggedIn, now, "discovered", None),
            ("connected", Event::LoggedIn, now, "connected", None),
            ("failed", Event::LoggedIn, now, "failed", connect()),
            ("pending", Event::Succeeded, now, "connected", unrequested()),
            ("discovered", Event::Succeeded, now, "connected", unrequested()),
            ("failed", Event::Succeeded, now, "connected", unrequested()),
            ("pending", failed(), now, "failed", None),
            ("discovered", failed(), now, "failed", None),
            ("failed", failed(), now, "failed", failure()),
            ("connected", Event::Lost(false), now, "discovered", None),
            ("connected", Event::Closed, now, "discovered", None),
            ("pending", Event::Tick, now, "pending", None),
            ("discovered", Event::Tick, now, "discovered", None),
            ("connected", Event::Tick, now, "connected", None),
            ("failed", Event::Tick, now, "failed", None),
        ] {
            let mut group = in_state(mode, from, now);
            let row = format!("{mode:?} {from} on {event:?}");
            assert_eq!(group.on(event, None, at), action, "{row}");
            assert_eq!(group.state().name(), to, "{row}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_at_its_deadline_unless_it_is_leased() {
    let now = Instant::now();
    let usage = |leases| Some(Usage { leases, last_activity: now, kept_for: KeptFor::Use });
    for mode in [Mode::Hybrid, Mode::Pure] {
        let mut group = in_state(mode, "connected", now);
        assert_eq!(group.deadline(usage(0)), Some(now + IDLE));
        assert_eq!(group.deadline(usage(1)), None);
        assert_eq!(group.on(Event::Tick, usage(0), now + IDLE - Duration::from_nanos(1)), None);
        assert_eq!(group.on(Event::Tick, usage(1), now + IDLE), None);
        assert_eq!(group.on(Event::Tick, usage(0), now + IDLE), Some(Action::CloseIdle(IDLE)));
        assert_eq!(group.on(Event::Closed, None, now), None);
        assert_eq!(group.state().name(), "discovered");
    }
    assert_eq!(in_state(Mode::Eager, "connected", now).deadline(usage(0)), None);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_for_an_expected_call_leaves_nothing_but_a_connection_for_a_while() {
    let now = Instant::now();
    let prefetching = || {
        let mut group = in_state(Mode::Hybrid, "discovered", now);
        assert_eq!(group.on(Event::Prefetch, None, now), Some(Action::Connect));
        assert_eq!(group.on(Event::Prefetch, None, now), None, "one attempt");
        group
    };
    let mut fails = prefetching();
    assert_eq!(fails.on(failed(), None, now), Some(Action::AnswerFailed(error())), "no retry");
    assert_eq!((fails.state().name(), fails.next_attempt()), ("discovered", None));
    assert_eq!(fails.on(Event::Requested, None, now), Some(Action::Connect), "no cool-down");
    assert_eq!(fails.on(failed(), None, now), None, "a caller waits for the retries");
    let mut unused = prefetching();
    assert_eq!(unused.on(Event::Succeeded, None, now), Some(Action::AwaitCall));
    let usage = Some(Usage { leases: 0, last_activity: now, kept_for: KeptFor::Call });
    let end = now + PREFETCH_TIMEOUT;
    assert_eq!(unused.deadline(usage), Some(end));
    assert_eq!(unused.on(Event::Tick, usage, end), Some(Action::CloseIdle(PREFETCH_TIMEOUT)));
    unused.on(Event::PolicyChanged(policy(Mode::Eager)), None, now);
    assert_eq!(unused.deadline(usage), None, "an eager group stays connected");
    let mut called = prefetching();
    assert_eq!(called.on(Event::Requested, None, now), None, "the caller waits for the same attempt");
    assert_eq!(called.on(failed(), None, now), None, "with its retries");
    called.on(Event::Tick, None, called.next_attempt().unwrap());
    assert_eq!(called.on(Event::Succeeded, None, now), Some(Action::AnswerConnected));
}

#[tokio::test(start_paused = true)]
async fn a_round_is_an_attempt_and_three_retries_for_which_callers_wait() {
    let now = Instant::now();
    let mut group = Lifecycle::new(policy(Mode::Pure), false);
    group.on(Event::Requested, None, now);
    for seconds in [1, 2, 4] {
        assert_eq!(group.on(failed(), None, now), None, "callers wait");
        assert_eq!(next_attempt_in(&group, now), Some(seconds));
        assert_eq!(group.on(Event::Requested, None, now), None, "so does a caller that comes later");
        assert_eq!(group.on(Event::Tick, None, now + Duration::from_secs(seconds)), Some(Action::Connect));
    }
    assert_eq!(group.on(failed(), None, now), Some(Action::AnswerFailed(error())));
    assert_eq!(next_attempt_in(&group, now), None, "a pure group does not retry in the background");
    // The second round has as many retries.
    assert_eq!(group.on(Event::Requested, None, now + backoff::COOL_DOWN), Some(Action::Connect));
    for _ in 0..3 {
        assert_eq!(group.on(failed(), None, now), None);
        group.on(Event::Tick, None, now + Duration::from_secs(9));
    }
    assert!(group.on(failed(), None, now).is_some());
    assert!(matches!(group.state(), State::Failed(failure) if failure.attempts == 8));
}

#[tokio::test(start_paused = true)]
async fn callers_do_not_wait_through_the_retries_of_a_server_that_crashes_alike() {
    let exited = |words: &str| {
        let output = ServerOutput::new(words.to_owned(), String::new());
        let how = "its process exited with code 1".to_owned();
        Arc::new(UpstreamError::Exited { step: None, how, output, withheld: Vec::new() })
    };
    let second = Duration::from_secs(1);
    // the words of two attempts, how long each took, whether callers are answered after the second one
    for (words, took, is_answered) in [
        (["no key (pid 7)", "no key (pid 12)"], second / 2, true),
        (["no key", "no network"], second / 2, false),
        (["no key", "no key"], 19 * second, true),
    ] {
        for (mode, next) in [(Mode::Eager, Some(2)), (Mode::Hybrid, Some(2)), (Mode::Pure, None)] {
            let now = Instant::now();
            let mut group = Lifecycle::new(policy(mode), false);
            group.on(Event::Requested, None, now);
            let failed_at = now + took;
            assert_eq!(group.on(Event::Failed(exited(words[0]), 0.0), None, failed_at), None);
            assert_eq!(group.on(Event::Tick, None, failed_at + second), Some(Action::Connect));
            let failed_at = failed_at + second + took;
            let action = group.on(Event::Failed(exited(words[1]), 0.0), None, failed_at);
            assert_eq!(action.is_some(), is_answered, "{words:?} {took:?}");
            assert_eq!(next_attempt_in(&group, failed_at), if is_answered { next } else { Some(2) });
            let soon = group.on(Event::Requested, None, failed_at + second);
            assert_eq!(soon.is_some(), is_answered, "a caller that comes next");
            if is_answered {
                let later = failed_at + backoff::COOL_DOWN;
                assert_eq!(group.on(Event::Requested, None, later), Some(Action::Connect));
                let action = group.on(Event::Failed(exited(words[0]), 0.0), None, later + took);
                assert!(action.is_some(), "one attempt for later callers");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn eager_groups_retry_in_the_background_and_hybrid_ones_until_discovered() {
    let now = Instant::now();
    for (mode, discovered, retries) in [
        (Mode::Eager, true, true),
        (Mode::Eager, false, true),
        (Mode::Hybrid, false, true),
        (Mode::Hybrid, true, false),
        (Mode::Pure, false, false),
    ] {
        let mut group = Lifecycle::new(policy(mode), discovered);
        group.on(Event::Requested, None, now);
        (0..4).for_each(|_| drop(group.on(failed(), None, now)));
        let expected: &[u64] = if retries { &[30, 60, 120, 240, 300, 300] } else { &[] };
        for &seconds in expected {
            assert_eq!(next_attempt_in(&group, now), Some(seconds), "{mode:?}");
            assert_eq!(
                group.on(Event::Tick, None, now + Duration::from_secs(seconds)),
                Some(Action::Connect)
            );
            assert!(group.on(failed(), None, now).is_some());
        }
        assert_eq!(group.next_attempt().is_some(), retries, "{mode:?} {discovered}");
        // A request makes an attempt before the scheduled one, and a success cancels that.
        assert_eq!(group.on(Event::Requested, None, now + backoff::COOL_DOWN), Some(Action::Connect));
        group.on(Event::Succeeded, None, now);
        assert_eq!(group.next_attempt(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_not_retryable_is_answered_at_once() {
    let now = Instant::now();
    for mode in MODES {
        let mut group = Lifecycle::new(policy(mode), false);
        group.on(Event::Requested, None, now);
        assert!(matches!(group.on(not_retryable(), None, now), Some(Action::AnswerFailed(_))), "{mode:?}");
        assert_eq!(group.next_attempt(), None);
        assert_eq!(group.on(Event::Requested, None, now + backoff::COOL_DOWN), Some(Action::Connect));
    }
}

#[tokio::test(start_paused = true)]
async fn a_misconfigured_group_makes_no_attempt() {
    let now = Instant::now();
    let problem = config::ConfigError { file: "x".into(), at: None, message: "wrong".into(), hint: None };
    let mut group = Lifecycle::misconfigured(policy(Mode::Eager), UpstreamError::Config(problem), now);
    assert_eq!(group.on(Event::Start, None, now), None);
    let answer = group.on(Event::Requested, None, now + backoff::COOL_DOWN * 9);
    assert!(matches!(answer, Some(Action::AnswerFailed(_))));
}

#[tokio::test(start_paused = true)]
async fn an_eager_group_reconnects_at_once_and_at_growing_intervals_after_early_losses() {
    let mut now = Instant::now();
    let mut group = in_state(Mode::Eager, "connected", now);
    now += STABLE_AFTER;
    group.on(Event::Lost(false), None, now);
    assert_eq!(next_attempt_in(&group, now), Some(0), "after a stable connection");
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        group.on(Event::Tick, None, group.next_attempt().unwrap());
        group.on(Event::Succeeded, None, now);
        group.on(Event::Lost(false), None, now);
        assert_eq!(next_attempt_in(&group, now), Some(seconds));
    }
    assert_eq!(
        group.on(Event::Requested, None, now),
        Some(Action::Connect),
        "a request does not wait for that"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_takes_effect_at_once() {
    let now = Instant::now();
    let mut group = in_state(Mode::Pure, "connected", now);
    assert_eq!(group.on(Event::PolicyChanged(policy(Mode::Eager)), None, now), None);
    assert_eq!(
        group.deadline(Some(Usage { leases: 0, last_activity: now, kept_for: KeptFor::Use })),
        None,
        "it is not closed any more"
    );
    let mut closed = in_state(Mode::Pure, "discovered", now);
    assert_eq!(
        closed.on(Event::PolicyChanged(policy(Mode::Eager)), None, now),
        None,
        "only Start says that a client is there"
    );
    assert_eq!(closed.on(Event::Start, None, now), Some(Action::Connect));
    assert_eq!(closed.on(Event::Start, None, now), None, "not twice");
    let mut failed = Lifecycle::new(policy(Mode::Eager), false);
    failed.on(Event::Start, None, now);
    for _ in 0..4 {
        failed.on(Event::Failed(Arc::new(UpstreamError::Internal), 0.0), None, now);
        failed.on(Event::Tick, None, now + Duration::from_secs(10));
    }
    assert!(failed.next_attempt().is_some(), "eager goes on in the background");
    failed.on(Event::PolicyChanged(policy(Mode::Pure)), None, now);
    assert_eq!(failed.next_attempt(), None, "pure does not");
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_ends_only_what_is_planned_in_the_background() {
    let now = Instant::now();
    let pure = || Event::PolicyChanged(policy(Mode::Pure));
    let mut attempting = Lifecycle::new(policy(Mode::Eager), false);
    attempting.on(Event::Start, None, now);
    attempting.on(pure(), None, now);
    assert_eq!(attempting.on(Event::Requested, None, now), None, "the attempt continues");
    attempting.on(failed(), None, now);
    attempting.on(pure(), None, now);
    assert_eq!(next_attempt_in(&attempting, now), Some(1), "so does the round for which callers wait");
    let mut planned = in_state(Mode::Eager, "failed", now);
    planned.on(Event::PolicyChanged(policy(Mode::Hybrid)), None, now);
    assert_eq!(next_attempt_in(&planned, now), Some(30), "a hybrid group without a catalog retries, too");
}

#[test]
fn only_a_group_that_can_connect_again_without_loss_has_an_idle_timeout() {
    let of = |keys: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        let text = format!(r#"{{"mcpServers": {{"g": {{"command": "x", "idle_timeout": "60s", {keys}}}}}}}"#);
        std::fs::write(&path, text).unwrap();
        let env = config::env::Env::new([("HOME", "/h")], "/");
        let config = config::load::load(&[path], &env, &config::Overrides::default());
        Policy::of(config.servers[0].1.as_deref().unwrap())
    };
    for (mode, lazy_startup) in
        [(Mode::Pure, "\"pure\""), (Mode::Hybrid, "\"hybrid\""), (Mode::Eager, "false")]
    {
        for stateful in [false, true] {
            let idle_timeout = (mode != Mode::Eager && !stateful).then_some(IDLE);
            let keys = format!(r#""lazy_startup": {lazy_startup}, "stateful": {stateful}"#);
            assert_eq!(of(&keys), Policy { mode, idle_timeout }, "{keys}");
        }
    }
}

#[test]
fn only_a_failure_for_lack_of_a_login_needs_one() {
    let now = Instant::now();
    let state =
        |error: UpstreamError| State::Failed(AttemptFailure { error: Arc::new(error), at: now, attempts: 1 });
    assert!(!state(UpstreamError::Internal).needs_login() && !State::Connected.needs_login());
    assert!(state(UpstreamError::Remote(RemoteError::login_needed("log in"))).needs_login());
}

#[tokio::test(start_paused = true)]
async fn a_login_does_not_help_an_invalid_entry() {
    let now = Instant::now();
    let problem = config::ConfigError { file: "x".into(), at: None, message: "wrong".into(), hint: None };
    let mut group = Lifecycle::misconfigured(policy(Mode::Eager), UpstreamError::Config(problem), now);
    assert_eq!(group.on(Event::LoggedIn, None, now), None);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_before_its_callers_use_it_is_made_again_at_growing_intervals() {
    let mut now = Instant::now();
    let mut group = in_state(Mode::Pure, "connected", now);
    for seconds in [1, 2, 4, 4, 4] {
        assert_eq!(group.on(Event::Lost(true), None, now), None);
        assert_eq!(next_attempt_in(&group, now), Some(seconds));
        assert_eq!(group.on(Event::Requested, None, now), None, "a new caller waits, too");
        now = group.next_attempt().unwrap();
        assert_eq!(group.on(Event::Tick, None, now), Some(Action::Connect));
        assert_eq!(group.on(Event::Succeeded, None, now), Some(Action::AnswerConnected));
    }
    group.on(Event::Lost(false), None, now);
    assert_eq!(group.next_attempt(), None, "nobody waits");
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_reconnect_that_is_due_soon() {
    let now = Instant::now();
    let mut group = in_state(Mode::Eager, "connected", now);
    group.on(Event::Lost(false), None, now);
    assert_eq!(next_attempt_in(&group, now), Some(1));
    assert_eq!(group.on(Event::Requested, None, now), None);
    assert_eq!(group.on(Event::Tick, None, now + Duration::from_secs(1)), Some(Action::Connect));
    assert_eq!(group.on(Event::Succeeded, None, now), Some(Action::AnswerConnected));
}

#[tokio::test(start_paused = true)]
async fn a_login_during_an_attempt_causes_one_more_attempt() {
    let now = Instant::now();
    for mode in MODES {
        let mut group = Lifecycle::new(policy(mode), false);
        group.on(Event::Requested, None, now);
        assert_eq!(group.on(Event::LoggedIn, None, now), None);
        assert_eq!(group.on(not_retryable(), None, now), Some(Action::Connect));
        assert!(matches!(group.on(not_retryable(), None, now), Some(Action::AnswerFailed(_))), "once");
    }
}

fn mode_of(n: u8) -> Mode {
    MODES[usize::from(n) % MODES.len()]
}

proptest! {
    /// Events as they really occur: an attempt ends only while one is in progress, a loss occurs only while connected.
    #[test]
    fn there_is_one_attempt_at_a_time_no_close_of_a_leased_connection_and_no_short_round(
        mode in 0u8..3,
        steps in proptest::collection::vec((0u8..11, 0u64..90, 0usize..2, -1.0..1.0f64), 0..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut now = runtime.block_on(async { Instant::now() });
        let mut group = Lifecycle::new(policy(mode_of(mode)), false);
        let (mut attempting, mut leases, mut last_activity) = (false, 0, now);
        // Failures since the round that a caller began; `None` while there is no such round.
        let mut round = None::<u32>;
        for (what, seconds, leased, jitter) in steps {
            now += Duration::from_secs(seconds);
            let connected = matches!(group.state(), State::Connected);
            let event = match what {
                0 | 1 => Event::Requested,
                2 if attempting => Event::Succeeded,
                3..=5 if attempting => Event::Failed(error(), jitter),
                6 if connected => Event::Lost(false),
                7 => Event::Start,
                8 => Event::LoggedIn,
                10 => Event::Prefetch,
                9 => { leases = leased; last_activity = now; Event::Tick }
                _ => Event::Tick,
            };
            let (ended_badly, ended_well) = (matches!(event, Event::Failed(..)), matches!(event, Event::Succeeded));
            if ended_badly || ended_well { attempting = false; }
            let is_request = matches!(event, Event::Requested);
            let usage = connected.then_some(Usage { leases, last_activity, kept_for: KeptFor::Use });
            let action = group.on(event, usage, now);
            if ended_well { round = None; }
            if ended_badly { round = round.map(|failures| failures + 1); }
            match action {
                Some(Action::Connect) => {
                    prop_assert!(!attempting, "two attempts at once");
                    prop_assert!(!matches!(group.state(), State::Connected));
                    attempting = true;
                    if is_request { round = Some(0); }
                }
                Some(Action::CloseIdle(_)) => {
                    prop_assert!(leases == 0 && now >= last_activity + IDLE, "closed in use");
                    assert_eq!(group.on(Event::Closed, None, now), None);
                }
                Some(Action::CloseDiscovered) => drop(group.on(Event::Closed, None, now)),
                Some(Action::AnswerFailed(_)) if ended_badly => {
                    // The caller that began the round waited for all of its attempts.
                    prop_assert!(round.is_none_or(|failures| failures >= 4), "a round of {round:?} failures");
                    round = None;
                }
                _ => {}
            }
            prop_assert_eq!(group.connecting == Connecting::Attempting, attempting);
        }
    }
}

/// A failure with a `Retry-After` of so many seconds.
fn busy(seconds: u64) -> Event {
    let error = RemoteError::busy(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(seconds)));
    Event::Failed(Arc::new(UpstreamError::Remote(error)), 0.0)
}

#[tokio::test(start_paused = true)]
async fn no_attempt_is_made_before_the_retry_after_of_the_server() {
    let now = Instant::now();
    for mode in MODES {
        let mut group = Lifecycle::new(policy(mode), false);
        group.on(Event::Requested, None, now);
        assert_eq!(group.on(busy(3), None, now), None, "within a round");
        assert_eq!(next_attempt_in(&group, now), Some(3));
        let answer = group.on(busy(40), None, now);
        assert!(matches!(answer, Some(Action::AnswerFailed(_))), "{mode:?}: callers do not wait");
        assert_eq!(next_attempt_in(&group, now), (mode != Mode::Pure).then_some(40), "{mode:?}");
        let before = now + Duration::from_secs(39);
        assert!(matches!(group.on(Event::Requested, None, before), Some(Action::AnswerFailed(_))));
        assert_eq!(group.on(Event::Requested, None, now + Duration::from_secs(40)), Some(Action::Connect));
    }
}
