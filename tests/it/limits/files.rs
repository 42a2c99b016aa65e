//! Files that do not end, that nobody writes, or that are no files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::{Value, json};

use crate::support::{ProxyCommand, merged, pure_config, scripted_config, scripted_upstream, wait_until};

fn make_fifo(path: &Path) -> PathBuf {
    nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    path.to_owned()
}

/// Opens a FIFO for writing as soon as the program has opened it.
fn open_writer(fifo: &Path) -> File {
    let mut writer = None;
    wait_until("the program opens the FIFO", || {
        writer = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(fifo).ok();
        writer.is_some()
    });
    writer.unwrap()
}

fn with_env_file(path: &Path) -> Value {
    merged(scripted_upstream(&[]), json!({"env_file": path}))
}

#[test]
fn fifos_are_read_as_config_and_as_env_file() {
    let command = ProxyCommand::new();
    let (config, variables) = (command.home().join("config"), command.home().join("variables"));
    let (config, variables) = (make_fifo(&config), make_fifo(&variables));
    let mut proxy = command.args(&["--config", config.to_str().unwrap()]).start();
    let text = pure_config([("g", with_env_file(&variables))]).to_string();
    open_writer(&config).write_all(text.as_bytes()).unwrap();
    open_writer(&variables).write_all(b"FROM_FIFO=yes\n").unwrap();
    proxy.handshake();
    let env = proxy.call_text("g", "env", json!({}));
    assert!(env.contains(r#""FROM_FIFO":"yes""#), "{env}");
}

#[test]
fn a_fifo_that_nobody_writes_fails_its_group_only() {
    let command = ProxyCommand::new();
    let variables = make_fifo(&command.home().join("variables"));
    let config = pure_config([("bad", with_env_file(&variables)), ("g", scripted_upstream(&[]))]);
    let mut proxy = command.config(&config).start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "fine"})), "fine");
    let error = proxy.call_failure("bad", "echo", json!({}));
    assert!(error.contains("it is a FIFO that nothing was written to within 2 s"), "{error}");
}

#[test]
fn devices_and_endless_files_are_refused() {
    let command = ProxyCommand::new();
    let large = command.home().join("large");
    File::create(&large).unwrap().set_len(3 << 20).unwrap();
    let secret =
        |path: &str| merged(scripted_upstream(&[]), json!({"env": {"A": format!("{{file:{path}}}")}}));
    let config = pure_config([
        ("env_file", with_env_file(Path::new("/dev/zero"))),
        ("device", secret("/dev/zero")),
        ("large", secret(large.to_str().unwrap())),
        ("g", scripted_upstream(&[])),
    ]);
    let mut proxy = command.config(&config).start_initialized();
    for (group, reason) in [
        ("env_file", "it is a device, not a file"),
        ("device", "it is a device, not a file"),
        ("large", "it is larger than the limit of 1048576 bytes"),
    ] {
        let error = proxy.call_failure(group, "echo", json!({}));
        assert!(error.contains(reason), "{group}: {error}");
    }
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "fine"})), "fine");
}

#[test]
fn a_device_as_config_is_an_error_in_the_status() {
    let mut proxy = ProxyCommand::new().args(&["--config", "/dev/zero"]).start_initialized();
    let status = proxy.status().to_string();
    assert!(status.contains("it is a device, not a file"), "{status}");
}

#[test]
fn a_cache_of_fifos_is_no_cache() {
    let command = ProxyCommand::new();
    let cache = command.home().join("cache/dynamic-mcp");
    fs::create_dir_all(&cache).unwrap();
    make_fifo(&cache.join("index.json"));
    make_fifo(&cache.join("lock"));
    let mut proxy = command.config(&scripted_config(&[])).start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "fine"})), "fine");
    // It is written nevertheless.
    wait_until("the index is replaced", || cache.join("index.json").is_file());
}

#[test]
fn calls_are_answered_while_a_reload_reads_a_fifo() {
    let command = ProxyCommand::new();
    let variables = make_fifo(&command.home().join("variables"));
    let mut proxy = command.config(&scripted_config(&[])).start_initialized();
    proxy.upstream_pid("g");
    let changed = pure_config([("g", scripted_upstream(&[])), ("slow", with_env_file(&variables))]);
    fs::write(proxy.config_file(), changed.to_string()).unwrap();
    // While the writer is open the file is being read, for 2 s at most. The value arrives only if the calls are
    // answered in that time.
    let mut writer = open_writer(&variables);
    for _ in 0..3 {
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "fine"})), "fine");
    }
    writer.write_all(b"LATE=yes\n").unwrap();
    drop(writer);
    wait_until("the new group appears", || {
        let groups = proxy.status()["groups"].to_string();
        groups.contains("slow")
    });
    let env = proxy.call_text("slow", "env", json!({}));
    assert!(env.contains(r#""LATE":"yes""#), "{env}");
}

#[test]
fn a_start_that_waits_for_a_file_can_be_ended() {
    for cause in ["EOF", "SIGTERM", "SIGINT"] {
        let mut command = ProxyCommand::new();
        // Each is awaited for 2 s.
        let fifos: Vec<_> = (0..6).map(|n| make_fifo(&command.home().join(format!("config{n}")))).collect();
        for fifo in &fifos {
            command = command.args(&["--config", fifo.to_str().unwrap()]);
        }
        let mut proxy = command.start();
        let _held = open_writer(&fifos[0]);
        match cause {
            "EOF" => proxy.close_stdin(),
            "SIGTERM" => proxy.send_signal(Signal::SIGTERM),
            _ => proxy.send_signal(Signal::SIGINT),
        }
        let (status, took) = proxy.wait_for_exit();
        println!("{cause} while starting: {took:?}");
        assert_eq!(status.code(), Some(0), "{cause}: {status:?}");
        assert!(took.as_secs() < 6, "{cause}: {took:?}");
    }
}

#[test]
fn a_client_that_closes_stdin_at_once_gets_its_answer() {
    let mut proxy = ProxyCommand::new().config(&scripted_config(&[])).start();
    let id = proxy.send_request("ping", json!({}));
    proxy.close_stdin();
    assert!(proxy.response(id).raw("result").is_some());
    assert_eq!(proxy.wait_for_exit().0.code(), Some(0));
}
