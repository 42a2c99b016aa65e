//! What one test runs in: the installed programs, a home directory of its own, and the certainty that no process of
//! it stays behind.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

/// For a whole run of a client, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);
/// What processes have to end once the client has: clients give the proxy two seconds before SIGTERM.
const ENDED: Duration = Duration::from_secs(10);

const SCRIPTS: [&str; 14] = [
    "run_plan.mjs",
    "client_ts_v1.mjs",
    "client_ts_v2.mjs",
    "client_py.py",
    "server_ts_v1.mjs",
    "server_ts_v2.mjs",
    "server_py.py",
    "fake_model.py",
    "conformance.py",
    "conformance_client.py",
    "conformance_bridges.py",
    "conformance_handshake.py",
    "conformance_stateless.py",
    "conformance_login.py",
];

/// What `tests/real/setup` installed; nothing, and a word about it, where it did not.
pub(crate) fn installed() -> Option<PathBuf> {
    let real = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("real");
    if real.join("ready").exists() {
        return Some(real);
    }
    let set = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    assert!(
        !set("CI", "true") && !set("DYNAMIC_MCP_REQUIRE_REAL", "1"),
        "nothing is installed in {real:?}: run tests/real/setup"
    );
    let test = thread::current().name().unwrap_or_default().to_owned();
    // Not eprintln: what a test that passes prints is not shown.
    drop(writeln!(
        std::io::stderr(),
        "SKIPPED: {test}: run tests/real/setup first (needs Node.js and Python)"
    ));
    None
}

pub(crate) struct Scratch {
    pub(crate) real: PathBuf,
    dir: TempDir,
}

impl Scratch {
    /// The home of one test. The scripts are copied beside a link to the packages: Node looks for them there.
    pub(crate) fn new() -> Option<Self> {
        let real = installed()?;
        let dir = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real");
        for script in SCRIPTS {
            fs::copy(sources.join(script), dir.path().join(script)).unwrap();
        }
        symlink(real.join("node_modules"), dir.path().join("node_modules")).unwrap();
        Some(Self { real, dir })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A config of these servers (name and command each), and the command that serves it.
    pub(crate) fn proxy(&self, servers: &[(&str, Vec<String>)]) -> Vec<String> {
        let servers: serde_json::Map<_, _> = servers
            .iter()
            .map(|(name, command)| {
                ((*name).to_owned(), json!({ "command": command, "lazy_startup": "pure" }))
            })
            .collect();
        self.serve(&servers.into())
    }

    /// The command that serves a config of these servers.
    pub(crate) fn serve(&self, servers: &Value) -> Vec<String> {
        let config = self.write("servers.json", &json!({ "mcpServers": servers }).to_string());
        [env!("CARGO_BIN_EXE_dynamic-mcp").into(), "--config".into(), text(&config)].into()
    }

    /// `program` with the environment of a user who has nothing but the installed programs.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", text(&self.real.join("bin"))))
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("LANG", "C.UTF-8")
            // Nobody's own keyring is asked for anything.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// What the program prints, once it has ended well in time.
    pub(crate) fn run(&self, mut command: Command) -> String {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let ended = end_of(&mut child);
        if ended.is_none() {
            let _gone = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            drop(child.wait());
        }
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        assert_eq!(ended, Some(true), "{command:?}\nstdout: {stdout}\nstderr: {stderr}");
        stdout
    }

    /// Fails unless every process of this test ends by itself.
    pub(crate) fn assert_nothing_is_left(&self) {
        let begin = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < ENDED, "still running: {left:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Those that were given this home. (There is no /proc on other systems; nothing is checked there.)
    fn processes(&self) -> Vec<(i32, String)> {
        let home = format!("HOME={}", text(self.dir.path()));
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let ours = environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
            ours.then(|| (pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()))
        })
        .collect()
    }
}

impl Drop for Scratch {
    /// Of a test that failed, too, nothing stays behind.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _gone = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it ended well; nothing if it did not end.
fn end_of(child: &mut Child) -> Option<bool> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.success());
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The last line of a client's output.
pub(crate) fn report(output: &str) -> Value {
    let line = output.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output}"))
}
