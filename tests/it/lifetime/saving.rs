//! A server gets its time to save, however its client ends, and the next process of the server waits for that.

use super::*;
use crate::sharing::User;
use crate::support::namespaces::{NamespaceRun, OWN_PIDS, run_again_in};
use crate::support::{TEST_TIMEOUT, is_alive, merged};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tokio::time::Instant;

/// The ends of a client, and SIGKILL.
const ENDS: [ShutdownCause; 3] =
    [ShutdownCause::Eof, ShutdownCause::Signal(Signal::SIGTERM), ShutdownCause::Signal(Signal::SIGKILL)];

/// Runs a test for each end and each way to save: at the end of stdin, and at SIGTERM.
fn for_each_end_and_way(test: impl Fn(ShutdownCause, &[&str]) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for end in ENDS {
            for way in [&[][..], &["--ignore-eof"]] {
                scope.spawn(move || test(end, way));
            }
        }
    });
}

/// Runs a test in a PID namespace of its own where the system allows that. Outside, an instance of an older version takes
/// servers whose instance has ended for orphans, and ends them.
fn run(test: impl FnOnce()) {
    if run_again_in(&OWN_PIDS) != NamespaceRun::Done {
        test();
    }
}

fn is_saved(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text == "saved")
}

#[test]
fn a_server_that_logs_while_it_saves_has_saved_however_its_client_ends() {
    run(|| {
        for_each_end_and_way(|end, way| {
            let command = ProxyCommand::new();
            let file = command.home().join("file");
            let flags = [way, &["--save", file.to_str().unwrap()]].concat();
            let mut proxy = command.config(&scripted_config(&flags)).start_initialized();
            proxy.upstream_pid("g");
            let processes = Processes::descendants_of(proxy.pid());
            let start = Instant::now();
            end.apply_to(&mut proxy);
            let (_, took) = proxy.wait_for_exit();
            assert!(took < SHUTDOWN_TIMEOUT, "{end:?} {way:?}: {took:?}");
            wait_until("no process is left", || processes.running().is_empty());
            assert!(is_saved(&file), "{end:?} {way:?}: {}", proxy.log());
            assert!(start.elapsed() < ALL_GONE_TIMEOUT, "{end:?} {way:?}: {:?}", start.elapsed());
        });
    });
}

#[test]
fn a_server_saves_when_it_is_closed_because_it_is_idle() {
    run(|| {
        for way in [&[][..], &["--ignore-eof"]] {
            let command = ProxyCommand::new();
            let file = command.home().join("file");
            let flags = [way, &["--save", file.to_str().unwrap()]].concat();
            let config = merged(scripted_config(&flags), json!({"settings": {"idle_timeout": "100ms"}}));
            let mut proxy = command.config(&config).start_initialized();
            let pid = proxy.upstream_pid("g");
            proxy.wait_for_state("g", "discovered");
            assert_ne!(proxy.upstream_pid("g"), pid);
            assert!(is_saved(&file), "the next process starts when the last one has saved: {}", proxy.log());
        }
    });
}

#[test]
fn a_server_saves_when_the_container_ends_with_its_client() {
    run(|| {
        let command = ProxyCommand::new();
        let file = command.home().join("file");
        let config = scripted_config(&["--ignore-eof", "--save", file.to_str().unwrap()]);
        let mut unshare = vec!["unshare"];
        if !nix::unistd::geteuid().is_root() {
            unshare.extend(["--user", "--map-root-user"]);
        }
        unshare.extend(OWN_PIDS);
        let possible = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
        if !possible.is_ok_and(|output| output.status.success()) {
            return;
        }
        let mut proxy = command.config(&config).started_by(&unshare).start_initialized();
        proxy.upstream_pid("g");
        proxy.close_stdin();
        proxy.wait_for_exit();
        assert!(is_saved(&file), "{}", proxy.log());
    });
}

#[test]
fn the_sweep_of_another_instance_spares_what_a_warden_still_ends() {
    run(|| {
        let command = ProxyCommand::new();
        let file = command.home().join("file");
        let config = scripted_config(&["--ignore-eof", "--save", file.to_str().unwrap()]);
        let mut killed = command.config(&config).start_initialized();
        killed.upstream_pid("g");
        let processes = Processes::descendants_of(killed.pid());
        kill(killed.pid());
        killed.wait_for_exit();
        // Its warden looks for orphans before it starts a server.
        Proxy::new(&scripted_config(&[])).upstream_pid("g");
        assert_eq!(processes.running().len(), 2, "the warden and the server");
        wait_until("no process is left", || processes.running().is_empty());
        assert!(is_saved(&file));
    });
}

