//! How the program ends: in time, with every call answered, and without leaving processes behind, even if it is killed.

#[cfg(unix)]
use nix::sys::signal::{Signal, killpg};
#[cfg(unix)]
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::{
    Processes, Proxy, ProxyCommand, kill, pure_config, scripted_config, scripted_upstream, text_of,
    wait_until,
};

// Instances of one user, namespaces, and locks in /proc.
#[cfg(target_os = "linux")]
mod saving;
// Signals, and memory in /proc.
#[cfg(unix)]
mod slow_clients;

/// How long a shutdown may take. The program promises 1.5 s, and the machine may be loaded.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// When no process may be left. The program promises 5 s.
const ALL_GONE_TIMEOUT: Duration = Duration::from_secs(7);

/// Whether these servers run, and nothing else but what belongs to them: the warden, or on Windows a process for the console
/// of each.
fn are_running(proxy: &Proxy, servers: usize) -> bool {
    let running = Processes::descendants_of(proxy.pid()).running().len();
    if cfg!(unix) { running == 1 + servers } else { (servers..=2 * servers).contains(&running) }
}

const STUBBORN: &[&str] = &["--ignore-eof", "--ignore-term"];
const PARENT: &[&str] = &["--grandchild"];
const WORST: &[&str] = &["--ignore-eof", "--ignore-term", "--grandchild-escapes"];

#[derive(Debug, Clone, Copy)]
enum ShutdownCause {
    Eof,
    #[cfg(unix)]
    Signal(Signal),
}

const CAUSES: &[ShutdownCause] = &[
    ShutdownCause::Eof,
    #[cfg(unix)]
    ShutdownCause::Signal(Signal::SIGTERM),
    #[cfg(unix)]
    ShutdownCause::Signal(Signal::SIGINT),
    #[cfg(unix)]
    ShutdownCause::Signal(Signal::SIGHUP),
];

impl ShutdownCause {
    fn apply_to(self, proxy: &mut Proxy) {
        match self {
            Self::Eof => proxy.close_stdin(),
            #[cfg(unix)]
            Self::Signal(signal) => proxy.send_signal(signal),
        }
    }
}

/// Ends the program and asserts that it exits in time, with code 0, and that none of its processes is left.
#[expect(clippy::print_stdout, reason = "the time that it took is shown with --nocapture")]
fn assert_clean_exit(mut proxy: Proxy, cause: ShutdownCause, what: &str) -> Proxy {
    let processes = Processes::descendants_of(proxy.pid());
    let start = tokio::time::Instant::now();
    cause.apply_to(&mut proxy);
    let (status, took) = proxy.wait_for_exit();
    println!("{what}, {cause:?}: {took:?}");
    assert_eq!(status.code(), Some(0), "{what} {cause:?}");
    assert!(took < SHUTDOWN_TIMEOUT, "{what} {cause:?}: {took:?}");
    // The warden ends the remaining processes before it exits.
    wait_until(&format!("no process is left: {what} {cause:?}"), || processes.running().is_empty());
    assert!(start.elapsed() < ALL_GONE_TIMEOUT, "{what} {cause:?}: {:?}", start.elapsed());
    proxy
}

/// Runs a test with every cause at the same time, because it mostly waits.
fn for_each_cause(test: impl Fn(ShutdownCause) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for &cause in CAUSES {
            scope.spawn(move || test(cause));
        }
    });
}

#[test]
fn every_end_is_prompt_and_leaves_no_process() {
    for (what, flags, count) in
        [("polite", &[][..], 1), ("stubborn", STUBBORN, 1), ("parent", PARENT, 2), ("escapee", WORST, 2)]
    {
        for_each_cause(|cause| {
            let mut proxy = Proxy::new(&scripted_config(flags));
            proxy.upstream_pid("g");
            assert!(are_running(&proxy, count), "{what}");
            assert_clean_exit(proxy, cause, what);
        });
    }
}

#[test]
fn it_exits_before_initialize_and_without_upstreams() {
    for &cause in CAUSES {
        assert_clean_exit(
            ProxyCommand::new().config(&scripted_config(&[])).start_ready(),
            cause,
            "not initialized",
        );
        assert_clean_exit(Proxy::new(&scripted_config(&[])), cause, "no upstream");
    }
}

#[test]
fn it_exits_while_upstreams_start() {
    for &cause in CAUSES.iter().take(2) {
        let config = pure_config([
            ("silent", scripted_upstream(&["--hang", "start", "--ignore-eof", "--ignore-term"])),
            ("lists", scripted_upstream(&["--hang", "list", "--grandchild"])),
            ("slow", scripted_upstream(&["--slow-start", "60000", "--ignore-term"])),
        ]);
        let mut proxy = Proxy::new(&config);
        let ids = ["silent", "lists", "slow"].map(|group| proxy.send_call(group, "echo", json!({})));
        wait_until("all processes run", || are_running(&proxy, 4));
        let mut proxy = assert_clean_exit(proxy, cause, "starting");
        for id in ids {
            assert_eq!(proxy.response(id).error_code(), Some(-31004));
        }
    }
}

