//! The warden: how it starts and stops upstreams. `killed` has the tests that kill our process or the warden, `silent`
//! those where a warden or an exec hangs, `stopped` those where a warden is stopped when its owner ends.
#![expect(clippy::unwrap_used, reason = "test helpers panic like tests")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::launch::Launch;
use process::warden::{Exit, MODE_ARG, SpawnError, SpawnedProcess, StopTimeouts, Warden, raise_nofile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

#[cfg(target_os = "linux")]
use crate::support::namespaces::{NamespaceRun, OWN_PIDS, run_again_in};
use crate::support::{ORPHANS_LOCK, TEST_TIMEOUT};

mod killed;
// File leases.
#[cfg(target_os = "linux")]
mod silent;
// Descriptors of processes, and marks.
#[cfg(target_os = "linux")]
mod stopped;

const SHORT_TIMEOUTS: StopTimeouts =
    StopTimeouts { sigterm_after: Duration::from_millis(200), sigkill_after: Duration::from_millis(400) };

/// Runs a test beside others.
fn run(test: impl Future<Output = ()>) {
    let _lock = ORPHANS_LOCK.read().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

/// Runs a test that makes orphaned processes, alone: in a PID namespace of its own where the system allows that, because
/// the warden of any other test, or of another program, would end such processes.
fn run_alone(test: impl Future<Output = ()>) {
    #[cfg(target_os = "linux")]
    if run_again_in(&OWN_PIDS) == NamespaceRun::Done {
        return;
    }
    let _lock = ORPHANS_LOCK.write().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_secs(120) * u32::try_from(rounds()).unwrap();
    runtime.block_on(async { timeout(limit, test).await.unwrap() });
}

fn warden() -> Warden {
    Warden::with_program(env!("CARGO_BIN_EXE_dynamic-mcp").into(), vec![MODE_ARG.into()])
}

/// How often the tests that kill processes repeat themselves; `.ci/long` asks for 50.
pub(crate) fn rounds() -> usize {
    std::env::var("DYNAMIC_MCP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Returns the program of `tests/helpers/unruly.rs`.
fn unruly_program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/unruly");
    assert!(path.exists(), "run `cargo build --examples` first: no {}", path.display());
    path
}

/// Returns a word that no other process has in its command line.
fn new_tag() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tag-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the launch of a shell script.
fn sh(script: &str) -> Launch {
    launch("/bin/sh", &["-c", script])
}

fn launch(program: &str, args: &[&str]) -> Launch {
    let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    Launch {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: vec![path],
        cwd: "/".into(),
    }
}

/// Spawns an upstream without input and returns its output.
async fn output_of(warden: &Warden, launch: Launch) -> String {
    let SpawnedProcess { stdin, mut stdout, handle, .. } = warden.spawn(launch).await.unwrap();
    drop(stdin);
    let mut text = String::new();
    timeout(TEST_TIMEOUT, stdout.read_to_string(&mut text)).await.unwrap().unwrap();
    drop(handle);
    text
}

/// Spawns an upstream of `unruly` and waits until it is ready.
async fn spawn_unruly(warden: &Warden, kind: &str, tag: &str) -> SpawnedProcess {
    let mut child = warden.spawn(launch(unruly_program().to_str().unwrap(), &[kind, tag])).await.unwrap();
    let mut ready = [0; 3];
    timeout(TEST_TIMEOUT, child.stdout.read_exact(&mut ready)).await.unwrap().unwrap();
    assert_eq!(&ready, b"up\n");
    child
}

/// Returns whether an upstream echoes `word`.
async fn echoes(child: &mut SpawnedProcess, word: &str) -> bool {
    let mut answer = vec![0; word.len()];
    child.stdin.write_all(word.as_bytes()).await.is_ok()
        && timeout(TEST_TIMEOUT, child.stdout.read_exact(&mut answer)).await.is_ok()
        && answer == word.as_bytes()
}

/// Returns the pids and command lines of the living processes that have `tag` as an argument. Zombies have no
/// arguments.
fn processes_with(tag: &str) -> Vec<(i32, String)> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named = pids.filter_map(|pid| Some((pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?)));
    named.filter(|(_, line)| line.split('\0').any(|arg| arg == tag)).collect()
}

/// Polls until `condition` holds; `what` describes it.
async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TEST_TIMEOUT, "not within {TEST_TIMEOUT:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn children_of(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn send_signal(pid: u32, signal: Signal) {
    assert!(pid > 1);
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

#[test]
fn an_upstream_is_connected_by_its_pipes() {
    run(async {
        let warden = warden();
        assert_eq!(warden.pid(), None, "no warden runs before the first spawn");
        let mut child = spawn_unruly(&warden, "polite", &new_tag()).await;
        assert!(echoes(&mut child, "hello").await);
        // More than a pipe holds.
        let large = vec![b'x'; 3 << 20];
        let SpawnedProcess { mut stdin, mut stdout, handle, .. } = child;
        let expected = large.clone();
        let writing = tokio::spawn(async move { stdin.write_all(&large).await.unwrap() });
        let mut received = Vec::new();
        stdout.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == expected);
        assert_eq!(handle.exited().await, Exit::Code(0));
    });
}

#[test]
fn the_environment_is_that_of_the_launch_and_the_owner_mark() {
    run(async {
        let warden = warden();
        let mut wanted = launch("/usr/bin/env", &["-0"]);
        wanted.env = vec![("A".into(), "1 2".into()), ("B".into(), "".into()), ("C".into(), "x\ny=z".into())];
        let text = output_of(&warden, wanted).await;
        let mut env: BTreeMap<&str, &str> =
            text.split_terminator('\0').map(|entry| entry.split_once('=').unwrap()).collect();
        let mark = env.remove("DYNAMIC_MCP_OWNER").unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(
            mark.starts_with(&format!("{}/", std::process::id())) && mark.contains(boot.trim()),
            "{mark}"
        );
        assert_eq!(env, BTreeMap::from([("A", "1 2"), ("B", ""), ("C", "x\ny=z")]));
        // Only root can read it.
        if let Ok(warden_env) = fs::read(format!("/proc/{}/environ", warden.pid().unwrap())) {
            assert_eq!(warden_env, b"", "the warden itself has no environment");
        }
    });
}

#[test]
fn large_environments_and_arguments_arrive() {
    run(async {
        let warden = warden();
        let mut wanted = launch("/bin/sh", &["-c", "env | wc -c; echo ${#1}", "sh", &"y".repeat(100_000)]);
        wanted.env.extend((0..10).map(|n| (format!("V{n}").into(), "x".repeat(50_000).into())));
        let text = output_of(&warden, wanted).await;
        let (env, arg) = text.split_once('\n').unwrap();
        assert!(env.trim().parse::<usize>().unwrap() > 500_000, "{env}");
        assert_eq!(arg.trim(), "100000");
    });
}

#[test]
fn a_failed_spawn_says_what_failed() {
    run(async {
        let warden = warden();
        let cwd = warden.spawn(Launch { cwd: "/nowhere".into(), ..sh("true") }).await.unwrap_err();
        assert!(matches!(cwd, SpawnError::Chdir { errno: Errno::ENOENT, .. }), "{cwd:?}");
        assert_eq!(cwd.to_string(), "cannot enter the working directory /nowhere: No such file or directory");
        let missing = warden.spawn(launch("/nowhere/x", &[])).await.unwrap_err();
        assert!(matches!(missing, SpawnError::Exec { errno: Errno::ENOENT, .. }), "{missing:?}");
        let directory = warden.spawn(launch("/tmp", &[])).await.unwrap_err();
        assert!(matches!(directory, SpawnError::Exec { errno: Errno::EACCES, .. }), "{directory:?}");
        let huge = warden.spawn(launch("/bin/true", &[&"x".repeat(300_000)])).await.unwrap_err();
        assert!(matches!(huge, SpawnError::Exec { errno: Errno::E2BIG, .. }), "{huge:?}");
        let oversized = warden.spawn(launch("/bin/true", &[&"x".repeat(20 << 20)])).await.unwrap_err();
        assert!(matches!(oversized, SpawnError::Exec { errno: Errno::E2BIG, .. }), "{oversized:?}");
        let with_nul = warden.spawn(launch("/bin/true", &["a\0b"])).await.unwrap_err();
        assert!(matches!(with_nul, SpawnError::Exec { errno: Errno::EINVAL, .. }), "{with_nul:?}");
        assert_eq!(output_of(&warden, Launch { cwd: "/tmp".into(), ..sh("pwd") }).await, "/tmp\n");
        wait_until("no zombie of a failed spawn", || children_of(warden.pid().unwrap()).is_empty()).await;
    });
}

#[test]
fn a_script_without_an_interpreter_line_runs_in_the_shell() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "echo \"$0 $1 $2\"\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let script = script.to_str().unwrap();
        assert_eq!(output_of(&warden(), launch(script, &["a b", "c"])).await, format!("{script} a b c\n"));
    });
}