/// The config of a server that does not start while its last process runs.
fn locking_config(user: &User, flags: &[&str]) -> Value {
    let file = user.home().join("lock");
    let entry = scripted_upstream(&[flags, &["--lock", file.to_str().unwrap()]].concat());
    pure_config([("g", merged(entry, json!({"cwd": user.home(), "timeout": {"connect": "1s"}})))])
}

/// Whether a warden of this user ends a server: it has locked a byte of the file of servers that end.
fn is_ending(user: &User) -> bool {
    let Ok(file) = std::fs::metadata(user.host_dir().join("ending")) else { return false };
    std::fs::read_to_string("/proc/locks").unwrap().contains(&format!(":{} ", file.ino()))
}

const WAITING: &str = "waiting for the end of the server's last process";

#[test]
fn a_server_starts_when_its_last_process_is_gone_also_in_another_instance() {
    run(|| {
        std::thread::scope(|scope| {
            for end in ENDS {
                for flags in [&["--ignore-eof"][..], STUBBORN] {
                    scope.spawn(move || {
                        let user = User::new();
                        let config = locking_config(&user, flags);
                        let mut first = user.window(&config);
                        let pid = first.upstream_pid("g");
                        end.apply_to(&mut first);
                        first.wait_for_exit();
                        // A killed instance says nothing. Its warden needs a moment to notice the end.
                        wait_until("the warden ends the server", || is_ending(&user) || !is_alive(pid));
                        let mut second = user.window(&config);
                        assert_ne!(second.upstream_pid("g"), pid);
                        let log = second.log();
                        assert!(!log.contains("connect failed"), "{end:?} {flags:?}: {log}");
                        // The other one may be gone already when the machine is busy.
                        assert!(flags != STUBBORN || log.contains(WAITING), "{end:?} {flags:?}: {log}");
                    });
                }
            }
        });
    });
}

#[test]
fn a_server_starts_when_its_last_process_is_gone_also_after_a_reload() {
    run(|| {
        let user = User::new();
        let mut config = locking_config(&user, STUBBORN);
        let mut proxy = user.window(&config);
        let pid = proxy.upstream_pid("g");
        config["mcpServers"]["g"]["env"] = json!({"N": "1"});
        std::fs::write(proxy.config_file(), config.to_string()).unwrap();
        proxy.wait_for_log("the server of this group changed");
        assert_ne!(proxy.upstream_pid("g"), pid);
        let log = proxy.log();
        assert!(!log.contains("connect failed"), "{log}");
    });
}

#[test]
fn a_server_does_not_wait_for_other_servers_nor_for_a_running_process() {
    run(|| {
        let user = User::new();
        let mut config =
            pure_config([("g", merged(scripted_upstream(STUBBORN), json!({"cwd": user.home()})))]);
        let mut alive = user.window(&config);
        alive.upstream_pid("g");
        let mut other = user.window(&config);
        other.upstream_pid("g");
        assert!(!other.log().contains(WAITING), "{}", other.log());
        // Another server of the same program.
        other.close_stdin();
        other.wait_for_exit();
        config["mcpServers"]["g"]["env"] = json!({"N": "1"});
        let mut third = user.window(&config);
        third.upstream_pid("g");
        assert!(!third.log().contains(WAITING), "{}", third.log());
    });
}

#[test]
fn a_server_waits_5_s_at_most() {
    run(|| {
        let user = User::new();
        let entry = merged(scripted_upstream(STUBBORN), json!({"cwd": user.home()}));
        let config = pure_config([("g", merged(entry, json!({"idle_timeout": "100ms"})))]);
        let mut first = user.window(&config);
        let pid = first.upstream_pid("g");
        let warden = Processes::descendants_of(first.pid()).warden_pid();
        wait_until("the warden ends the server", || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.contains(&format!(" READ {warden} ")))
        });
        let warden = Pid::from_raw(warden.cast_signed());
        nix::sys::signal::kill(warden, Signal::SIGSTOP).unwrap();
        let mut second = user.window(&config);
        let start = Instant::now();
        assert_ne!(second.upstream_pid("g"), pid);
        assert!(second.log().contains(WAITING), "{}", second.log());
        assert!(
            start.elapsed() >= Duration::from_secs(4) && start.elapsed() < TEST_TIMEOUT / 2,
            "{:?}",
            start.elapsed()
        );
        nix::sys::signal::kill(warden, Signal::SIGCONT).unwrap();
    });
}
