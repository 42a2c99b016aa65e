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
    let wrappers: [(&[&str], &str); 6] = [
        (&["setpriv", "--no-new-privs"], "NoNewPrivs"),
        (&["unshare", "--user", "--map-current-user"], "namespace"),
        (&["unshare", "--user", "--map-current-user", "--mount"], "namespace"),
        (&["unshare", "--user", "--map-current-user", "--net"], "namespace"),
        (&["bwrap", "--dev-bind", "/", "/"], "NoNewPrivs"),
        (&["sh", "-c", "umask 077 && exec \"$@\"", "sh"], "Umask"),
    ];
    for (wrapper, _) in wrappers.into_iter().filter(|(wrapper, _)| sandbox(wrapper)) {
        let mut other = user.command(&config).started_by(wrapper).start_initialized();
        assert_ne!(other.upstream_pid("g"), pid, "{wrapper:?}");
        other.wait_for_log("the server gets a process of its own");
    }
    assert_eq!(user.hosts().len(), 1);
    assert_eq!(user.window(&config).upstream_pid("g"), pid);
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