#[test]
fn the_exit_status_is_reported() {
    run(async {
        let warden = warden();
        let exit_of = async |script: &str| {
            let child = warden.spawn(sh(script)).await.unwrap();
            let exit = timeout(TEST_TIMEOUT, child.handle.exited()).await.unwrap();
            assert_eq!(child.handle.exited().await, exit, "it can be called again");
            exit
        };
        assert_eq!(exit_of("exit 3").await.to_string(), "exited with code 3");
        assert_eq!(exit_of("kill -SEGV $$").await.to_string(), "was killed by SIGSEGV");
        // A real-time signal has no name.
        assert_eq!(exit_of("kill -40 $$").await, Exit::Signal(40));
    });
}

#[test]
fn no_exit_is_lost_when_many_upstreams_exit_at_once() {
    run(async {
        let warden = warden();
        let mut children = Vec::new();
        for _ in 0..200 {
            children.push(warden.spawn(sh("read line; exit 7")).await.unwrap());
        }
        let mut running = Vec::new();
        for SpawnedProcess { stdin, handle, stdout, stderr, .. } in children {
            drop(stdin);
            running.push((handle, stdout, stderr));
        }
        for (handle, ..) in &running {
            assert_eq!(timeout(TEST_TIMEOUT, handle.exited()).await.unwrap(), Exit::Code(7));
        }
        wait_until("no zombie", || children_of(warden.pid().unwrap()).is_empty()).await;
    });
}

