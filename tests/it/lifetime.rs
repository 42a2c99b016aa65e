//! How the program ends, and that nothing of it is left. Linux only: processes are found in /proc.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::{Processes, Proxy, Setup, one, servers, text_of, until, upstream};

mod readers;

/// What shutting down may take: 1.5 s is promised, and the machine may be busy with other things.
const PROMPT: Duration = Duration::from_secs(3);

const STUBBORN: &[&str] = &["--ignore-eof", "--ignore-term"];
const PARENT: &[&str] = &["--grandchild"];
const WORST: &[&str] = &["--ignore-eof", "--ignore-term", "--grandchild-escapes"];

#[derive(Debug, Clone, Copy)]
enum End {
    Eof,
    Signal(Signal),
}

const ENDS: [End; 4] =
    [End::Eof, End::Signal(Signal::SIGTERM), End::Signal(Signal::SIGINT), End::Signal(Signal::SIGHUP)];

impl End {
    fn of(self, proxy: &mut Proxy) {
        match self {
            Self::Eof => proxy.close_stdin(),
            Self::Signal(signal) => proxy.signal(signal),
        }
    }
}

fn send(pid: u32, signal: Signal) {
    assert!(pid > 1);
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// Ends it and checks that it does so in time, with code 0, and with all that it started.
#[expect(clippy::print_stdout, reason = "how long it took is worth a look")]
fn ends_well(mut proxy: Proxy, end: End, what: &str) -> Proxy {
    let all = Processes::below(proxy.pid());
    end.of(&mut proxy);
    let (status, took) = proxy.ends();
    println!("{what}, {end:?}: {took:?}");
    assert_eq!(status.code(), Some(0), "{what} {end:?}");
    assert!(took < PROMPT, "{what} {end:?}: {took:?}");
    // The warden answers for the rest until it is gone itself.
    until(&format!("nothing left: {what} {end:?}"), || all.running().is_empty());
    proxy
}

/// All at the same time, for most of it is waiting.
fn for_each_end(test: impl Fn(End) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for end in ENDS {
            scope.spawn(move || test(end));
        }
    });
}

#[test]
fn every_end_is_prompt_and_leaves_nothing() {
    for (what, flags, processes) in
        [("polite", &[][..], 2), ("stubborn", STUBBORN, 2), ("parent", PARENT, 3), ("escapee", WORST, 3)]
    {
        for_each_end(|end| {
            let mut proxy = Proxy::new(&one(flags));
            proxy.upstream_pid("g");
            assert_eq!(Processes::below(proxy.pid()).running().len(), processes, "{what}");
            ends_well(proxy, end, what);
        });
    }
}

#[test]
fn it_ends_at_once_where_nothing_was_started() {
    for end in ENDS {
        ends_well(Setup::new().config(&one(&[])).start_listening(), end, "not initialized");
        ends_well(Proxy::new(&one(&[])), end, "no upstream");
    }
}

#[test]
fn it_ends_while_upstreams_start() {
    for end in [End::Eof, End::Signal(Signal::SIGTERM)] {
        let config = servers([
            ("silent", upstream(&["--hang", "start", "--ignore-eof", "--ignore-term"])),
            ("lists", upstream(&["--hang", "list", "--grandchild"])),
            ("slow", upstream(&["--slow-start", "60000", "--ignore-term"])),
        ]);
        let mut proxy = Proxy::new(&config);
        let ids = ["silent", "lists", "slow"].map(|group| proxy.send_call(group, "echo", json!({})));
        until("all are up", || Processes::below(proxy.pid()).running().len() == 5);
        let mut proxy = ends_well(proxy, end, "starting");
        for id in ids {
            assert_eq!(proxy.answer(id).code(), Some(-31004));
        }
    }
}

