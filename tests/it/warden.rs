//! The warden: what it starts, and that nothing of it is ever left.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use dynamic_mcp::transport::launch::Launch;
use dynamic_mcp::transport::warden::{Child, Exit, Grace, MODE, SpawnError, Warden, raise_nofile};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getsid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

/// For everything that happens soon, on a loaded machine.
const SOON: Duration = Duration::from_secs(30);
const QUICK: Grace = Grace { term: Duration::from_millis(200), kill: Duration::from_millis(400) };

/// Strays of one test are ended by the warden of any other: the tests that make some run alone.
pub(crate) static STRAYS: RwLock<()> = RwLock::new(());

fn run(test: impl Future<Output = ()>) {
    let _others = STRAYS.read().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

fn run_alone(test: impl Future<Output = ()>) {
    let _others = STRAYS.write().unwrap_or_else(PoisonError::into_inner);
    block_on(test);
}

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = Duration::from_secs(120) * u32::try_from(rounds()).unwrap();
    runtime.block_on(async { timeout(limit, test).await.unwrap() });
}

fn warden() -> Warden {
    Warden::with_program(env!("CARGO_BIN_EXE_dynamic-mcp").into(), vec![MODE.into()])
}

/// How often the rounds of killing are repeated; `.ci/long` asks for 50.
fn rounds() -> usize {
    std::env::var("DYNAMIC_MCP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/unruly");
    assert!(path.exists(), "run `cargo build --examples` first: no {}", path.display());
    path
}

/// A word that no other process has in its command line.
fn new_tag() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tag-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

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

async fn output(warden: &Warden, launch: Launch) -> String {
    let Child { stdin, mut stdout, process, .. } = warden.spawn(launch).await.unwrap();
    drop(stdin);
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    drop(process);
    text
}

/// An upstream of `unruly` that said it is up.
async fn unruly(warden: &Warden, kind: &str, tag: &str) -> Child {
    let mut child = warden.spawn(launch(helper().to_str().unwrap(), &[kind, tag])).await.unwrap();
    let mut hello = [0; 3];
    timeout(SOON, child.stdout.read_exact(&mut hello)).await.unwrap().unwrap();
    assert_eq!(&hello, b"up\n");
    child
}

async fn says(child: &mut Child, word: &str) -> bool {
    let mut answer = vec![0; word.len()];
    child.stdin.write_all(word.as_bytes()).await.is_ok()
        && timeout(SOON, child.stdout.read_exact(&mut answer)).await.is_ok()
        && answer == word.as_bytes()
}

/// Command lines of living processes that have `tag` as an argument. Zombies have none.
fn alive(tag: &str) -> Vec<(i32, String)> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named = pids.filter_map(|pid| Some((pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?)));
    named.filter(|(_, line)| line.split('\0').any(|arg| arg == tag)).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < SOON, "not after {SOON:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn children_of(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn send(pid: u32, signal: Signal) {
    assert!(pid > 1);
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

#[test]
fn echoes_through_its_pipes() {
    run(async {
        let warden = warden();
        assert_eq!(warden.pid(), None, "nothing runs before the first spawn");
        let mut child = unruly(&warden, "polite", &new_tag()).await;
        assert!(says(&mut child, "hello").await);
        // More than any pipe holds.
        let much = vec![b'x'; 3 << 20];
        let Child { mut stdin, mut stdout, process, .. } = child;
        let wanted = much.clone();
        let writing = tokio::spawn(async move { stdin.write_all(&much).await.unwrap() });
        let mut got = Vec::new();
        stdout.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap();
        assert!(got == wanted);
        assert_eq!(process.exited().await, Exit::Code(0));
    });
}

