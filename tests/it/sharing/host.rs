//! The host as a process: what it inherits, which windows find it, and what it leaves to the next one.

use super::*;
use crate::support::is_alive;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;

/// The session of a process, as /proc/PID/stat shows it.
fn session_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split_ascii_whitespace().nth(3).unwrap().parse().unwrap()
}

/// Whether a process has this file open.
fn has_open(pid: u32, file: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).any(|target| target == file)
}

#[test]
fn the_host_inherits_nothing_and_outlives_the_process_group_of_its_starter() {
    let user = User::new();
    let config = shared_config(&[]);
    let leaked = fs::canonicalize(user.home.path()).unwrap().join("leaked");
    fs::write(&leaked, "").unwrap();
    let script = format!("exec 9<'{}' && exec \"$@\"", leaked.display());
    let starter = user.command(&config).started_by(&["sh", "-c", &script, "sh"]).in_own_process_group();
    let mut a = starter.start_initialized();
    let pid = a.upstream_pid("g");
    let host = user.host();
    let mut b = user.window(&config);
    assert_eq!(b.upstream_pid("g"), pid);
    assert_ne!(session_of(host), session_of(a.pid()));
    // Only root sees this of a process that is not dumpable.
    if nix::unistd::geteuid().is_root() {
        assert!(has_open(a.pid(), &leaked));
        assert!(!has_open(host, &leaked));
        assert_eq!(fs::read(format!("/proc/{host}/environ")).unwrap(), b"");
    } else {
        eprintln!("SKIPPED: only root can look at the environment and the descriptors of the host");
    }
    killpg(Pid::from_raw(a.pid().cast_signed()), Signal::SIGKILL).unwrap();
    a.wait_for_exit();
    assert_eq!(b.upstream_pid("g"), pid);
    assert_eq!(user.host(), host);
}

#[test]
fn another_build_has_a_host_of_its_own() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = user.window(&config);
    let pid = a.upstream_pid("g");
    // The same program in another file, as after an upgrade.
    let copy = user.home.path().join("dynamic-mcp");
    copy_program(env!("CARGO_BIN_EXE_dynamic-mcp").as_ref(), &copy);
    let run_copy = ["sh", "-c", "shift && exec \"$0\" \"$@\"", copy.to_str().unwrap()];
    let start_copy = || user.command(&config).started_by(&run_copy).start_initialized();
    let (mut b, mut c) = (start_copy(), start_copy());
    let other = b.upstream_pid("g");
    assert_ne!(other, pid);
    assert_eq!(c.upstream_pid("g"), other);
    assert_eq!(user.window(&config).upstream_pid("g"), pid);
    assert_eq!(user.hosts().len(), 2);
}

#[test]
fn a_host_whose_socket_was_replaced_accepts_no_session() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = user.window(&config);
    let pid = a.upstream_pid("g");
    let files = fs::read_dir(user.host_dir()).unwrap().flatten().map(|file| file.path());
    let is_host = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("host");
    let socket = files.into_iter().find(is_host).unwrap();
    let moved = user.home.path().join("moved");
    fs::rename(&socket, &moved).unwrap();
    fs::write(&socket, "").unwrap();
    // It still listens there. To a session that it accepts it sends a challenge.
    let mut connection = UnixStream::connect(&moved).unwrap();
    connection.set_read_timeout(Some(crate::support::TEST_TIMEOUT)).unwrap();
    match connection.read(&mut [0]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_only_new_windows_share_another(&user, &config, &mut a, pid);
}

#[test]
fn the_next_host_knows_what_is_not_shareable() {
    let user = User::new();
    let config = full_shared_config(&[]);
    let (mut a, b) = two_windows(&user, &config, &json!({"elicitation": {}}));
    let question = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    assert!(a.call_text("g", "ask", question).contains("shared"));
    drop((a, b));
    let host = user.host();
    kill(Pid::from_raw(host.cast_signed()), Signal::SIGKILL).unwrap();
    wait_until("the host has ended", || !is_alive(host));
    let (mut c, mut d) = (user.window(&config), user.window(&config));
    assert_ne!(c.upstream_pid("g"), d.upstream_pid("g"));
    for window in [&c, &d] {
        window.wait_for_log("the server is not shareable: ");
    }
    assert_ne!(user.host(), host);
}

#[test]
fn a_reload_of_one_window_leaves_the_session_of_another() {
    let user = User::new();
    let (mut a, mut b) = two_windows(&user, &shared_config(&[]), &json!({}));
    let pid = a.upstream_pid("g");
    let open = b.send_call("g", "late", json!({}));
    let new = a.config_file().with_extension("new");
    fs::write(&new, shared_config(&["--logging"]).to_string()).unwrap();
    fs::rename(&new, a.config_file()).unwrap();
    wait_until("the server of the new config runs", || a.upstream_pid("g") != pid);
    assert_eq!(b.upstream_pid("g"), pid);
    assert_eq!(b.log().matches("attached to the shared").count(), 1);
    // The call is still open.
    b.notify("notifications/cancelled", json!({"requestId": open}));
    b.assert_no_message();
}
