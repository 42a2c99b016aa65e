//! A login shell that takes long, in a client that a desktop started.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::support::{Proxy, ProxyCommand, pure_config, scripted_upstream_program};

/// Starts the program with a shell that prints its PATH, with the program `my-server`, once `go` exists.
fn start(initialize: f64) -> Proxy {
    let entry = json!({"command": "my-server", "timeout": {"initialize": initialize}});
    let command = ProxyCommand::new();
    let home = command.home().to_owned();
    let shell = home.join("shell");
    let wait = format!("while ! [ -e {0}/go ]; do sleep 0.05; done; PATH={0}:$PATH", home.display());
    fs::write(&shell, format!("#!/bin/sh\n{wait} exec /bin/sh -c \"$2\"\n")).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(scripted_upstream_program(), home.join("my-server")).unwrap();
    let command = command.env("PATH", "/usr/bin:/bin").env("SHELL", shell.to_str().unwrap());
    command.config(&pure_config([("g", entry)])).start_initialized()
}

#[test]
fn a_server_waits_for_the_path_of_a_slow_login_shell() {
    // In a terminal, the PATH is that of the terminal.
    if fs::File::open("/dev/tty").is_ok() {
        return;
    }
    let mut proxy = start(30.0);
    let call = proxy.send_call("g", "echo", json!({"text": "a"}));
    proxy.wait_for_log("Connecting to g");
    std::thread::sleep(std::time::Duration::from_secs(3));
    fs::write(proxy.home().join("go"), "").unwrap();
    let response = proxy.response(call).json();
    assert_eq!(response["result"]["content"][0]["text"], "a", "{response}");
}

#[test]
fn a_login_shell_that_takes_too_long_is_named_and_used_later() {
    if fs::File::open("/dev/tty").is_ok() {
        return;
    }
    let mut proxy = start(2.5);
    let failure = proxy.call_failure("g", "echo", json!({}));
    let shell = proxy.home().join("shell");
    let named = format!("on the PATH of your login shell, but {shell:?} has printed none in 2 s");
    assert!(failure.contains(&named) && !failure.contains("install it"), "{failure}");
    fs::write(proxy.home().join("go"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "b"})), "b");
}
