//! The directory and environment of one test: the installed programs, a home directory of its own, and the check that
//! no process is left.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::turn::Turn;

/// The deadline for a whole run of a client, on a loaded machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);
/// How long processes may take to exit after the client. Clients give the proxy two seconds before SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

const SCRIPTS: [&str; 29] = [
    "authorization_server.mjs",
    "run_plan.mjs",
    "client_ts_login.mjs",
    "client_ts_v1.mjs",
    "client_ts_v2.mjs",
    "client_py.py",
    "client_fastmcp.py",
    "server_ts_v1.mjs",
    "server_ts_v2.mjs",
    "server_py.py",
    "server_odd.py",
    "fake_model.py",
    "conformance.py",
    "conformance_client.py",
    "conformance_http.py",
    "conformance_bridges.py",
    "conformance_handshake.py",
    "conformance_stateless.py",
    "conformance_skills.py",
    "conformance_login.py",
    "deployment.py",
    "direct_client.py",
    "roots.py",
    "status_page.mjs",
    "status_page_checks.mjs",
    "status_page_host.mjs",
    "status_page_reports.mjs",
    "status_page_setup.mjs",
    "unusual_server.py",
];

/// The directory of the programs that `tests/real/setup` installed. `None`, with a message, if it was not run.
fn find_install_dir() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("real");
    if dir.join("ready").exists() {
        return Some(dir);
    }
    skip("run tests/real/setup first (needs Node.js and Python)");
    None
}

/// Says that this test is skipped, and what to do about it. Panics where it must not be skipped.
pub(crate) fn skip(remedy: &str) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|actual| actual == value);
    assert!(!is_set("CI", "true") && !is_set("DYNAMIC_MCP_REQUIRE_REAL", "1"), "{test}: {remedy}");
    // Not `eprintln`, because the output of tests that pass is not shown.
    #[expect(clippy::disallowed_methods, reason = "it is shown also if the test passes")]
    drop(writeln!(std::io::stderr(), "SKIPPED: {test}: {remedy}"));
}

pub(crate) struct Workspace {
    /// The directory of the installed programs.
    pub(crate) install_dir: PathBuf,
    home: TempDir,
    _turn: Turn,
}

impl Workspace {
    /// Copies the scripts next to a link to the packages, where Node.js looks for them. `None` if no programs are
    /// installed.
    pub(crate) fn new() -> Option<Self> {
        let install_dir = find_install_dir()?;
        let turn = Turn::take();
        let home = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real");
        for script in SCRIPTS {
            fs::copy(sources.join(script), home.path().join(script)).unwrap();
        }
        symlink(install_dir.join("node_modules"), home.path().join("node_modules")).unwrap();
        Some(Self { install_dir, home, _turn: turn })
    }

    /// The path of a file in the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The command of dynamic-mcp with these stdio servers: names and commands.
    pub(crate) fn proxy_for_commands(&self, servers: &[(&str, Vec<String>)]) -> Vec<String> {
        let servers: serde_json::Map<_, _> = servers
            .iter()
            .map(|(name, command)| {
                ((*name).to_owned(), json!({ "command": command, "lazy_startup": "pure" }))
            })
            .collect();
        self.proxy_for_servers(&servers.into())
    }

    /// The command of dynamic-mcp with these servers in its config.
    pub(crate) fn proxy_for_servers(&self, servers: &Value) -> Vec<String> {
        let config = self.write("servers.json", &json!({ "mcpServers": servers }).to_string());
        [env!("CARGO_BIN_EXE_dynamic-mcp").into(), "--config".into(), path_string(&config)].into()
    }

    /// A command with the environment of a user who has only the installed programs.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", path_string(&self.install_dir.join("bin"))))
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("LANG", "C.UTF-8")
            // No test uses the keyring of the developer.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// Runs a command, asserts that it succeeds in time, and returns its stdout.
    pub(crate) fn run(&self, command: Command) -> String {
        self.run_to_exit_code(command, 0).0
    }

    /// Runs a command, asserts that it exits in time with this code, and returns its stdout and stderr.
    pub(crate) fn run_to_exit_code(&self, mut command: Command, code: i32) -> (String, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = read_to_end(child.stdout.take().unwrap());
        let stderr = read_to_end(child.stderr.take().unwrap());
        let status = wait_for_exit(&mut child);
        if status.is_none() {
            let _gone = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
            drop(child.wait());
        }
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        let is_expected = status.is_some_and(|status| status.code() == Some(code));
        assert!(is_expected, "{command:?}: {status:?}\nstdout: {stdout}\nstderr: {stderr}");
        (stdout, stderr)
    }

    /// Asserts that every process of this test exits by itself.
    pub(crate) fn assert_no_process_left(&self) {
        let start = Instant::now();
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            assert!(start.elapsed() < EXIT_TIMEOUT, "still running: {processes:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The pids and command lines of the processes with this home directory. Empty on systems without /proc.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let home = format!("HOME={}", path_string(self.home.path()));
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let env = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has_home = env.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
            has_home.then(|| (pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()))
        })
        .collect()
    }
}

impl Drop for Workspace {
    /// Kills the processes of a test that failed.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _gone = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn read_to_end(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `None` if it did not exit in time.
fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < RUN_TIMEOUT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

pub(crate) fn path_string(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The report on the last line of a script's output.
pub(crate) fn parse_report(output: &str) -> Value {
    let line = output.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output}"))
}