#[test]
fn the_environment_is_the_launchs_and_the_mark() {
    run(async {
        let warden = warden();
        let mut wanted = launch("/usr/bin/env", &["-0"]);
        wanted.env = vec![("A".into(), "1 2".into()), ("B".into(), "".into()), ("C".into(), "x\ny=z".into())];
        let text = output(&warden, wanted).await;
        let mut env: BTreeMap<&str, &str> =
            text.split_terminator('\0').map(|entry| entry.split_once('=').unwrap()).collect();
        let mark = env.remove("DYNAMIC_MCP_OWNER").unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(
            mark.starts_with(&format!("{}/", std::process::id())) && mark.contains(boot.trim()),
            "{mark}"
        );
        assert_eq!(env, BTreeMap::from([("A", "1 2"), ("B", ""), ("C", "x\ny=z")]));
        let warden_env = fs::read(format!("/proc/{}/environ", warden.pid().unwrap())).unwrap();
        assert_eq!(warden_env, b"", "the warden itself has no environment");
    });
}

#[test]
fn large_environments_and_arguments_arrive() {
    run(async {
        let warden = warden();
        let mut wanted = launch("/bin/sh", &["-c", "env | wc -c; echo ${#1}", "sh", &"y".repeat(100_000)]);
        wanted.env.extend((0..10).map(|n| (format!("V{n}").into(), "x".repeat(50_000).into())));
        let text = output(&warden, wanted).await;
        let (env, arg) = text.split_once('\n').unwrap();
        assert!(env.trim().parse::<usize>().unwrap() > 500_000, "{env}");
        assert_eq!(arg.trim(), "100000");
    });
}

#[test]
fn a_failed_step_is_named() {
    run(async {
        let warden = warden();
        let cwd = warden.spawn(Launch { cwd: "/nowhere".into(), ..sh("true") }).await.unwrap_err();
        assert!(matches!(cwd, SpawnError::Cwd { errno: Errno::ENOENT, .. }), "{cwd:?}");
        assert_eq!(cwd.to_string(), "cannot enter the working directory /nowhere: No such file or directory");
        let missing = warden.spawn(launch("/nowhere/x", &[])).await.unwrap_err();
        assert!(matches!(missing, SpawnError::Exec { errno: Errno::ENOENT, .. }), "{missing:?}");
        let directory = warden.spawn(launch("/tmp", &[])).await.unwrap_err();
        assert!(matches!(directory, SpawnError::Exec { errno: Errno::EACCES, .. }), "{directory:?}");
        let huge = warden.spawn(launch("/bin/true", &[&"x".repeat(300_000)])).await.unwrap_err();
        assert!(matches!(huge, SpawnError::Exec { errno: Errno::E2BIG, .. }), "{huge:?}");
        let absurd = warden.spawn(launch("/bin/true", &[&"x".repeat(20 << 20)])).await.unwrap_err();
        assert!(matches!(absurd, SpawnError::Exec { errno: Errno::E2BIG, .. }), "{absurd:?}");
        let zero = warden.spawn(launch("/bin/true", &["a\0b"])).await.unwrap_err();
        assert!(matches!(zero, SpawnError::Exec { errno: Errno::EINVAL, .. }), "{zero:?}");
        assert_eq!(output(&warden, Launch { cwd: "/tmp".into(), ..sh("pwd") }).await, "/tmp\n");
        until("no zombie of a failed start", || children_of(warden.pid().unwrap()).is_empty()).await;
    });
}

#[test]
fn says_how_it_ended() {
    run(async {
        let warden = warden();
        let ended = async |script: &str| {
            let child = warden.spawn(sh(script)).await.unwrap();
            let exit = timeout(SOON, child.process.exited()).await.unwrap();
            assert_eq!(child.process.exited().await, exit, "asked again");
            exit
        };
        assert_eq!(ended("exit 3").await.to_string(), "exited with code 3");
        assert_eq!(ended("kill -SEGV $$").await.to_string(), "was killed by SIGSEGV");
        // One that has no name.
        assert_eq!(ended("kill -40 $$").await, Exit::Signal(40));
    });
}

