//! How sessions, servers and the host end.

use super::*;
use crate::support::{InputRecord, is_alive};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::time::Duration;
use tokio::time::Instant;

/// After this time nothing may be left. A shared server ends 2 s after its last session, and the host 5 s later.
const ALL_GONE_AFTER: Duration = Duration::from_secs(8);

fn signal(pid: u32, signal: Signal) {
    assert!(pid > 1);
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// The pids of the warden of a host and of everything below it.
fn descendants(host: u32) -> Vec<u32> {
    crate::support::Processes::descendants_of(host).running()
}

#[test]
fn the_end_of_a_client_cancels_its_requests_only() {
    let user = User::new();
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(shared(scripted_upstream(&[]))))]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    a.send_call("g", "late", json!({}));
    let of_b = b.send_call("g", "sleep", json!({"ms": 300}));
    record.wait_for("tools/call", 3);
    a.close_stdin();
    record.wait_for("notifications/cancelled", 0);
    assert!(b.response(of_b).line.contains("slept"));
    assert_eq!(record.lines_of("notifications/cancelled").len(), 1);
}

#[test]
fn a_client_that_comes_back_soon_finds_its_server() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = user.window(&config);
    let pid = a.upstream_pid("g");
    a.close_stdin();
    a.wait_for_exit();
    assert_eq!(user.window(&config).upstream_pid("g"), pid);
}

