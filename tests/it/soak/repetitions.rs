//! The same event many times: crashes, reloads and kills. Each has a short form in the ordinary tests.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::report::resident_kib;
use super::{save, tag, variable};
use crate::support::{
    Processes, Proxy, ProxyCommand, config_of, merged, scripted_upstream, text_of, wait_until,
};

/// How often each test repeats itself, relative to its name.
fn repetitions(default: u64) -> u64 {
    variable("DYNAMIC_MCP_REPETITIONS", default)
}

/// An upstream that does not end by itself before the test.
fn lasting_upstream() -> Value {
    scripted_upstream(&["--live", "7200"])
}

/// Memory may grow by this much from the first tenth to the end: a log, and fragmentation.
const TOLERANCE_KIB: u64 = 4096;

/// Memory after the first tenth of the repetitions, and at the end.
struct Growth {
    pid: u32,
    first: u64,
}

impl Growth {
    fn of(proxy: &Proxy) -> Self {
        Self { pid: proxy.pid(), first: 0 }
    }

    fn note(&mut self, n: u64, all: u64) {
        if n == all / 10 {
            self.first = resident_kib(self.pid);
        }
    }

    #[expect(clippy::print_stdout, reason = "the figures are shown with --nocapture")]
    fn assert_small(&self, what: &str, start: Instant) {
        let last = resident_kib(self.pid);
        println!("| {what} | {:.0} s | {} → {last} KiB |", start.elapsed().as_secs_f64(), self.first);
        assert!(last <= self.first + TOLERANCE_KIB, "{what}: {} → {last} KiB", self.first);
    }
}

#[test]
#[ignore = "takes minutes; run it with .ci/long"]
fn a_thousand_crashes_affect_only_their_own_calls() {
    let all = repetitions(1000);
    let config = config_of([("crashes", lasting_upstream()), ("other", lasting_upstream())]);
    let mut proxy = Proxy::new(&config);
    let other = proxy.upstream_pid("other");
    let (mut growth, start) = (Growth::of(&proxy), Instant::now());
    for n in 0..all {
        growth.note(n, all);
        let (tool, args) = [("crash", json!({"code": 9})), ("abort", json!({})), ("half", json!({}))]
            [usize::try_from(n % 3).unwrap()]
        .clone();
        let crash = proxy.send_call("crashes", tool, args);
        let beside = proxy.send_call("other", "echo", json!({"text": n.to_string()}));
        assert_eq!(text_of(&proxy.response(beside).json()["result"]), n.to_string());
        assert_eq!(proxy.response(crash).json()["result"]["isError"], true, "{n}");
        assert_eq!(proxy.call_text("crashes", "echo", json!({"text": "back"})), "back", "{n}");
    }
    assert_eq!(proxy.upstream_pid("other"), other);
    growth.assert_small("crashes", start);
}

#[test]
#[ignore = "takes minutes; run it with .ci/long"]
fn a_thousand_reloads_lose_no_call() {
    let all = repetitions(1000);
    // A few servers in turn: the cache keeps the catalog of each, and 1,000 would be most of the memory.
    let variant = |n: u64| (n % 10).to_string();
    let config = |n: u64| {
        let other = merged(lasting_upstream(), json!({"env": {"N": variant(n)}}));
        config_of([("kept", lasting_upstream()), ("other", other)])
    };
    let mut proxy = ProxyCommand::new().args(&["--pure-lazy"]).config(&config(0)).start_initialized();
    let kept = proxy.upstream_pid("kept");
    let path = proxy.config_file();
    let (mut growth, start) = (Growth::of(&proxy), Instant::now());
    for n in 1..=all {
        growth.note(n, all);
        let calls: Vec<_> = (0..8)
            .map(|call| {
                if call == 4 {
                    save(&path, &config(n));
                }
                let group = if call % 4 == 0 { "other" } else { "kept" };
                proxy.send_call(group, "echo", json!({"text": format!("{n} {call}")}))
            })
            .collect();
        for (call, id) in calls.into_iter().enumerate() {
            let answer = proxy.response(id).json();
            assert_eq!(answer["result"]["content"][0]["text"], format!("{n} {call}"), "{answer}");
        }
        let expected = format!("\"N\":\"{}\"", variant(n));
        wait_until(&format!("config {n} is in use"), || {
            proxy.call_text("other", "env", json!({})).contains(&expected)
        });
    }
    assert_eq!(proxy.upstream_pid("kept"), kept, "the unchanged group was not restarted");
    growth.assert_small("reloads", start);
}

#[test]
#[ignore = "takes minutes; run it with .ci/long"]
fn a_hundred_kills_leave_no_process() {
    let all = repetitions(100);
    let kinds: [&[&str]; 4] = [
        &[],
        &["--ignore-eof", "--ignore-term"],
        &["--grandchild"],
        &["--ignore-eof", "--ignore-term", "--grandchild-escapes"],
    ];
    let mark = format!("{}kills", tag());
    let servers: Map<String, Value> = (0..8)
        .map(|n| (format!("g{n}"), scripted_upstream(&[kinds[n % 4], &["--name", &mark]].concat())))
        .collect();
    let config = json!({"mcpServers": servers, "settings": {"lazy_startup": "pure"}});
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for n in 0..all {
        let mut proxy = Proxy::new(&config);
        let calls: Vec<_> = (0..8).map(|g| proxy.send_call(&format!("g{g}"), "pid", json!({}))).collect();
        // Every other time, some of them are only starting.
        let answered = if n % 2 == 0 { 8 } else { 2 };
        for id in calls.into_iter().take(answered) {
            assert!(proxy.response(id).json()["result"]["isError"].is_null());
        }
        let processes = Processes::descendants_of(proxy.pid());
        proxy.send_signal(Signal::SIGKILL);
        let killed = Instant::now();
        wait_until(&format!("no process is left after kill {n}"), || processes.running().is_empty());
        wait_until(&format!("no upstream is left after kill {n}"), || {
            Processes::with_argument_prefix(&mark).is_empty()
        });
        slowest = slowest.max(killed.elapsed());
    }
    println!(
        "| kills | {:.0} s | at most {slowest:.2?} until no process was left |",
        start.elapsed().as_secs_f64()
    );
}