#[test]
fn no_exit_notice_is_lost_when_many_end_at_once() {
    run(async {
        let warden = warden();
        let mut children = Vec::new();
        for _ in 0..200 {
            children.push(warden.spawn(sh("read line; exit 7")).await.unwrap());
        }
        let mut ends = Vec::new();
        for Child { stdin, process, stdout, stderr, .. } in children {
            drop(stdin);
            ends.push((process, stdout, stderr));
        }
        for (process, ..) in &mut ends {
            assert_eq!(timeout(SOON, process.exited()).await.unwrap(), Exit::Code(7));
        }
        until("no zombie", || children_of(warden.pid().unwrap()).is_empty()).await;
    });
}

#[test]
fn an_upstream_starts_with_a_clean_slate() {
    run(async {
        let original = raise_nofile();
        let leaked = fs::File::open("/dev/null").unwrap();
        fcntl(&leaked, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let warden = warden();
        let fds = output(&warden, sh("ls /proc/self/fd/ | tr '\\n' ' '")).await;
        // `ls` has the directory open.
        assert_eq!(fds.trim(), "0 1 2 3");
        let status = output(&warden, launch("/bin/cat", &["/proc/self/status"])).await;
        for mask in ["SigBlk", "SigIgn", "SigCgt"] {
            let line = status.lines().find(|line| line.starts_with(mask)).unwrap();
            // 32 and 33 are the C library's own and closed to programs.
            let signals = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
            assert_eq!(signals & !(0b11 << 31), 0, "{line}");
        }
        assert_eq!(output(&warden, sh("ulimit -Sn")).await.trim(), original.to_string());
        let own_session = output(&warden, sh("set -- $(cat /proc/self/stat); echo $$ $5 $6")).await;
        let [pid, group, session] = own_session.split_whitespace().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((pid, pid), (group, session));
        let name = fs::read_to_string(format!("/proc/{}/comm", warden.pid().unwrap())).unwrap();
        assert_eq!(name, "dmcp-warden\n");
        let open = || fs::read_dir(format!("/proc/{}/fd", warden.pid().unwrap())).unwrap().count();
        until("three times /dev/null and the socket", || open() == 4).await;
    });
}

#[test]
fn stopping_one_leaves_nothing_of_it_and_spares_the_others() {
    for kind in ["polite", "stubborn", "parent", "escapee", "escapee-bare", "respawner"] {
        run(async {
            let warden = warden();
            let (tag, other_tag) = (new_tag(), new_tag());
            let mut other = unruly(&warden, "escapee-bare", &other_tag).await;
            until("the other's escapee", || alive(&other_tag).len() == 2).await;
            for _ in 0..rounds() {
                let Child { stdin, process, stdout, .. } = unruly(&warden, kind, &tag).await;
                drop(stdin);
                process.stop(QUICK).await;
                assert_eq!(alive(&tag), [], "{kind}");
                let exit = timeout(SOON, process.exited()).await.unwrap();
                assert!(matches!(exit, Exit::Code(0) | Exit::Signal(9)), "{kind} {exit}");
                drop(stdout);
            }
            assert_eq!(alive(&other_tag).len(), 2, "{kind}: the other upstream");
            assert!(says(&mut other, "still here").await);
            assert_eq!(children_of(warden.pid().unwrap()).len(), 2, "no zombie");
        });
    }
}

#[test]
fn a_polite_upstream_is_not_waited_for() {
    run(async {
        let warden = warden();
        let Child { stdin, process, .. } = unruly(&warden, "polite", &new_tag()).await;
        drop(stdin);
        let begin = Instant::now();
        process.stop(Grace { term: SOON, kill: SOON }).await;
        assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    });
}

#[test]
fn a_dropped_process_is_stopped() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        drop(unruly(&warden, "parent", &tag).await);
        until("nothing left", || alive(&tag).is_empty()).await;
        // Nobody waits for this one: the spawn was given up.
        drop(
            timeout(Duration::ZERO, warden.spawn(launch(helper().to_str().unwrap(), &["stubborn", &tag])))
                .await,
        );
        sleep(Duration::from_millis(100)).await;
        until("nothing left", || alive(&tag).is_empty()).await;
    });
}

