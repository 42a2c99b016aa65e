//! Who shares a process with whom.

use super::*;
use crate::support::are_installed;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn windows_share_a_server_that_the_config_shares() {
    let user = User::new();
    let config = shared_config(&[]);
    let (mut a, mut b) = (user.window(&config), user.window(&config));
    let pid = a.upstream_pid("g");
    assert_eq!(b.upstream_pid("g"), pid);
    let host = user.host();
    drop(a);
    assert_eq!(b.call_text("g", "echo", json!({"text": "still here"})), "still here");
    assert_eq!(b.upstream_pid("g"), pid);
    assert_eq!(user.host(), host);
}

#[test]
fn a_server_is_private_unless_the_config_shares_it() {
    let user = User::new();
    let entry = |more: Value| merged(scripted_upstream(&[]), more);
    let config = pure_config([
        ("plain", entry(json!({}))),
        ("client", entry(json!({"share": "client"}))),
        ("stateful", entry(json!({"share": "user", "stateful": true}))),
        // A value of earlier versions, which has a warning now.
        ("retired", entry(json!({"share": "auto"}))),
    ]);
    let (mut a, mut b) = (user.window(&config), user.window(&config));
    for group in ["plain", "client", "stateful", "retired"] {
        assert_ne!(a.upstream_pid(group), b.upstream_pid(group), "{group}");
    }
    assert!(user.hosts().is_empty());
}

#[test]
fn another_directory_is_another_process_unless_the_user_shares_it() {
    let user = User::new();
    let config = pure_config([
        ("directory", merged(scripted_upstream(&[]), json!({"share": "directory"}))),
        ("user", shared(scripted_upstream(&[]))),
    ]);
    // Each window has a directory of its own.
    let (mut a, mut b) = (user.window(&config), user.window(&config));
    assert_ne!(a.upstream_pid("directory"), b.upstream_pid("directory"));
    assert_eq!(a.upstream_pid("user"), b.upstream_pid("user"));
    assert_ne!(a.call_text("directory", "cwd", json!({})), b.call_text("directory", "cwd", json!({})));
    let home = fs::canonicalize(user.home.path()).unwrap();
    assert_eq!(Path::new(&b.call_text("user", "cwd", json!({}))), home);
    // The same directory is the same process.
    let fixed = json!({"share": "directory", "cwd": user.home.path()});
    let config = pure_config([("g", merged(scripted_upstream(&[]), fixed))]);
    two_windows(&user, &config, &json!({}));
}

#[test]
fn other_arguments_or_variables_are_another_process() {
    let user = User::new();
    let with = |env: Value, args: &[&str]| {
        pure_config([("g", merged(shared(scripted_upstream(args)), json!({"env": env})))])
    };
    let configs = [
        with(json!({}), &[]),
        with(json!({"TOKEN": "a"}), &[]),
        with(json!({"TOKEN": "b"}), &[]),
        with(json!({}), &["--logging"]),
    ];
    let mut windows: Vec<Proxy> = configs.iter().map(|config| user.window(config)).collect();
    let pids: BTreeSet<u32> = windows.iter_mut().map(|window| window.upstream_pid("g")).collect();
    assert_eq!(pids.len(), configs.len());
    assert_eq!(user.hosts().len(), 1);
}

#[test]
fn variables_of_one_window_reach_no_server_and_keep_nobody_apart() {
    let user = User::new();
    let config = pure_config([
        ("g", shared(scripted_upstream(&[]))),
        ("all", merged(scripted_upstream(&[]), json!({"inherit_env": true}))),
    ]);
    let start = |number: &str| {
        let command = user.command(&config).env("XDG_ACTIVATION_TOKEN", number);
        command.env("XDG_SESSION_ID", number).env("XDG_VTNR", number).start_initialized()
    };
    let (mut a, mut b) = (start("1"), start("2"));
    assert_eq!(a.upstream_pid("g"), b.upstream_pid("g"));
    for group in ["g", "all"] {
        let env: Value = serde_json::from_str(&a.call_text(group, "env", json!({}))).unwrap();
        for name in ["XDG_ACTIVATION_TOKEN", "XDG_SESSION_ID", "XDG_VTNR"] {
            assert_eq!(env[name], Value::Null, "{group} {name}");
        }
        assert_eq!(env["XDG_CACHE_HOME"], json!(user.home.path()), "{group}");
    }
}

/// A command that starts a process with other rights. `None`, with a line that says so, if it does not work here. Fails if
/// the program is not installed where tests must not be skipped.
pub(super) fn sandbox<'c>(wrapper: &[&'c str]) -> Option<Vec<&'c str>> {
    if wrapper[0] == "bwrap" && !are_installed(&["bwrap"]) {
        return None;
    }
    // Without the right to change it, setpriv leaves the set as it is, and says nothing.
    let has_effect = !wrapper.contains(&"--bounding-set") || nix::unistd::geteuid().is_root();
    let mut command = Command::new(wrapper[0]);
    let works = has_effect
        && command.args(&wrapper[1..]).arg("true").output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("SKIPPED: this does not work here: {wrapper:?}");
    }
    works.then(|| wrapper.to_vec())
}

