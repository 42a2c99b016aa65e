//! `dynamic-mcp logs`: what servers write to stderr, and what a shared one sends that belongs to no session.

use super::status::{run, status_of, stdout};
use super::*;
use crate::support::{InputRecord, PipeReader, wait_for_child};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Stdio;

fn logs(user: &User, args: &[&str]) -> String {
    stdout(run(user, Path::new("/"), &[&["logs"], args].concat()))
}

/// Writes a line to the stderr of a server.
fn write_stderr(window: &mut Proxy, group: &str, text: &str) {
    window.call_text(group, "log_stderr", json!({"text": text}));
}

#[test]
fn the_log_of_a_private_server_has_the_lines_of_all_its_processes() {
    let user = User::new();
    let mut window = user.window(&pure_config([("own", scripted_upstream(&[]))]));
    status_of(&user, 1);
    write_stderr(&mut window, "own", "first words");
    window.call_failure("own", "crash", json!({"code": 3}));
    write_stderr(&mut window, "own", "second words");
    let expected = ["first words", "second words"];
    wait_until("both lines are there", || logs(&user, &["own"]).lines().eq(expected));
    let unknown = run(&user, Path::new("/"), &["logs", "no-such"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

#[test]
fn the_log_of_a_shared_server_is_that_of_the_host_and_is_printed_once() {
    let user = User::new();
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(shared(full_upstream(&[]))))]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    status_of(&user, 2);
    write_stderr(&mut a, "g", "by a");
    write_stderr(&mut b, "g", "by b");
    wait_until("both lines are there", || logs(&user, &["g", "--all"]).lines().eq(["by a", "by b"]));
    // Two sessions wait, so that nobody knows whose message it is.
    let open = b.send_call("g", "late", json!({}));
    wait_until("the call arrives", || record.lines_of("tools/call").iter().any(|line| line.contains("late")));
    let params = json!({"level": "error", "data": "for nobody"});
    a.call_text("g", "tell", json!({"method": "notifications/message", "params": params}));
    wait_until("the message is there", || logs(&user, &["g", "--all"]).contains("for nobody"));
    b.notify("notifications/cancelled", json!({"requestId": open}));
    // The last lines stay when the process has ended.
    a.call_failure("g", "crash", json!({"code": 3}));
    wait_until("the lines are there still", || logs(&user, &["g", "--all"]).contains("by b"));
}

#[test]
fn following_a_log_shows_new_lines_until_the_instance_ends() {
    let user = User::new();
    let mut window = user.window(&pure_config([("own", scripted_upstream(&[]))]));
    status_of(&user, 1);
    write_stderr(&mut window, "own", "before");
    wait_until("it is there", || logs(&user, &["own"]).contains("before"));
    let mut command = user.program_command();
    command.args(["logs", "own", "--follow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = PipeReader::new(child.stdout.take().unwrap());
    assert_eq!(lines.read_line().as_deref(), Some("before"));
    write_stderr(&mut window, "own", "meanwhile");
    assert_eq!(lines.read_line().as_deref(), Some("meanwhile"));
    let pid = window.pid();
    drop(window);
    assert!(wait_for_child(&mut child).success());
    let mut messages = PipeReader::new(child.stderr.take().unwrap());
    let ended = format!("dynamic-mcp: the instance with pid {pid} has ended");
    assert_eq!(messages.read_line(), Some(ended));
}

#[test]
fn a_signal_ends_the_commands_that_go_on() {
    let user = User::new();
    let mut window = user.window(&pure_config([("own", scripted_upstream(&[]))]));
    status_of(&user, 1);
    write_stderr(&mut window, "own", "before");
    wait_until("it is there", || logs(&user, &["own"]).contains("before"));
    for args in [&["logs", "own", "--follow"][..], &["status", "--watch"]] {
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
            let mut child = user.program_command().args(args).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = PipeReader::new(child.stdout.take().unwrap());
            assert!(lines.read_line().is_some());
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
            assert_eq!(wait_for_child(&mut child).code(), Some(0), "{args:?} {signal}");
        }
    }
}