#[test]
fn shutdown_ends_everything() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        let mut children = Vec::new();
        for kind in ["polite", "stubborn", "parent", "escapee", "escapee-bare", "respawner"] {
            children.push(unruly(&warden, kind, &tag).await);
        }
        let begin = Instant::now();
        warden.shutdown(Grace::FAST).await;
        assert!(begin.elapsed() < SOON);
        until("nothing left", || alive(&tag).is_empty()).await;
        until("no warden", || warden.pid().is_none()).await;
        assert!(matches!(warden.spawn(sh("true")).await, Err(SpawnError::ShuttingDown)));
        for child in children {
            assert_ne!(child.process.exited().await, Exit::Unknown, "notices go out to the end");
        }
    });
}

#[test]
fn the_last_handle_ends_everything() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        let _child = unruly(&warden, "stubborn", &tag).await;
        let pid = warden.pid().unwrap();
        drop(warden.clone());
        assert_eq!(alive(&tag).len(), 1);
        drop(warden);
        until("nothing left", || alive(&tag).is_empty()).await;
        until("no warden", || !fs::exists(format!("/proc/{pid}")).unwrap()).await;
    });
}

#[test]
fn something_else_than_a_warden_is_an_error() {
    run(async {
        let missing = Warden::with_program("/nowhere".into(), vec![]);
        assert!(matches!(missing.spawn(sh("true")).await, Err(SpawnError::Warden(_))));
        let other = Warden::with_program("/bin/true".into(), vec![]);
        assert!(matches!(other.spawn(sh("true")).await, Err(SpawnError::Warden(_))));
        // Of another version: this "Welcome" says 99.
        let welcome = r"printf '\5\0\0\0\0\143\0\0\0' >&0; read line";
        let newer = Warden::with_program("/bin/sh".into(), vec!["-c".into(), welcome.into()]);
        let error = newer.spawn(sh("true")).await.unwrap_err();
        assert!(error.source().unwrap().to_string().contains("another version"), "{error:?}");
        // A stopped one answers nobody.
        let warden = warden();
        let _child = warden.spawn(sh("read line")).await.unwrap();
        let pid = warden.pid().unwrap();
        send(pid, Signal::SIGSTOP);
        let late = warden.spawn(sh("true")).await;
        send(pid, Signal::SIGCONT);
        assert!(matches!(late, Err(SpawnError::Timeout)), "{late:?}");
        warden.spawn(sh("true")).await.unwrap();
    });
}

/// A process that owns ten upstreams: 20 processes with the tag, itself included, beside its warden.
struct Owner {
    process: std::process::Child,
    reports: std::io::Lines<BufReader<std::process::ChildStdout>>,
    warden: u32,
    tag: String,
}

impl Owner {
    async fn start() -> Self {
        let tag = new_tag();
        let mut command = Command::new(helper());
        command.args(["owner", &tag]).env("WARDEN", env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let mut reports = BufReader::new(process.stdout.take().unwrap()).lines();
        let warden = reports.next().unwrap().unwrap().parse().unwrap();
        let owner = Self { process, reports, warden, tag };
        until("all are up", || alive(&owner.tag).len() == 19).await;
        owner
    }

    fn spawns_another(&mut self) -> u32 {
        writeln!(self.process.stdin.as_mut().unwrap(), "another").unwrap();
        self.reports.next().unwrap().unwrap().parse().unwrap()
    }

    async fn nothing_is_left(mut self) {
        self.process.wait().unwrap();
        until("nothing left", || alive(&self.tag).is_empty()).await;
        until("no warden", || !fs::exists(format!("/proc/{}/exe", self.warden)).unwrap()).await;
    }
}

#[test]
fn nothing_outlives_a_killed_owner() {
    run(async {
        for _ in 0..rounds() {
            let owner = Owner::start().await;
            send(owner.process.id(), Signal::SIGKILL);
            owner.nothing_is_left().await;
        }
    });
}

#[test]
fn nothing_outlives_a_killed_group_of_the_owner() {
    run(async {
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            for _ in 0..rounds() {
                let owner = Owner::start().await;
                killpg(Pid::from_raw(owner.process.id().cast_signed()), signal).unwrap();
                owner.nothing_is_left().await;
            }
        }
    });
}