#[test]
fn a_process_with_other_rights_shares_nothing() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut plain = user.window(&config);
    let shared_pid = plain.upstream_pid("g");
    let wrappers: [&[&str]; 12] = [
        &["setpriv", "--no-new-privs"],
        &["setpriv", "--bounding-set", "-sys_time"],
        &["setpriv", "--groups", "1,2"],
        &["setpriv", "--regid", "1", "--clear-groups"],
        // As a setgid program.
        &["setpriv", "--egid", "1", "--keep-groups"],
        &["unshare", "--mount"],
        &["unshare", "--net"],
        &["unshare", "--cgroup"],
        &["unshare", "--user", "--map-current-user"],
        &["bwrap", "--dev-bind", "/", "/"],
        &["sh", "-c", "umask 077 && exec \"$@\"", "sh"],
        &["sh", "-c", "ulimit -s 4096 && exec \"$@\"", "sh"],
    ];
    for wrapper in wrappers.into_iter().filter_map(sandbox) {
        let mut other = user.command(&config).started_by(&wrapper).start_initialized();
        assert_ne!(other.upstream_pid("g"), shared_pid, "{wrapper:?}");
    }
    let mut in_ci = user.command(&config).env("CI", "true").start_initialized();
    assert_ne!(in_ci.upstream_pid("g"), shared_pid);
    assert_eq!(user.window(&config).upstream_pid("g"), shared_pid);
}

#[test]
fn a_sandboxed_process_starts_no_host_either() {
    if let Some(wrapper) = sandbox(&["setpriv", "--no-new-privs"]) {
        let user = User::new();
        let mut window = user.command(&shared_config(&[])).started_by(&wrapper).start_initialized();
        window.upstream_pid("g");
        assert!(user.hosts().is_empty());
    }
}

#[test]
fn a_process_below_a_server_attaches_and_starts_no_host() {
    let user = User::new();
    let config = shared_config(&[]);
    let below = || user.command(&config).env("DYNAMIC_MCP_OWNER", "1/2/x/y/3").start_initialized();
    let mut first = below();
    first.upstream_pid("g");
    assert!(user.hosts().is_empty());
    let pid = user.window(&config).upstream_pid("g");
    assert_eq!(below().upstream_pid("g"), pid);
}

#[test]
fn a_process_below_a_shared_server_shares_nothing() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut window = user.window(&config);
    let env: Value = serde_json::from_str(&window.call_text("g", "env", json!({}))).unwrap();
    let ancestors = env["DYNAMIC_MCP_ANCESTORS"].as_str().unwrap();
    let mut below = user.command(&config).env("DYNAMIC_MCP_ANCESTORS", ancestors).start_initialized();
    assert_ne!(below.upstream_pid("g"), window.upstream_pid("g"));
    // One below a private server does.
    let mut below = user.command(&config).env("DYNAMIC_MCP_ANCESTORS", "00112233").start_initialized();
    assert_eq!(below.upstream_pid("g"), window.upstream_pid("g"));
}

#[test]
fn a_runtime_directory_that_others_may_use_is_not_used() {
    let user = User::new();
    fs::create_dir(user.host_dir()).unwrap();
    fs::set_permissions(user.host_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut window = user.window(&shared_config(&[]));
    window.upstream_pid("g");
    assert!(user.hosts().is_empty());
    window.wait_for_log("others may use the directory");
}

#[test]
fn windows_that_start_at_the_same_moment_start_one_host() {
    let user = User::new();
    let config = shared_config(&[]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Other work for the machine.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let mut windows: Vec<Proxy> = (0..20).map(|_| user.command(&config).start()).collect();
        let calls: Vec<u64> = windows
            .iter_mut()
            .map(|window| {
                window.handshake();
                window.send_call("g", "pid", json!({}))
            })
            .collect();
        let answer = |(window, id): (&mut Proxy, u64)| {
            let answer = window.response(id).json();
            let pid = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            // What takes too long is private.
            (!window.log().contains("the host did not answer within")).then_some(pid)
        };
        let pids: BTreeSet<String> = windows.iter_mut().zip(calls).filter_map(answer).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(pids.len() <= 1, "{pids:?}");
    });
    assert_eq!(user.hosts().len(), 1);
}

#[test]
fn a_removed_runtime_directory_ends_no_session() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = user.window(&config);
    let pid = a.upstream_pid("g");
    fs::remove_dir_all(user.host_dir()).unwrap();
    assert_only_new_windows_share_another(&user, &config, &mut a, pid);
}

#[test]
fn a_server_of_the_other_era_and_one_that_fails_are_private() {
    let user = User::new();
    let config = pure_config([
        ("stateless", shared(scripted_upstream(&["--stateless"]))),
        ("crashes", shared(scripted_upstream(&["--crash-at-start", "the reason"]))),
    ]);
    let mut window = user.window(&config);
    assert_eq!(window.call_text("stateless", "echo", json!({"text": "x"})), "x");
    let failure = window.call_failure("crashes", "echo", json!({"text": "x"}));
    assert!(failure.contains("the reason") && failure.contains("exited with code 3"), "{failure}");
}
