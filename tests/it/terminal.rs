//! What commands print of hostile names, paths, messages and answers: a terminal must not take any of it for commands,
//! and no line of it may pose as one of ours.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::shell::at_terminal;
use crate::support::{base_env, config_of, output_of, scripted_upstream, wait_for_child, wait_until};

/// A name that clears the screen, sets its title, reorders and hides text, and begins a line of its own.
const EVIL: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{200b}\u{e0041}\rb\nFORGED: all is fine";
/// How its reordering character is shown.
const SHOWN: &str = r"\u{202e}";
/// More than a command may take that waits for one instance.
const PATIENCE: Duration = Duration::from_secs(20);

/// A user whose home directory, working directory and config have a hostile name, as has each server.
struct Victim {
    outer: TempDir,
}

impl Victim {
    fn new(config: &Value) -> Self {
        let outer = TempDir::new().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let victim = Self { outer };
        fs::create_dir(victim.home()).unwrap();
        fs::write(victim.config(), config.to_string()).unwrap();
        victim
    }

    fn home(&self) -> PathBuf {
        self.outer.path().join(EVIL)
    }

    fn config(&self) -> PathBuf {
        self.home().join(format!("{EVIL}.json"))
    }

    /// The directory of the control sockets.
    fn sockets(&self) -> PathBuf {
        self.outer.path().join("dynamic-mcp")
    }