#[test]
fn an_upstream_inherits_no_descriptor_signal_mask_or_limit() {
    run(async {
        let original = raise_nofile();
        let leaked = fs::File::open("/dev/null").unwrap();
        fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let warden = warden();
        let descriptors = output_of(&warden, sh("ls /proc/self/fd/ | tr '\\n' ' '")).await;
        // `ls` opens the directory as 3.
        assert_eq!(descriptors.trim(), "0 1 2 3");
        let status = output_of(&warden, launch("/bin/cat", &["/proc/self/status"])).await;
        for mask in ["SigBlk", "SigIgn", "SigCgt"] {
            let line = status.lines().find(|line| line.starts_with(mask)).unwrap();
            // 32 and 33 are reserved for the C library.
            let signals = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
            assert_eq!(signals & !(0b11 << 31), 0, "{line}");
        }
        assert_eq!(output_of(&warden, sh("ulimit -Sn")).await.trim(), original.to_string());
        let ids = output_of(&warden, sh("set -- $(cat /proc/self/stat); echo $$ $5 $6")).await;
        let [pid, group, session] = ids.split_whitespace().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((pid, pid), (group, session));
        let name = fs::read_to_string(format!("/proc/{}/comm", warden.pid().unwrap())).unwrap();
        assert_eq!(name, "dmcp-warden\n");
        // Only root can read them.
        let open_count =
            || fs::read_dir(format!("/proc/{}/fd", warden.pid().unwrap())).map_or(4, Iterator::count);
        wait_until("only /dev/null three times and the socket are open", || open_count() == 4).await;
    });
}

#[test]
fn stopping_an_upstream_ends_all_of_its_processes_and_no_other() {
    for kind in ["polite", "stubborn", "parent", "daemon", "daemon-without-env", "respawner"] {
        run(async {
            let warden = warden();
            let (tag, other_tag) = (new_tag(), new_tag());
            let mut other = spawn_unruly(&warden, "daemon-without-env", &other_tag).await;
            wait_until("the daemon of the other upstream runs", || processes_with(&other_tag).len() == 2)
                .await;
            for _ in 0..rounds() {
                let SpawnedProcess { stdin, handle, stdout, .. } = spawn_unruly(&warden, kind, &tag).await;
                drop(stdin);
                handle.stop(SHORT_TIMEOUTS).await;
                assert_eq!(processes_with(&tag), [], "{kind}");
                let exit = timeout(TEST_TIMEOUT, handle.exited()).await.unwrap();
                // How soon it sees the end of its stdin is not ours.
                assert!(matches!(exit, Exit::Code(0) | Exit::Signal(9 | 15)), "{kind} {exit}");
                drop(stdout);
            }
            assert_eq!(processes_with(&other_tag).len(), 2, "{kind}: the other upstream");
            assert!(echoes(&mut other, "still here").await);
            assert_eq!(children_of(warden.pid().unwrap()).len(), 2, "no zombie");
        });
    }
}

/// A shell that leaves a process in a session of its own. That process writes `terminated` to its output when it gets
/// SIGTERM, and ends by itself after a minute.
const PARENT_OF_A_SESSION: &str = r#"
setsid sh -c 'trap "echo terminated; exit" TERM; echo ready; for i in $(seq 600); do sleep 0.1; done' &
read line
"#;

