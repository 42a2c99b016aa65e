//! A warden that is stopped (SIGSTOP) when its owner ends does not stay, nor do its upstreams. One that goes on still tells
//! how an upstream ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use process::child::end_of_output;
use process::warden::{Exit, SpawnedProcess};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use super::{run, send_signal, sh, warden};
use crate::support::namespaces::{NamespaceRun, OWN_PIDS, run_again_in};
use crate::support::{
    Processes, Proxy, ProxyCommand, config_of, is_alive, merged, pure_config, scripted_upstream, wait_until,
};

/// How long an ordered exit may take, on a machine that does nothing else.
const EXIT_TIMEOUT: Duration = Duration::from_millis(1500);

#[test]
fn an_exit_that_is_reported_late_is_not_taken_for_a_closed_stdout() {
    run(async {
        let warden = warden();
        let end_of = async |script: &str, meanwhile: &dyn Fn()| {
            let SpawnedProcess { pid, stdin, mut stdout, handle, .. } =
                warden.spawn(sh(script)).await.unwrap();
            meanwhile();
            drop(stdin);
            stdout.read_to_end(&mut Vec::new()).await.unwrap();
            end_of_output(pid, &handle).await
        };
        let pid_of_warden = || warden.pid().unwrap();
        let stop = || send_signal(pid_of_warden(), Signal::SIGSTOP);
        let resume = async {
            sleep(Duration::from_millis(500)).await;
            send_signal(pid_of_warden(), Signal::SIGCONT);
        };
        let ((exit, how), ()) = tokio::join!(end_of("read line; exit 7", &stop), resume);
        assert_eq!((exit, &*how), (Some(Exit::Code(7)), "its process exited with code 7"));
        let (exit, how) = end_of("read line; exec >&-; exec sleep 60", &|| ()).await;
        assert_eq!((exit, &*how), (None, "it closed its stdout"));
    });
}

/// Stops a warden again and again until it has ended or `is_done`.
fn keep_stopped(warden: u32, is_done: &AtomicBool) {
    let is_warden =
        || fs::read_to_string(format!("/proc/{warden}/comm")).is_ok_and(|name| name == "dmcp-warden\n");
    while is_warden() && is_alive(warden) && !is_done.load(Ordering::Relaxed) {
        // It may end at this moment.
        kill(Pid::from_raw(warden.cast_signed()), Signal::SIGSTOP).ok();
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn an_ordered_exit_ends_a_stopped_warden_and_its_upstreams() {
    let flags = ["--grandchild-escapes", "--ignore-eof", "--ignore-term"];
    let config = pure_config([("g", scripted_upstream(&flags)), ("polite", scripted_upstream(&[]))]);
    for (cause, is_stopped_again) in
        [(None, false), (None, true), (Some(Signal::SIGTERM), false), (Some(Signal::SIGTERM), true)]
    {
        let mut proxy = ProxyCommand::new().config(&config).start_initialized();
        proxy.connect(["g", "polite"]);
        let processes = Processes::descendants_of(proxy.pid());
        let warden = processes.warden_pid();
        assert!(processes.running().len() >= 4, "{:?}", processes.running());
        send_signal(warden, Signal::SIGSTOP);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if is_stopped_again {
                scope.spawn(|| keep_stopped(warden, &is_done));
            }
            match cause {
                None => proxy.close_stdin(),
                Some(signal) => proxy.send_signal(signal),
            }
            let (status, took) = proxy.wait_for_exit();
            // A warden that goes on gives its upstreams 4 s, and what was killed may take a moment to end.
            let deadline = Instant::now() + Duration::from_secs(6);
            while !processes.running().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let left = processes.running();
            is_done.store(true, Ordering::Relaxed);
            assert!(status.success(), "{status}");
            // The seconds are for a machine that has other things to do: without a limit, the exit would not end.
            assert!(took < EXIT_TIMEOUT + Duration::from_secs(5), "{cause:?} {is_stopped_again}: {took:?}");
            assert!(left.is_empty(), "{cause:?} {is_stopped_again}: {left:?} {}", proxy.log());
        });
    }
}

/// A config with a server that ignores SIGTERM and the end of its stdin, and has a process that escapes. Once both run,
/// their pids are in `file`.
fn stubborn_server(file: &Path) -> Value {
    let file = file.display();
    let script = format!(
        "trap '' TERM HUP; setsid sh -c 'env -i sleep 600 & echo $$! > {file}.tmp; echo {} >> {file}.tmp; \
         mv {file}.tmp {file}' & exec sleep 600",
        "$$PPID"
    );
    let entry = json!({"command": "/bin/sh", "args": ["-c", script]});
    merged(config_of([("g", entry)]), json!({"settings": {"lazy_startup": "eager"}}))
}

/// An instance of a user who is not root, the pid of its warden, and those of its server. `None`: this cannot be here.
fn instance_with_stubborn_server() -> Option<(Proxy, u32, Vec<u32>)> {
    let command = ProxyCommand::unprivileged()?;
    let file: PathBuf = command.home().join("pids");
    let proxy = command.config(&stubborn_server(&file)).start_initialized();
    wait_until("the server runs", || file.exists());
    let pids = fs::read_to_string(&file).unwrap();
    let pids: Vec<u32> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
    let processes = Processes::descendants_of(proxy.pid());
    Some((proxy, processes.warden_pid(), pids))
}

#[test]
fn the_next_instance_ends_a_stopped_warden_whose_owner_was_killed_and_no_other() {
    // Elsewhere the warden of another test could be the next one.
    let is_alone = geteuid().is_root() && {
        let run = run_again_in(&OWN_PIDS);
        if run == NamespaceRun::Done {
            return;
        }
        run == NamespaceRun::Inside
    };
    let Some((mut killed, warden, servers)) = instance_with_stubborn_server() else { return };
    let Some((_alive, other_warden, other_servers)) = instance_with_stubborn_server() else { return };
    send_signal(warden, Signal::SIGSTOP);
    send_signal(other_warden, Signal::SIGSTOP);
    killed.send_signal(Signal::SIGKILL);
    killed.wait_for_exit();
    let all = || servers.iter().chain([&warden]);
    if is_alone {
        assert!(all().all(|pid| is_alive(*pid)), "nobody has ended them");
    }
    let Some(_next) = instance_with_stubborn_server() else { return };
    wait_until("they are ended", || !all().any(|pid| is_alive(*pid)));
    let are_spared = other_servers.iter().chain([&other_warden]).all(|pid| is_alive(*pid));
    send_signal(other_warden, Signal::SIGCONT);
    assert!(are_spared, "a warden whose owner runs is left alone");
}