    /// Makes a control socket that instances do not have.
    fn socket(&self) -> UnixListener {
        fs::create_dir_all(self.sockets()).unwrap();
        fs::set_permissions(self.sockets(), fs::Permissions::from_mode(0o700)).unwrap();
        UnixListener::bind(self.sockets().join("instance-1.sock")).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(&self.home())).env("XDG_RUNTIME_DIR", self.outer.path());
        command.env("DYNAMIC_MCP_CONFIG", self.config()).current_dir(self.home()).args(args);
        // Every escape that is shown then is one that must not be.
        command.env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What a command prints to pipes, on stdout and stderr.
    fn piped(&self, args: &[&str]) -> String {
        let output = output_of(&mut self.command(args));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    /// What a command shows at a terminal, without the progress line and the colors, which are ours.
    fn at_terminal(&self, args: &[&str], answers: &str) -> String {
        let shown = at_terminal(self.command(args), answers).1.replace("\r\n", "\n");
        ["\r\u{1b}[K", "\u{1b}[H\u{1b}[2J"].iter().fold(shown, |shown, ours| shown.replace(ours, ""))
    }

    /// Runs a command, checks what it prints in both ways, and that it shows the hostile name.
    fn check(&self, args: &[&str]) {
        for shown in [self.piped(args), self.at_terminal(args, "")] {
            assert_visible(&shown, args);
            assert!(shown.contains(SHOWN), "{args:?}: {shown:?}");
        }
    }

    /// Starts an instance, and waits until commands find it.
    fn instance(&self) -> Instance {
        let mut child = self.command(&[]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        // Its groups begin when the client has made the handshake.
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let stdin = child.stdin.as_mut().unwrap();
        writeln!(stdin, "{initialize}").unwrap();
        writeln!(stdin, r#"{{"jsonrpc": "2.0", "method": "notifications/initialized"}}"#).unwrap();
        let mut instance = Instance { child, log: None };
        let mut stderr = instance.child.stderr.take().unwrap();
        // Nobody else reads it.
        instance.log = Some(thread::spawn(move || drop(std::io::copy(&mut stderr, &mut std::io::sink()))));
        let socket = self.sockets().join(format!("instance-{}.sock", instance.child.id()));
        wait_until("the instance listens", || socket.exists());
        instance
    }
}

/// A running instance, which ends when this is dropped.
struct Instance {
    child: Child,
    log: Option<thread::JoinHandle<()>>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        wait_for_child(&mut self.child);
        self.log.take().unwrap().join().ok();
    }
}

#[track_caller]
fn assert_visible(shown: &str, args: &[&str]) {
    let is_hidden = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{e0000}'..='\u{e0fff}')
    };
    let hidden = shown.chars().find(|c| is_hidden(*c));
    assert_eq!(hidden, None, "{args:?}: {shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("FORGED")), "{args:?}: {shown}");
}

fn hostile_server() -> Value {
    let definition = json!({"name": EVIL, "description": EVIL, "inputSchema": {"type": "object"}});
    scripted_upstream(&["--definitions", &definition.to_string(), "--name", EVIL, "--instructions", EVIL])
}

#[test]
fn commands_about_the_config_show_names_and_paths_visibly() {
    let url = json!({"url": format!("http://127.0.0.1:9/{EVIL}")});
    let victim =
        Victim::new(&config_of([(EVIL, json!({"command": "no-such-program-anywhere"})), ("remote", url)]));
    let missing = victim.home().join("missing.json");
    let missing = missing.to_str().unwrap();
    let cases: [&[&str]; 27] = [
        &["add", EVIL, "--", "x"],
        &["add", "new", "--", EVIL],
        &["enable", EVIL],
        &["disable", EVIL],
        &["enable", EVIL],
        &["remove", "no-such"],
        &["remove", "new", EVIL, "remote"],
        &["--config", missing, "disable", EVIL],
        &["--config", missing, "check"],
        &["--profile", EVIL, "tools"],
        &["login", EVIL],
        &["logout", EVIL],
        &["approve", EVIL, EVIL],
        &["secret", "set", EVIL],
        &["secret", "remove", EVIL],
        &["reconnect", EVIL, EVIL],
        &["import", EVIL],
        &["import", "--dry-run"],
        &["login", "--timeout", EVIL, "x"],
        &["completions", EVIL],
        &["--help"],
        &["add", "--nope", EVIL],
        &["--log-level", EVIL, "tools"],
        &["--log-file", EVIL, "--idle-timeout", EVIL, "tools"],
        &["call", EVIL, EVIL, EVIL],
        &["cache", "clear"],
        &["check", EVIL],
    ];
    for args in cases {
        for shown in [victim.piped(args), victim.at_terminal(args, "")] {
            assert_visible(&shown, args);
        }
    }
    let shows: [&[&str]; 8] = [
        &["add", EVIL, "--", "x"],
        &["disable", EVIL],
        &["enable", EVIL],
        &["remove", "no-such"],
        &["--profile", EVIL, "tools"],
        &["login", EVIL],
        &["completions", EVIL],
        &["cache", "clear"],
    ];
    shows.iter().for_each(|args| victim.check(args));
    // A file that is no JSON.
    fs::write(victim.config(), "{").unwrap();
    for args in [&["check"][..], &["tools"], &["remove", EVIL]] {
        victim.check(args);
    }
}

#[test]
fn commands_that_start_servers_show_their_names_and_errors_visibly() {
    let crashes = scripted_upstream(&["--crash-at-start", EVIL]);
    let victim = Victim::new(&config_of([(EVIL, hostile_server()), ("crashes\u{202e}", crashes)]));
    let commands: [&[&str]; 5] =
        [&["check"], &["tools"], &["search", EVIL], &["call", EVIL, "none"], &["resources"]];
    commands.iter().for_each(|args| victim.check(args));
    // A definition is a payload.
    let shown = victim.at_terminal(&["tools", EVIL, EVIL], "");
    assert_visible(&shown, &["tools"]);
    assert!(shown.contains(SHOWN), "{shown}");
}

#[test]
fn questions_show_names_visibly() {
    let victim = Victim::new(&json!({}));
    let cursor = victim.home().join(".cursor");
    fs::create_dir(&cursor).unwrap();
    let servers = json!({"mcpServers": {EVIL: {"command": EVIL, "args": [EVIL]}}});
    fs::write(cursor.join("mcp.json"), servers.to_string()).unwrap();
    for args in [&["import", "--project"][..], &["import", "--dry-run"], &["import", "--write-client"]] {
        let shown = victim.at_terminal(args, "n\nn\nn\n");
        assert_visible(&shown, args);
        assert!(shown.contains(SHOWN), "{args:?}: {shown}");
    }
}

#[test]
fn payloads_stay_bytes_in_a_pipe_and_are_visible_at_a_terminal() {
    let victim = Victim::new(&config_of([("g", scripted_upstream(&[]))]));
    let argument = json!({"text": EVIL}).to_string();
    let call = ["call", "g", "echo", &argument];
    assert_eq!(victim.piped(&call), format!("{EVIL}\n"));
    let raw = victim.piped(&[&call[..], &["--json"]].concat());
    assert!(raw.contains('\u{202e}') && serde_json::from_str::<Value>(&raw).is_ok(), "{raw}");
    for args in [&call[..], &[&call[..], &["--json"]].concat()] {
        let shown = victim.at_terminal(args, "");
        // The line break of the text stays one: it is the server's text, and nothing else is printed.
        assert_visible(&shown.replace("\nFORGED", "\n"), args);
        assert!(shown.contains(SHOWN), "{shown:?}");
    }
}

#[test]
fn status_logs_and_reconnect_show_names_and_paths_visibly() {
    let victim = Victim::new(&config_of([(EVIL, hostile_server())]));
    let _instance = victim.instance();
    wait_until("the group is listed", || {
        let status = victim.piped(&["status"]);
        // The directory, that and the name of the config, and the group.
        assert_visible(&status, &["status"]);
        status.matches(SHOWN).count() >= 4
    });
    for args in [&["status"][..], &["reconnect", EVIL], &["reconnect", "none"], &["logs", "none\u{202e}"]] {
        for shown in [victim.piped(args), victim.at_terminal(args, "")] {
            assert_visible(&shown, args);
        }
    }
    victim.check(&["reconnect", EVIL]);
    let shown = victim.at_terminal(&["logs", EVIL], "");
    assert_visible(&shown, &["logs"]);
}

// Other systems have no such names.
#[cfg(target_os = "linux")]
#[test]
fn an_instance_in_a_directory_that_is_not_utf8_is_listed() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let victim = Victim::new(&json!({}));
    let dir = victim.home().join(OsStr::from_bytes(b"\xff\x1b[2J"));
    fs::create_dir(&dir).unwrap();
    let mut child = victim.command(&[]).current_dir(&dir).stdin(Stdio::piped()).spawn().unwrap();
    let socket = victim.sockets().join(format!("instance-{}.sock", child.id()));
    wait_until("the instance listens", || socket.exists());
    let status = victim.piped(&["status"]);
    drop(child.stdin.take());
    wait_for_child(&mut child);
    assert!(status.contains("/\u{fffd}\\u{1b}[2J, "), "{status}");
}

/// Runs `status` and returns what it prints and how long it took.
fn status(victim: &Victim) -> (String, Duration) {
    let started = Instant::now();
    (victim.piped(&["status"]), started.elapsed())
}

#[test]
fn an_endless_answer_of_a_socket_ends_at_a_limit() {
    let victim = Victim::new(&json!({}));
    let socket = victim.socket();
    let flood = thread::spawn(move || {
        let (mut socket, _) = socket.accept().unwrap();
        let (block, mut written) = (vec![b'x'; 1 << 20], 0);
        while written < 1 << 30 && socket.write_all(&block).is_ok() {
            written += block.len();
        }
        written
    });
    let (shown, took) = status(&victim);
    assert!(
        shown.contains("instance-1.sock does not answer: the answer is larger than 8388608 bytes"),
        "{shown}"
    );
    assert!(took < PATIENCE, "{took:?}");
    let written = flood.join().unwrap();
    assert!(written < 16 << 20, "{written} bytes were read");
}

#[test]
fn an_answer_that_trickles_ends_at_a_deadline() {
    let victim = Victim::new(&json!({}));
    let socket = victim.socket();
    let trickle = thread::spawn(move || {
        let (mut socket, _) = socket.accept().unwrap();
        let started = Instant::now();
        while started.elapsed() < 2 * PATIENCE && socket.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let (shown, took) = status(&victim);
    assert!(shown.contains("instance-1.sock does not answer") && took < PATIENCE, "{took:?}: {shown}");
    trickle.join().unwrap();
}

#[test]
fn idle_connections_keep_no_command_from_an_instance() {
    let victim = Victim::new(&json!({}));
    let instance = victim.instance();
    let socket = victim.sockets().join(format!("instance-{}.sock", instance.child.id()));
    let idle: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let (shown, _) = status(&victim);
    assert!(shown.contains(&format!("(pid {})", instance.child.id())), "{shown}");
    drop(idle);
}

#[test]
fn a_forged_answer_of_a_socket_is_shown_visibly() {
    let victim = Victim::new(&json!({}));
    let socket = victim.socket();
    let group = json!({"group": EVIL, "state": EVIL, "mode": EVIL, "pid": EVIL, "error": EVIL, "calls": EVIL,
        "shared": true, "closedMemoryBytes": u64::MAX});
    let report = json!({"status": {"pid": 1, "version": EVIL, "upS": 1, "cwd": EVIL, "config": [EVIL],
        "status": {"error": EVIL, "profile": EVIL, "groups": [7, "x", [], group, group]}}});
    let answering = thread::spawn(move || {
        socket.set_nonblocking(true).unwrap();
        let started = Instant::now();
        let mut answered = 0;
        while answered < 2 && started.elapsed() < PATIENCE {
            match socket.accept() {
                Ok((mut socket, _)) => {
                    writeln!(socket, "{report}").unwrap();
                    answered += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    victim.check(&["status"]);
    answering.join().unwrap();
}

#[test]
fn only_the_writer_has_stdout_and_stderr() {
    // The lint forbids them; this is the list of its exceptions.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lints = fs::read_to_string(root.join("clippy.toml")).unwrap();
    for path in ["std::io::stdout", "std::io::stderr", "tokio::io::stdout", "clap::error::Error::print"] {
        assert!(lints.contains(&format!("path = \"{path}\"")), "{path}");
    }
    let mut exceptions: Vec<_> = crate::support::SOURCES
        .iter()
        .flat_map(|dir| crate::support::source_files(&root.join(dir)))
        .filter(|file| fs::read_to_string(file).unwrap().contains("(clippy::disallowed_methods"))
        .map(|file| file.strip_prefix(root).unwrap().to_str().unwrap().to_owned())
        .collect();
    exceptions.sort();
    let expected = [
        "crates/base/src/telemetry.rs",
        "crates/jq/src/child.rs",
        "crates/sharing/src/host/process.rs",
        "crates/terminal/src/lib.rs",
        "crates/wire/src/stdio.rs",
        "src/cli/demo/server.rs",
        "src/cli/usage.rs",
    ];
    assert_eq!(exceptions, expected);
}
