//! Limits of the system: the program starts under each of them, and under each it either says why it cannot run or
//! answers every request.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::Uid;
use serde_json::{Value, json};

use crate::support::{ProgramsForAll, Proxy, ProxyCommand, merged, pure_config, scripted_upstream};

/// The exit code for a start that failed with a message.
const START_FAILED: i32 = 1;

/// Limits for processes and threads: too few for the program, for its warden process, and for both servers.
const PROCESSES: [u64; 6] = [1, 2, 3, 4, 8, 24];

/// Runs a session of everything that takes processes, threads, descriptors and files: calls, a search and a reload.
/// Returns how many calls succeeded; `None` if the program did not start and said why.
fn session_under_limit(command: ProxyCommand, what: &str) -> Option<usize> {
    let mut proxy = command.start();
    if initialize(&mut proxy) {
        let mut served = call_all(&mut proxy, &["g", "h", "g"]);
        proxy.call_meta_tool("search_dynamic_tools", json!({"query": "echo"}));
        fs::write(proxy.config_file(), two_groups(601).to_string()).unwrap();
        served += call_all(&mut proxy, &["h", "g"]);
        proxy.close_stdin();
        let (status, _) = proxy.wait_for_exit();
        assert_eq!(status.code(), Some(0), "{what}: {status:?}\n{}", proxy.log());
        assert_no_panic(&proxy, what);
        return Some(served);
    }
    let (status, _) = proxy.wait_for_exit();
    assert_eq!(status.signal(), None, "{what}: {}", proxy.log());
    // 127: the dynamic linker, before our own code runs.
    assert!(matches!(status.code(), Some(START_FAILED | 127)), "{what}: {status:?}\n{}", proxy.log());
    assert!(!proxy.log().trim().is_empty(), "{what}: it says nothing");
    assert_no_panic(&proxy, what);
    None
}

/// Calls a tool of each of these groups at the same time, and returns how many calls succeeded. Each is answered.
fn call_all(proxy: &mut Proxy, groups: &[&str]) -> usize {
    let ids: Vec<_> =
        groups.iter().map(|group| proxy.send_call(group, "echo", json!({"text": "x"}))).collect();
    let answers = ids.into_iter().map(|id| proxy.response(id).json());
    answers.filter(|answer| answer["result"]["content"][0]["text"] == "x").count()
}

/// Makes the handshake. Returns false if the program has exited.
fn initialize(proxy: &mut Proxy) -> bool {
    let info = json!({"name": "e2e", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let request = json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params});
    let sent = writeln!(proxy.stdin.as_mut().unwrap(), "{request}");
    if sent.is_err() || proxy.next_message().is_none() {
        return false;
    }
    proxy.notify("notifications/initialized", json!({}));
    true
}

/// Asserts that the program itself has not panicked. What its servers write is quoted in its log.
fn assert_no_panic(proxy: &Proxy, what: &str) {
    let log = proxy.log();
    assert!(!log.lines().any(|line| line.starts_with("thread '")), "{what}: {log}");
}

/// A config whose calls fail soon if their server cannot start.
fn two_groups(names_budget: u64) -> Value {
    let config = pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]);
    let settings = json!({"lazy_startup": "pure", "timeout": {"wait": "4s"}, "names_budget": names_budget});
    merged(config, json!({"settings": settings}))
}

fn program() -> ProxyCommand {
    ProxyCommand::new().config(&two_groups(600))
}

/// Runs the session under growing limits until everything works. Asserts that a smaller limit had an effect.
fn assert_graceful(what: &str, limits: impl Iterator<Item = u64>, start: impl Fn(u64) -> ProxyCommand) {
    let mut outcomes = Vec::new();
    for limit in limits {
        let outcome = session_under_limit(start(limit), &format!("{what} {limit}"));
        outcomes.push((limit, outcome));
        if outcome == Some(5) {
            break;
        }
    }
    eprintln!("{what}: {outcomes:?}");
    assert_ne!(outcomes.first().unwrap().1, Some(5), "the limit has no effect");
    assert_eq!(outcomes.last().unwrap().1, Some(5), "no limit is enough: {outcomes:?}");
}

#[test]
fn descriptors() {
    assert_graceful(
        "RLIMIT_NOFILE",
        [4, 8, 12, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 32, 40, 64].into_iter(),
        |limit| program().started_by(&["prlimit", &format!("--nofile={limit}:{limit}")]),
    );
}