#[test]
fn sigterm_reaches_a_process_in_a_session_of_its_own() {
    // SIGKILL would come after the deadline of the test.
    let timeouts = StopTimeouts { sigterm_after: Duration::ZERO, sigkill_after: 4 * TEST_TIMEOUT };
    for all in [false, true] {
        run(async {
            let warden = warden();
            let mut child = warden.spawn(sh(PARENT_OF_A_SESSION)).await.unwrap();
            let mut output = [0; 17];
            timeout(TEST_TIMEOUT, child.stdout.read_exact(&mut output[..6])).await.unwrap().unwrap();
            let SpawnedProcess { handle, mut stdout, stdin: _open, .. } = child;
            let stop = async {
                match all {
                    false => handle.stop(timeouts).await,
                    true => warden.shutdown(timeouts).await,
                }
            };
            timeout(TEST_TIMEOUT, stop).await.unwrap();
            timeout(TEST_TIMEOUT, stdout.read_exact(&mut output[6..])).await.unwrap().unwrap();
            assert_eq!(output.escape_ascii().to_string(), "ready\\nterminated\\n");
        });
    }
}

#[test]
fn a_stop_returns_when_the_upstream_exits_by_itself() {
    run(async {
        let warden = warden();
        let SpawnedProcess { stdin, handle, .. } = spawn_unruly(&warden, "polite", &new_tag()).await;
        drop(stdin);
        let start = Instant::now();
        handle.stop(StopTimeouts { sigterm_after: TEST_TIMEOUT, sigkill_after: TEST_TIMEOUT }).await;
        assert!(start.elapsed() < TEST_TIMEOUT / 2, "{:?}", start.elapsed());
    });
}

#[test]
fn a_dropped_handle_stops_its_upstream() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        drop(spawn_unruly(&warden, "parent", &tag).await);
        wait_until("nothing left", || processes_with(&tag).is_empty()).await;
        // This spawn is cancelled, so nobody receives its handle.
        drop(
            timeout(
                Duration::ZERO,
                warden.spawn(launch(unruly_program().to_str().unwrap(), &["stubborn", &tag])),
            )
            .await,
        );
        sleep(Duration::from_millis(100)).await;
        wait_until("nothing left", || processes_with(&tag).is_empty()).await;
    });
}

#[test]
fn shutdown_ends_every_upstream_and_the_warden() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        let mut children = Vec::new();
        for kind in ["polite", "stubborn", "parent", "daemon", "daemon-without-env", "respawner"] {
            children.push(spawn_unruly(&warden, kind, &tag).await);
        }
        let start = Instant::now();
        warden.shutdown(StopTimeouts::FAST).await;
        assert!(start.elapsed() < TEST_TIMEOUT);
        wait_until("nothing left", || processes_with(&tag).is_empty()).await;
        wait_until("no warden", || warden.pid().is_none()).await;
        assert!(matches!(warden.spawn(sh("true")).await, Err(SpawnError::ShuttingDown)));
        for child in children {
            assert_ne!(child.handle.exited().await, Exit::Unknown, "exits are reported until the end");
        }
    });
}

#[test]
fn dropping_the_last_warden_handle_ends_everything() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        let _child = spawn_unruly(&warden, "stubborn", &tag).await;
        let pid = warden.pid().unwrap();
        drop(warden.clone());
        assert_eq!(processes_with(&tag).len(), 1);
        drop(warden);
        wait_until("nothing left", || processes_with(&tag).is_empty()).await;
        wait_until("no warden", || !fs::exists(format!("/proc/{pid}")).unwrap()).await;
    });
}

#[test]
fn a_warden_process_that_does_not_work_is_an_error() {
    run(async {
        let missing = Warden::with_program("/nowhere".into(), vec![]);
        assert!(matches!(missing.spawn(sh("true")).await, Err(SpawnError::Warden(_))));
        let exits = Warden::with_program("/bin/true".into(), vec![]);
        assert!(matches!(exits.spawn(sh("true")).await, Err(SpawnError::Warden(_))));
        // Another version: this `Hello` says 99.
        let hello = r"printf '\5\0\0\0\0\143\0\0\0' >&0; read line";
        let newer = Warden::with_program("/bin/sh".into(), vec!["-c".into(), hello.into()]);
        let error = newer.spawn(sh("true")).await.unwrap_err();
        assert!(error.source().unwrap().to_string().contains("another version"), "{error:?}");
    });
}

#[test]
fn a_warden_process_tells_another_version_its_own() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let program = env!("CARGO_BIN_EXE_dynamic-mcp");
    let mut warden = Command::new(program).arg(MODE_ARG).stdin(OwnedFd::from(theirs)).spawn().unwrap();
    // This `Hello` says 99. Another message comes with it, as the one about orphans does.
    ours.write_all(b"\x05\0\0\0\0\x63\0\0\0\x04\0\0\0\x01\x00\x00\x00").unwrap();
    let mut answer = Vec::new();
    ours.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[..5], [5, 0, 0, 0, 0], "{answer:?}");
    assert!(answer.len() == 9 && answer[5] != 99, "{answer:?}");
    assert!(warden.wait().unwrap().success());
}