#[test]
fn what_waits_for_a_group_is_told_that_the_session_ends() {
    for &cause in CAUSES.iter().take(2) {
        let mut proxy = Proxy::new(&scripted_config(&["--hang", "start"]));
        let tool = |name: &str, args: Value| json!({"name": name, "arguments": args});
        let requests = [
            ("tools/call", tool("get_dynamic_tools", json!({"group": "g"}))),
            ("tools/call", tool("g__echo", json!({}))),
            ("tools/describe", json!({"name": "g__echo"})),
            ("resources/subscribe", json!({"uri": "x://y", "group": "g"})),
        ];
        let ids = requests.map(|(method, params)| proxy.send_request(method, params));
        wait_until("it starts", || proxy.group_status("g")["connecting"] == true);
        let mut proxy = assert_clean_exit(proxy, cause, "waiting");
        for id in ids {
            let answer = proxy.response(id);
            let words = "g was not used: the session ends, and dynamic-mcp is shutting down";
            assert!(answer.error_code() == Some(-31004) || answer.line.contains(words), "{}", answer.line);
        }
    }
}

#[test]
fn open_calls_are_answered_or_refused_on_shutdown() {
    for_each_cause(|cause| {
        let mut proxy = Proxy::new(&scripted_config(STUBBORN));
        proxy.upstream_pid("g");
        let late_call = proxy.send_call("g", "late", json!({}));
        let quick_call = proxy.send_call("g", "sleep", json!({"ms": 50}));
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "arrived"})), "arrived");
        let mut proxy = assert_clean_exit(proxy, cause, "open calls");
        assert_eq!(proxy.response(late_call).error_code(), Some(-31004));
        let quick = proxy.response(quick_call).json();
        assert!(quick["error"]["code"] == -31004 || text_of(&quick["result"]) == "slept", "{quick}");
    });
}

#[cfg(unix)]
#[test]
fn a_second_signal_changes_nothing() {
    let mut proxy = Proxy::new(&scripted_config(STUBBORN));
    proxy.upstream_pid("g");
    proxy.close_stdin();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        proxy.send_signal(signal);
    }
    assert_clean_exit(proxy, ShutdownCause::Signal(Signal::SIGTERM), "second signal");
}

#[test]
fn many_upstreams_end_together() {
    let entries: Vec<_> =
        (0..12).map(|n| (format!("g{n}"), scripted_upstream(if n % 2 == 0 { WORST } else { &[] }))).collect();
    let entries: serde_json::Map<String, Value> = entries.into_iter().collect();
    let mut proxy = Proxy::new(&json!({"mcpServers": entries}));
    let ids: Vec<_> = group_names(12).map(|name| proxy.send_call(&name, "pid", json!({}))).collect();
    for id in ids {
        assert!(proxy.response(id).json()["result"]["isError"].is_null());
    }
    assert!(are_running(&proxy, 12 + 6));
    assert_clean_exit(proxy, ShutdownCause::Eof, "many");
}

fn group_names(n: usize) -> impl Iterator<Item = String> {
    (0..n).map(|n| format!("g{n}"))
}

#[test]
fn no_process_outlives_sigkill() {
    for flags in [&[][..], STUBBORN, PARENT, WORST] {
        for whole_group in if cfg!(unix) { &[false, true][..] } else { &[false] } {
            let command = ProxyCommand::new().config(&scripted_config(flags));
            #[cfg(unix)]
            let command = if *whole_group { command.in_own_process_group() } else { command };
            let mut proxy = command.start_initialized();
            proxy.upstream_pid("g");
            let processes = Processes::descendants_of(proxy.pid());
            #[cfg(unix)]
            if *whole_group {
                killpg(Pid::from_raw(proxy.pid().cast_signed()), Signal::SIGKILL).unwrap();
            }
            if !whole_group {
                kill(proxy.pid());
            }
            let start = tokio::time::Instant::now();
            wait_until(&format!("no process of {flags:?} is left"), || processes.running().is_empty());
            println!("SIGKILL, group {whole_group}, {flags:?}: {:?}", start.elapsed());
            assert!(start.elapsed() < ALL_GONE_TIMEOUT, "{flags:?}: {:?}", start.elapsed());
        }
    }
}

#[test]
fn no_process_outlives_sigkill_while_upstreams_start() {
    let mut proxy = Proxy::new(&pure_config([
        ("a", scripted_upstream(&["--hang", "start"])),
        ("b", scripted_upstream(WORST)),
    ]));
    proxy.send_call("a", "echo", json!({}));
    proxy.upstream_pid("b");
    let processes = Processes::descendants_of(proxy.pid());
    assert!(are_running(&proxy, 3));
    kill(proxy.pid());
    wait_until("no process is left", || processes.running().is_empty());
}

#[cfg(unix)]
#[test]
fn a_killed_warden_fails_the_open_call_and_the_next_call_works() {
    let mut proxy = Proxy::new(&scripted_config(WORST));
    for _ in 0..3 {
        proxy.upstream_pid("g");
        let late_call = proxy.send_call("g", "late", json!({}));
        proxy.call_text("g", "echo", json!({"text": "it arrived"}));
        let processes = Processes::descendants_of(proxy.pid());
        kill(processes.warden_pid());
        let response = proxy.response(late_call).json();
        let text = text_of(&response["result"]);
        assert!(text.contains("its process was killed because dynamic-mcp's warden process died"), "{text}");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "back"})), "back");
        wait_until("no process of the killed warden is left", || processes.running().is_empty());
    }
    assert_clean_exit(proxy, ShutdownCause::Eof, "after a killed warden");
}