#[test]
fn descriptors_that_run_out_while_servers_start() {
    let names: Vec<_> = (0..12).map(|n| format!("g{n}")).collect();
    let servers: serde_json::Map<_, _> =
        names.iter().map(|name| (name.clone(), scripted_upstream(&[]))).collect();
    let config = merged(two_groups(600), json!({"mcpServers": servers}));
    let command = ProxyCommand::new().config(&config).started_by(&["prlimit", "--nofile=40:40"]);
    let mut proxy = command.start_initialized();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let served = call_all(&mut proxy, &names);
    println!("{served} of 12 servers started");
    assert!(0 < served && served < 12, "{served}");
    let error = proxy.log();
    assert!(error.contains("Too many open files"), "{error}");
    proxy.close_stdin();
    assert_eq!(proxy.wait_for_exit().0.code(), Some(0));
    assert_no_panic(&proxy, "descriptors");
}

#[test]
fn processes_and_threads() {
    if !Uid::effective().is_root() {
        eprintln!("SKIPPED: only root can start the program as a user without other processes");
        return;
    }
    // A user of this test only: the limit counts all processes of a user.
    let uid = (300_000 + std::process::id()).to_string();
    let programs = ProgramsForAll::new();
    assert_graceful("RLIMIT_NPROC", PROCESSES.into_iter(), |limit| {
        let mut config = two_groups(600);
        for group in ["g", "h"] {
            config["mcpServers"][group]["command"] = json!(programs.upstream());
        }
        let command = programs.proxy_command().config(&config);
        give_away(command.home(), uid.parse().unwrap());
        let limit = format!("--nproc={limit}:{limit}");
        command.started_by(&[
            "setpriv",
            "--reuid",
            &uid,
            "--regid",
            &uid,
            "--clear-groups",
            "prlimit",
            &limit,
        ])
    });
}

/// Makes a user the owner of a directory and its files.
fn give_away(dir: &Path, uid: u32) {
    chown(dir, Some(uid), Some(uid)).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    for file in fs::read_dir(dir).unwrap().flatten() {
        chown(file.path(), Some(uid), Some(uid)).unwrap();
    }
}

/// A pids cgroup of this test, if the system lets us make one.
struct PidsCgroup(PathBuf);

impl PidsCgroup {
    fn create(name: &str) -> Option<Self> {
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let root = roots.iter().find(|root| Path::new(root).join("cgroup.procs").exists())?;
        let dir = Path::new(root).join(format!("dynamic-mcp-{name}-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let cgroup = Self(dir);
        cgroup.0.join("pids.max").exists().then_some(cgroup)
    }

    fn set_max(&self, pids: u64) {
        fs::write(self.0.join("pids.max"), pids.to_string()).unwrap();
    }
}

impl Drop for PidsCgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

#[test]
fn a_pids_cgroup() {
    let Some(cgroup) = PidsCgroup::create("limits") else {
        eprintln!("SKIPPED: no pids cgroup can be made here");
        return;
    };
    let join = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", cgroup.0.display());
    assert_graceful("pids.max", PROCESSES.into_iter(), |limit| {
        cgroup.set_max(limit);
        program().started_by(&["sh", "-c", &join, "sh"])
    });
}

#[test]
fn the_size_of_files() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let command = program().args(&["--log-level", "debug", "--log-file", log.path().to_str().unwrap()]);
    let outcome = session_under_limit(command.started_by(&["prlimit", "--fsize=20:20"]), "RLIMIT_FSIZE");
    assert_eq!(outcome, Some(5));
    assert!(log.path().metadata().unwrap().len() <= 20);
}

#[test]
fn servers_die_of_sigxfsz_as_by_default() {
    let command = ProxyCommand::new();
    let script = command.home().join("server");
    fs::write(&script, "(printf '%0100d' 0 > large; echo survived > small); kill -l $? >&2").unwrap();
    let small = command.home().join("small");
    let entry = json!({"command": "sh", "args": [script]});
    let command = command.config(&pure_config([("g", entry)]));
    let mut proxy = command.started_by(&["prlimit", "--fsize=20:20"]).start_initialized();
    let error = proxy.call_failure("g", "echo", json!({}));
    assert!(error.contains("XFSZ"), "{error}");
    assert!(!small.exists());
}

#[test]
fn a_full_disk() {
    let is_possible =
        Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !is_possible {
        eprintln!("SKIPPED: no disk can be mounted here");
        return;
    }
    let command = program();
    let cache = command.home().join("cache");
    fs::create_dir(&cache).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=4k none {0} && head -c 4096 /dev/zero > {0}/full; exec \"$@\"",
        cache.display()
    );
    let outcome =
        session_under_limit(command.started_by(&["unshare", "-m", "sh", "-c", &mount, "sh"]), "disk");
    assert_eq!(outcome, Some(5));

    let command = program().args(&["--log-level", "debug", "--log-file", "/dev/full"]);
    assert_eq!(session_under_limit(command, "log"), Some(5));
}