#[test]
fn the_warden_survives_what_ends_its_owner() {
    run(async {
        let mut owner = Owner::start().await;
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE] {
            send(owner.warden, signal);
        }
        assert_eq!(owner.spawns_another(), owner.warden);
        send(owner.process.id(), Signal::SIGKILL);
        owner.nothing_is_left().await;
    });
}

#[test]
fn a_killed_warden_is_replaced_and_nothing_of_it_is_left() {
    run(async {
        for _ in 0..rounds() {
            let mut owner = Owner::start().await;
            send(owner.warden, Signal::SIGKILL);
            // The owner itself has the tag too.
            until("only the owner is left", || alive(&owner.tag).len() == 1).await;
            let another = owner.spawns_another();
            assert_ne!(another, owner.warden);
            assert_eq!(alive(&owner.tag).len(), 2);
            // At once, without the owner's having noticed.
            send(another, Signal::SIGKILL);
            owner.warden = owner.spawns_another();
            until("only the last is left", || alive(&owner.tag).len() == 2).await;
            send(owner.process.id(), Signal::SIGKILL);
            owner.nothing_is_left().await;
        }
    });
}

#[test]
fn strays_of_a_dead_owner_are_ended_before_the_first_spawn() {
    run_alone(async {
        for _ in 0..rounds() {
            let mut owner = Owner::start().await;
            // The warden cannot act any more when its owner dies, and dies itself.
            send(owner.warden, Signal::SIGSTOP);
            send(owner.process.id(), Signal::SIGKILL);
            send(owner.warden, Signal::SIGKILL);
            owner.process.wait().unwrap();
            until("its direct children are gone", || alive(&owner.tag).len() <= 8).await;
            assert_eq!(alive(&owner.tag).len(), 8, "what SIGKILL of both leaves until the next start");
            let warden = warden();
            let _child = warden.spawn(sh("read line")).await.unwrap();
            assert_eq!(alive(&owner.tag), []);
        }
    });
}

/// Who is judged by its mark alone: a helper started by nobody's warden.
fn marked(kind: &str, tag: &str, owner: u32, namespace: &str) -> std::process::Child {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let mut command = Command::new(helper());
    command.args([kind, tag]).env("DYNAMIC_MCP_OWNER", format!("{owner}/1/{}/{namespace}/5", boot.trim()));
    command.env("WARDEN", env!("CARGO_BIN_EXE_dynamic-mcp"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn leads_session(pid: u32) -> bool {
    let pid = Pid::from_raw(pid.cast_signed());
    getsid(Some(pid)) == Ok(pid)
}

#[test]
fn spares_whom_it_cannot_judge_and_under_whom_it_runs() {
    run_alone(async {
        let here = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
        let here = here.trim_matches(|c: char| !c.is_ascii_digit());
        let (foreign, used, dead) = (new_tag(), new_tag(), new_tag());
        // Pids that Linux never gives; their owners never lived.
        let mut elsewhere = marked("session", &foreign, 5_000_001, "1");
        let mut shell = marked("session", &used, 5_000_002, here);
        let mut stray = marked("session", &dead, 5_000_003, here);
        until("they left our session", || {
            [&elsewhere, &shell, &stray].iter().all(|one| leads_session(one.id()))
        })
        .await;
        // Somebody started this one from that "shell".
        let mut owner = marked("owner", &used, 5_000_002, here);
        let mut reports = BufReader::new(owner.stdout.take().unwrap()).lines();
        reports.next().unwrap().unwrap();
        assert_eq!(stray.wait().unwrap().signal(), Some(9));
        assert!(elsewhere.try_wait().unwrap().is_none());
        assert!(shell.try_wait().unwrap().is_none());
        for process in [&mut elsewhere, &mut shell, &mut owner] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        until("nothing left", || alive(&used).is_empty()).await;
    });
}