#[test]
fn nothing_is_left_after_the_last_client_was_killed() {
    let user = User::new();
    let config = shared_config(&["--grandchild-escapes", "--ignore-eof", "--ignore-term"]);
    let mut a = user.command(&config).in_own_process_group().start_initialized();
    let mut b = user.window(&config);
    a.send_call("g", "late", json!({}));
    b.connect(["g"]);
    let host = user.host();
    let below = descendants(host);
    assert!(below.len() >= 3, "{below:?}");
    signal(b.pid(), Signal::SIGKILL);
    killpg(Pid::from_raw(a.pid().cast_signed()), Signal::SIGKILL).unwrap();
    let killed = Instant::now();
    wait_until("the host has ended", || user.hosts().is_empty());
    wait_until("nothing below it is left", || below.iter().all(|pid| !is_alive(*pid)));
    assert!(killed.elapsed() < ALL_GONE_AFTER + Duration::from_secs(2), "{:?}", killed.elapsed());
    let files = fs::read_dir(user.host_dir()).unwrap().flatten().map(|file| file.file_name());
    let left: Vec<_> = files.filter(|name| name.to_str().unwrap().starts_with("host")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_crash_of_the_server_is_told_with_its_cause_and_the_next_call_works() {
    let user = User::new();
    let (mut a, mut b) = two_windows(&user, &shared_config(&[]), &json!({}));
    let pid = a.upstream_pid("g");
    let of_b = b.send_call("g", "sleep", json!({"ms": 20_000}));
    a.call_text("g", "log_stderr", json!({"text": "the last words"}));
    let failure = a.call_failure("g", "crash", json!({"code": 3}));
    assert!(failure.contains("exited with code 3") && failure.contains("the last words"), "{failure}");
    assert!(b.response(of_b).line.contains("exited with code 3"));
    let next = a.upstream_pid("g");
    assert_ne!(next, pid);
    assert_eq!(b.upstream_pid("g"), next);
}

#[test]
fn open_calls_fail_when_the_host_is_killed_and_the_next_use_works() {
    let user = User::new();
    let config = shared_config(&[]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    for round in 0..10 * crate::warden::rounds() as u64 {
        let host = user.host();
        let below = descendants(host);
        let lost: Vec<u64> = (0..5).map(|_| a.send_call("g", "sleep", json!({"ms": 20_000}))).collect();
        let of_b = b.send_call("g", "sleep", json!({"ms": 20_000}));
        // A call that the server has not got yet is sent to the next one, so these must have arrived.
        a.call_text("g", "echo", json!({"text": "x"}));
        b.call_text("g", "echo", json!({"text": "x"}));
        let large: Vec<u64> = (0..5).map(|_| a.send_call("g", "big", json!({"bytes": 1 << 20}))).collect();
        // At another point of the large answers in each round.
        std::thread::sleep(Duration::from_millis(round % 10 * 3));
        signal(host, Signal::SIGKILL);
        for (id, is_large) in
            lost.into_iter().map(|id| (id, false)).chain(large.into_iter().map(|id| (id, true)))
        {
            let line = a.response(id).line;
            let is_lost = line.contains("isError\":true") && line.contains("has ended");
            assert!(is_lost || is_large && line.len() > 1 << 20, "{line:.300}");
        }
        assert!(b.response(of_b).line.contains("the process that shares it among your instances has ended"));
        let (of_a, of_b) = (a.upstream_pid("g"), b.upstream_pid("g"));
        assert_eq!(of_a, of_b, "round {round}: {} {}", a.log(), b.log());
        wait_until("nothing of the old host is left", || below.iter().all(|pid| !is_alive(*pid)));
    }
}

#[test]
fn a_request_that_may_be_repeated_survives_one_host_and_fails_with_the_next() {
    let user = User::new();
    let config = full_shared_config(&[]);
    let mut a = user.window(&config);
    a.upstream_pid("g");
    let read = a.send_request("resources/read", json!({"uri": "mem://hang"}));
    a.call_text("g", "echo", json!({"text": "x"}));
    signal(user.host(), Signal::SIGKILL);
    wait_until("the read is repeated at another host", || {
        a.log().matches("attached to the shared").count() == 2
    });
    // A repeated request is not repeated again.
    a.call_text("g", "echo", json!({"text": "x"}));
    signal(user.host(), Signal::SIGKILL);
    let failure = a.response(read);
    assert_eq!(failure.error_code(), Some(-31003), "{}", failure.line);
    assert_eq!(a.call_text("g", "echo", json!({"text": "x"})), "x");
}

#[test]
fn a_host_that_does_not_answer_costs_two_seconds_once_and_no_call() {
    let user = User::new();
    let config = pure_config([
        ("g", shared(scripted_upstream(&[]))),
        ("other", shared(scripted_upstream(&["--logging"]))),
    ]);
    let mut a = user.window(&config);
    a.upstream_pid("g");
    let host = user.host();
    signal(host, Signal::SIGSTOP);
    let mut b = user.window(&config);
    let start = Instant::now();
    let pid = b.upstream_pid("g");
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    b.upstream_pid("other");
    assert_eq!(b.log().matches("the host did not answer").count(), 1);
    signal(host, Signal::SIGCONT);
    assert_ne!(a.upstream_pid("g"), pid);
    assert_eq!(user.hosts(), [host]);
}

#[test]
fn a_host_that_does_not_answer_takes_its_time_from_the_attempt() {
    let user = User::new();
    let hangs =
        merged(shared(scripted_upstream(&["--hang", "start"])), json!({"timeout": {"initialize": "5s"}}));
    let config = pure_config([("g", shared(scripted_upstream(&[]))), ("hangs", hangs)]);
    user.window(&config).upstream_pid("g");
    let host = user.host();
    signal(host, Signal::SIGSTOP);
    let mut window = user.window(&config);
    window.send_call("hangs", "echo", json!({"text": "x"}));
    const FAILED: &str = "initialize was not answered within ";
    window.wait_for_log(FAILED);
    signal(host, Signal::SIGCONT);
    let log = window.log();
    let (_, after) = log.split_once(FAILED).unwrap();
    let seconds: f32 = after.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds > 0.0 && seconds <= 3.0, "{log}");
}

#[test]
fn a_server_that_hangs_when_it_is_shared_fails_one_attempt_and_is_private_in_the_next() {
    let user = User::new();
    // The host names itself as its ancestor.
    let script = "[ \"$DYNAMIC_MCP_ANCESTORS\" = shared ] && exec sleep 600; exec \"$0\"";
    let entry = json!({
        "command": "sh", "args": ["-c", script, scripted_upstream_program()], "timeout": {"initialize": "4s"},
    });
    let mut window = user.window(&pure_config([("g", shared(entry))]));
    assert_eq!(window.call_text("g", "echo", json!({"text": "x"})), "x");
    let log = window.log();
    assert_eq!(log.matches("attached to the shared").count(), 1, "{log}");
    let failed = log.lines().find(|line| line.contains("connect failed")).unwrap_or_else(|| panic!("{log}"));
    assert!(failed.contains("initialize was not answered within"), "{failed}");
    assert_eq!(window.group_status("g")["shared"], false);
}

#[test]
fn a_client_that_waits_for_another_gets_a_process_of_its_own_next_time() {
    let user = User::new();
    let record = InputRecord::new();
    let mut config = pure_config([("g", record.attached_to(shared(scripted_upstream(&[]))))]);
    config["settings"]["idle_timeout"] = json!("500ms");
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let pid = a.upstream_pid("g");
    let of_a = a.send_call("g", "sleep", json!({"ms": 2500}));
    wait_until("the call arrives", || record.lines_of("tools/call").iter().any(|line| line.contains("2500")));
    // The scripted upstream does not make it wait; the host cannot know that.
    b.call_text("g", "sleep", json!({"ms": 1500}));
    b.wait_for_state("g", "discovered");
    assert_ne!(b.upstream_pid("g"), pid);
    assert!(a.response(of_a).line.contains("slept"));
    assert_eq!(a.upstream_pid("g"), pid);
}

/// A cgroup of version 2 that is removed when it is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`, with a line that says so, if there can be none here.
    fn new(name: &str) -> Option<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_owned();
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| Path::new(root).join(&own));
        let parent = roots.into_iter().find(|dir| dir.join("cgroup.threads").exists())?;
        let dir = parent.join(format!("dynamic-mcp-test-{}-{name}", std::process::id()));
        // Linux has it since 5.14, in every cgroup but the root.
        let made = fs::create_dir(&dir).is_ok();
        if made && dir.join("cgroup.kill").exists() {
            return Some(Self(dir));
        }
        if made {
            fs::remove_dir(&dir).unwrap();
        }
        eprintln!("SKIPPED: no cgroup that can be killed can be made in {}", parent.display());
        None
    }

    /// Starts a window in it.
    fn window(&self, user: &User, config: &Value) -> Proxy {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        user.command(config).started_by(&["sh", "-c", &script, "sh"]).start_initialized()
    }

    fn kill(&self) {
        fs::write(self.0.join("cgroup.kill"), "1").unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.kill();
        wait_until("the cgroup is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn the_end_of_a_cgroup_costs_the_others_one_host_at_most() {
    let Some(of_a) = Cgroup::new("a") else { return };
    let (of_b, of_c) = (Cgroup::new("b").unwrap(), Cgroup::new("c").unwrap());
    let user = User::new();
    let config = shared_config(&[]);
    // It starts the host, which stays in its cgroup.
    let mut a = of_a.window(&user, &config);
    let (pid, host) = (a.upstream_pid("g"), user.host());
    let mut b = of_b.window(&user, &config);
    assert_eq!(b.upstream_pid("g"), pid);
    let open = b.send_call("g", "sleep", json!({"ms": 20_000}));
    of_a.kill();
    assert!(b.response(open).line.contains("has ended"));
    wait_until("the server has ended", || !is_alive(pid) && !is_alive(host));
    let next = b.upstream_pid("g");
    let mut c = of_c.window(&user, &config);
    assert_eq!(c.upstream_pid("g"), next);
    // The host is in the cgroup of b and outlives b, until its last client is killed with its cgroup.
    let host = user.host();
    let below = descendants(host);
    b.close_stdin();
    b.wait_for_exit();
    assert_eq!(c.upstream_pid("g"), next);
    of_c.kill();
    let killed = Instant::now();
    wait_until("nothing is left", || user.hosts().is_empty() && below.iter().all(|pid| !is_alive(*pid)));
    assert!(killed.elapsed() < ALL_GONE_AFTER + Duration::from_secs(2), "{:?}", killed.elapsed());
}
