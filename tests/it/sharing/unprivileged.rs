//! Sharing by a user that is not root: the kernel shows such a user nothing of a process that is not dumpable.

use super::attach::sandbox;
use super::*;

#[test]
fn windows_of_an_ordinary_user_share_and_those_in_a_sandbox_do_not() {
    let Some(user) = User::unprivileged() else { return };
    let config = pure_config([("g", user.shared_upstream(&[]))]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let pid = a.upstream_pid("g");
    assert_eq!(b.upstream_pid("g"), pid);
    let wrappers: [(&[&str], &str); 8] = [
        (&["setpriv", "--no-new-privs"], "NoNewPrivs"),
        (&["unshare", "--user", "--map-current-user"], "differ in"),
        (&["unshare", "--user", "--map-current-user", "--mount"], "differ in"),
        (&["unshare", "--user", "--map-current-user", "--net"], "differ in"),
        (&["bwrap", "--dev-bind", "/", "/"], "NoNewPrivs"),
        (&["bwrap", "--dev-bind", "/", "/", "--unshare-net"], "NoNewPrivs"),
        (&["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"], "NoNewPrivs"),
        (&["sh", "-c", "umask 077 && exec \"$@\"", "sh"], "Umask"),
    ];
    for (wrapper, reason) in wrappers {
        let Some(wrapper) = sandbox(wrapper) else { continue };
        let mut other = user.command(&config).started_by(&wrapper).start_initialized();
        assert_ne!(other.upstream_pid("g"), pid, "{wrapper:?}");
        other.wait_for_log("the server gets a process of its own");
        let log = other.log();
        let line = log.lines().find(|line| line.contains("a process of its own")).unwrap();
        assert!(line.contains(reason), "{wrapper:?}: {line}");
    }
    assert_eq!(user.hosts().len(), 1);
    assert_eq!(user.window(&config).upstream_pid("g"), pid);
}

#[test]
fn a_namespace_alone_keeps_a_window_apart() {
    let Some(user) = User::unprivileged() else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a namespace and nothing else of a sandbox");
        return;
    }
    let config = pure_config([("g", user.shared_upstream(&[]))]);
    let mut window = user.window(&config);
    let pid = window.upstream_pid("g");
    let uid = NOBODY.to_string();
    for (option, namespace) in [("--net", "net"), ("--mount", "mnt"), ("--ipc", "ipc"), ("--uts", "uts")] {
        let wrapper =
            ["unshare", option, "setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"];
        let Some(wrapper) = sandbox(&wrapper) else { continue };
        let mut other = user.command(&config).started_by_tester(&wrapper).start_initialized();
        assert_ne!(other.upstream_pid("g"), pid, "{option}");
        other.wait_for_log(&format!("the two processes differ in: {namespace} namespace"));
    }
    // What starts it makes no difference by itself.
    let wrapper = ["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"];
    let mut other = user.command(&config).started_by_tester(&wrapper).start_initialized();
    assert_eq!(other.upstream_pid("g"), pid);
}

/// As with `sudo -E`: another user, and the runtime directory of the first one.
#[test]
fn root_with_the_runtime_directory_of_another_user_shares_nothing() {
    let Some(user) = User::unprivileged() else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    let config = pure_config([("g", user.shared_upstream(&[]))]);
    let mut window = user.window(&config);
    let pid = window.upstream_pid("g");
    let as_root = ProxyCommand::new().config(&config).env("DYNAMIC_MCP_LOG", "debug");
    let as_root = as_root.env("XDG_RUNTIME_DIR", user.runtime.path().to_str().unwrap());
    let mut as_root = as_root.start_initialized();
    assert_ne!(as_root.upstream_pid("g"), pid);
    as_root.wait_for_log("not a directory of this user alone");
    assert_eq!(user.hosts().len(), 1);
}

#[test]
fn nothing_of_the_host_and_of_the_windows_can_be_read() {
    let Some(user) = User::unprivileged() else { return };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can look at the owner of the files of another user's process");
        return;
    }
    let config = pure_config([("g", user.shared_upstream(&[]))]);
    let mut window = user.window(&config);
    let server = window.upstream_pid("g");
    // The files in /proc of a process that is not dumpable belong to root, proc(5).
    let owner = |pid: u32| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid()
    };
    assert_eq!((owner(user.host()), owner(window.pid()), owner(server)), (0, 0, NOBODY));
}