#[test]
fn calls_in_flight_are_answered_or_refused() {
    for_each_end(|end| {
        let mut proxy = Proxy::new(&one(STUBBORN));
        proxy.upstream_pid("g");
        let late = proxy.send_call("g", "late", json!({}));
        let quick = proxy.send_call("g", "sleep", json!({"ms": 50}));
        assert_eq!(proxy.text("g", "echo", json!({"text": "both arrived"})), "both arrived");
        let mut proxy = ends_well(proxy, end, "in flight");
        assert_eq!(proxy.answer(late).code(), Some(-31004));
        let quick = proxy.answer(quick).json();
        assert!(quick["error"]["code"] == -31004 || text_of(&quick["result"]) == "slept", "{quick}");
    });
}

#[test]
fn a_second_signal_changes_nothing() {
    let mut proxy = Proxy::new(&one(STUBBORN));
    proxy.upstream_pid("g");
    proxy.close_stdin();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        proxy.signal(signal);
    }
    ends_well(proxy, End::Signal(Signal::SIGTERM), "signalled again");
}

#[test]
fn many_upstreams_end_together() {
    let entries: Vec<_> =
        (0..12).map(|n| (format!("g{n}"), upstream(if n % 2 == 0 { WORST } else { &[] }))).collect();
    let entries: serde_json::Map<String, Value> = entries.into_iter().collect();
    let mut proxy = Proxy::new(&json!({"mcpServers": entries}));
    let ids: Vec<_> = entries_names(12).map(|name| proxy.send_call(&name, "pid", json!({}))).collect();
    for id in ids {
        assert!(proxy.answer(id).json()["result"]["isError"].is_null());
    }
    assert_eq!(Processes::below(proxy.pid()).running().len(), 1 + 12 + 6);
    ends_well(proxy, End::Eof, "many");
}

fn entries_names(n: usize) -> impl Iterator<Item = String> {
    (0..n).map(|n| format!("g{n}"))
}

#[test]
fn nothing_outlives_sigkill() {
    for flags in [&[][..], STUBBORN, PARENT, WORST] {
        for whole_group in [false, true] {
            let setup = Setup::new().config(&one(flags));
            let mut proxy = if whole_group { setup.own_group() } else { setup }.ready();
            proxy.upstream_pid("g");
            let all = Processes::below(proxy.pid());
            if whole_group {
                killpg(Pid::from_raw(proxy.pid().cast_signed()), Signal::SIGKILL).unwrap();
            } else {
                proxy.signal(Signal::SIGKILL);
            }
            let begin = tokio::time::Instant::now();
            until(&format!("nothing left of {flags:?}"), || all.running().is_empty());
            println!("SIGKILL, group {whole_group}, {flags:?}: {:?}", begin.elapsed());
            assert!(begin.elapsed() < PROMPT, "{flags:?}: {:?}", begin.elapsed());
        }
    }
}

#[test]
fn nothing_outlives_sigkill_while_upstreams_start() {
    let mut proxy = Proxy::new(&servers([("a", upstream(&["--hang", "start"])), ("b", upstream(WORST))]));
    proxy.send_call("a", "echo", json!({}));
    proxy.upstream_pid("b");
    let all = Processes::below(proxy.pid());
    assert_eq!(all.running().len(), 4);
    proxy.signal(Signal::SIGKILL);
    until("nothing left", || all.running().is_empty());
}

#[test]
fn a_killed_warden_is_told_to_the_call_and_the_next_one_works() {
    let mut proxy = Proxy::new(&one(WORST));
    for _ in 0..3 {
        proxy.upstream_pid("g");
        let late = proxy.send_call("g", "late", json!({}));
        proxy.text("g", "echo", json!({"text": "it arrived"}));
        let all = Processes::below(proxy.pid());
        send(all.warden(), Signal::SIGKILL);
        let answer = proxy.answer(late).json();
        let text = text_of(&answer["result"]);
        assert!(text.contains("its process was killed because dynamic-mcp's warden process died"), "{text}");
        assert_eq!(proxy.text("g", "echo", json!({"text": "back"})), "back");
        until("nothing of the first is left", || all.running().is_empty());
    }
    ends_well(proxy, End::Eof, "after a killed warden");
}
