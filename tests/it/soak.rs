//! The soak test and the tests of many repetitions, which `.ci/long` runs: `cargo test --test it soak -- --ignored`.
//!
//! # Theory of operation
//!
//! `a_soak_gives_no_wrong_answer_and_loses_no_call` runs for `DYNAMIC_MCP_SOAK_MINUTES` with the seed
//! `DYNAMIC_MCP_SOAK_SEED`. Its config has 20 upstreams of all kinds (`upstreams`): processes, Streamable HTTP, HTTP+SSE.
//! One session stays, others come and leave in every way, and all watch one config file that changes all the time. A
//! session (`session`) works in rounds: it sends calls, breaks something, and then checks each answer. `report` has the
//! counters, memory samples and the table at the end.
//!
//! A call may fail only if it was sent to an upstream that the session itself had just killed, or if it asked for a
//! failure. Anything else is a lost call, and an answer with another content is a wrong one. Either ends the test.
//!
//! `repetitions` has 1,000 crashes, 1,000 reloads and 100 kills.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Processes, ProxyCommand, wait_until};
use random::Random;
use report::Report;
use session::{Departure, Session};
use upstreams::{Upstreams, tag};

mod random;
mod repetitions;
mod report;
mod session;
mod upstreams;

/// The sessions that come and leave, at a time.
const GUESTS: u64 = 2;

/// A number from the environment.
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Replaces the config, as most editors do.
fn save(path: &Path, config: &Value) {
    let new = path.with_extension("new");
    std::fs::write(&new, config.to_string()).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// The member `N` of the environment makes a new process necessary.
fn changed(mut entry: Value, n: u64) -> Value {
    match entry.get("url") {
        Some(_) => entry["headers"] = json!({"X-N": n.to_string()}),
        None => entry["env"] = json!({"N": n.to_string()}),
    }
    entry
}

/// What the threads of the test share.
struct Soak {
    seed: u64,
    end: Instant,
    upstreams: Upstreams,
    /// The config file of every session.
    config: PathBuf,
    report: Mutex<Report>,
    /// A thread has failed, so the others end.
    failed: AtomicBool,
}

impl Soak {
    fn is_running(&self) -> bool {
        Instant::now() < self.end && !self.failed.load(Ordering::Relaxed)
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work of a thread, with random numbers of its own.
    fn run(&self, thread: u64, work: fn(&Self, Random)) {
        let random = Random::new(self.seed.wrapping_mul(1_000_003).wrapping_add(thread));
        let outcome = catch_unwind(AssertUnwindSafe(|| work(self, random)));
        outcome.unwrap_or_else(|cause| {
            self.failed.store(true, Ordering::Relaxed);
            resume_unwind(cause)
        });
    }

    fn start_session(&self, random: Random) -> Session {
        let args = ["--no-cache", "--config", self.config.to_str().unwrap()];
        let proxy = ProxyCommand::new().args(&args).start_initialized();
        Session::new(proxy, self.upstreams.names(), random)
    }

    /// The session that stays, whose memory is measured.
    #[expect(clippy::print_stdout, reason = "the figures are shown with --nocapture")]
    fn stay(&self, random: Random) {
        let mut session = self.start_session(random);
        let (mut sampled, mut printed) = (Instant::now(), Instant::now());
        while self.is_running() {
            session.round();
            if sampled.elapsed() > Duration::from_secs(1) {
                sampled = Instant::now();
                self.report().sample(&session);
            }
            if printed.elapsed() > Duration::from_secs(30) {
                printed = Instant::now();
                println!("{}", self.report().progress(&session));
            }
        }
        session.leave(Departure::CloseStdin);
        self.report().add(&session.counts);
    }

    /// Sessions that come and leave.
    fn visit(&self, mut random: Random) {
        while self.is_running() {
            let mut session = self.start_session(random.fork());
            for _ in 0..random.below(30) {
                session.round();
            }
            session.leave(random.pick(&Departure::ALL));
            self.report().add(&session.counts);
        }
    }

    /// Changes of the config.
    fn reload(&self, mut random: Random) {
        while self.is_running() {
            std::thread::sleep(Duration::from_millis(200 + random.below(3000)));
            save(&self.config, &self.upstreams.config(&mut random));
            self.report().reloads += 1;
        }
    }
}

#[test]
#[ignore = "takes half an hour; run it with .ci/long"]
fn a_soak_gives_no_wrong_answer_and_loses_no_call() {
    let minutes = variable("DYNAMIC_MCP_SOAK_MINUTES", 30);
    let seed = variable("DYNAMIC_MCP_SOAK_SEED", u64::from(std::process::id()));
    println!("soak: {minutes} minutes, DYNAMIC_MCP_SOAK_SEED={seed}");
    let home = tempfile::tempdir().unwrap();
    let soak = Soak {
        seed,
        end: Instant::now() + Duration::from_secs(60 * minutes),
        upstreams: Upstreams::start(60 * minutes + 300),
        config: home.path().join("servers.json"),
        report: Mutex::default(),
        failed: AtomicBool::new(false),
    };
    save(&soak.config, &soak.upstreams.config(&mut Random::new(seed)));
    std::thread::scope(|scope| {
        scope.spawn(|| soak.run(0, Soak::stay));
        scope.spawn(|| soak.run(1, Soak::reload));
        for guest in 0..GUESTS {
            let soak = &soak;
            scope.spawn(move || soak.run(2 + guest, Soak::visit));
        }
    });
    wait_until("no process is left", || Processes::with_argument_prefix(&tag()).is_empty());
    let report = soak.report();
    println!("{}", report.table(minutes, seed, soak.upstreams.names().len(), GUESTS));
    report.assert_memory_is_flat();
}
