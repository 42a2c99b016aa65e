//! The program as a process: how a test starts, signals and ends it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::{Message, wait_until, write_all};

/// A D-Bus address without a bus, so that no test uses the keyring of the developer.
pub(crate) const DISABLED_DBUS: &str = "disabled:";

/// The user that has no rights.
pub(crate) const NOBODY: u32 = 65534;

/// A command that starts the program in a home directory of its own.
pub(crate) struct ProxyCommand {
    command: Command,
    home: TempDir,
    /// The user and group that it runs as, if these are others than those of the tests.
    user: Option<u32>,
}

impl ProxyCommand {
    /// With no environment variables of the test process.
    pub(crate) fn new() -> Self {
        Self::of(Path::new(env!("CARGO_BIN_EXE_dynamic-mcp")), TempDir::new().unwrap())
    }

    /// As a user that is not root, because root may do what this user may not: as `nobody` if the tests run as root.
    /// `None`, with a line that says so, if root cannot become that user here.
    pub(crate) fn unprivileged() -> Option<Self> {
        if !geteuid().is_root() {
            return Some(Self::new());
        }
        // A copy, because the user may not be able to reach the target directory.
        let home = TempDir::new().unwrap();
        let program = home.path().join("dynamic-mcp");
        std::fs::copy(env!("CARGO_BIN_EXE_dynamic-mcp"), &program).unwrap();
        Self::of(&program, home).into_nobody()
    }

    /// A copy of the program, as a user that is not root.
    pub(crate) fn unprivileged_copy(program: &Path) -> Option<Self> {
        Self::of(program, TempDir::new().unwrap()).into_nobody()
    }

    fn into_nobody(mut self) -> Option<Self> {
        if !geteuid().is_root() {
            return Some(self);
        }
        if !Command::new("true").uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: root cannot become user {NOBODY} here");
            return None;
        }
        chown(self.home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        self.command.uid(NOBODY).gid(NOBODY);
        self.user = Some(NOBODY);
        Some(self)
    }

    fn of(program: &Path, home: TempDir) -> Self {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home.path()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        for (name, dir) in
            [("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"), ("XDG_DATA_HOME", "data")]
        {
            command.env(name, home.path().join(dir));
        }
        // Its sockets go there.
        command.env("XDG_RUNTIME_DIR", home.path());
        command.env("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS).current_dir(home.path());
        Self { command, home, user: None }
    }

    /// Its home and working directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// Lets another program, such as `prlimit`, start it: the program with its arguments follows `command`.
    pub(crate) fn started_by(mut self, command: &[&str]) -> Self {
        // Its environment has another PATH than the tests.
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = std::env::split_paths(&dirs).map(|dir| dir.join(command[0]));
        let mut outer = Command::new(paths.find(|path| path.is_file()).unwrap_or_else(|| command[0].into()));
        outer.args(&command[1..]).arg(self.command.get_program()).args(self.command.get_args());
        outer.env_clear().current_dir(self.home.path());
        outer.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(user) = self.user {
            outer.uid(user).gid(user);
        }
        self.command = outer;
        self
    }

    /// The same, but the other program runs as the user of the tests.
    pub(crate) fn started_by_tester(mut self, command: &[&str]) -> Self {
        self.user = None;
        self.started_by(command)
    }

    pub(crate) fn in_own_process_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// With a config file that has this text.
    pub(crate) fn config_text(self, text: &str) -> Self {
        let path = self.home.path().join("servers.json");
        std::fs::write(&path, text).unwrap();
        self.args(&["--config", path.to_str().unwrap()])
    }

    pub(crate) fn config(self, config: &Value) -> Self {
        self.config_text(&config.to_string())
    }

    pub(crate) fn start(mut self) -> Proxy {
        let guard = orphans_guard();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let log = Arc::<Mutex<String>>::default();
        let (stderr, lines) = (child.stderr.take().unwrap(), log.clone());
        let log_reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push_str(&String::from_utf8_lossy(&line));
                lines.push('\n');
            }
        });
        Proxy {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            log,
            log_reader: Some(log_reader),
            read_buffer: Vec::new(),
            skipped: VecDeque::new(),
            last_id: 0,
            home: self.home,
            _guard: guard,
        }
    }

    /// Starts it and waits until it handles signals.
    pub(crate) fn start_ready(self) -> Proxy {
        let proxy = self.start();
        proxy.wait_for_log("is ready");
        proxy
    }

    /// Starts it and makes the handshake.
    pub(crate) fn start_initialized(self) -> Proxy {
        let mut proxy = self.start();
        proxy.handshake();
        proxy
    }
}

/// Some tests of the warden make orphaned processes, which the warden of any other program ends, so these tests run
/// alone. All programs of a thread share one guard: a second guard would wait for a test that waits for the first one.
fn orphans_guard() -> Rc<RwLockReadGuard<'static, ()>> {
    thread_local! {
        static GUARD: RefCell<Weak<RwLockReadGuard<'static, ()>>> = RefCell::default();
    }
    GUARD.with_borrow_mut(|shared| {
        shared.upgrade().unwrap_or_else(|| {
            let guard = Rc::new(crate::warden::ORPHANS_LOCK.read().unwrap_or_else(PoisonError::into_inner));
            *shared = Rc::downgrade(&guard);
            guard
        })
    })
}

/// The running program, and the client's side of its session. It is killed when this is dropped.
pub(crate) struct Proxy {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    /// What it has written to stderr.
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
    /// Bytes from stdout that are not a whole line yet.
    pub(super) read_buffer: Vec<u8>,
    /// Messages that arrived before a response that the test waited for.
    pub(super) skipped: VecDeque<Message>,
    /// The id of the last request.
    pub(super) last_id: u64,
    home: TempDir,
    _guard: Rc<RwLockReadGuard<'static, ()>>,
}

impl Proxy {
    /// Starts the program with this config and makes the handshake.
    pub(crate) fn new(config: &Value) -> Self {
        ProxyCommand::new().config(config).start_initialized()
    }

    /// The same for a client that declares these capabilities.
    pub(crate) fn with_capabilities(config: &Value, capabilities: Value) -> Self {
        let mut proxy = ProxyCommand::new().config(config).start();
        proxy.handshake_with(capabilities);
        proxy
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file of `ProxyCommand::config`.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.home.path().join("servers.json")
    }

    /// Writes `text` to its stdin as it is.
    pub(crate) fn write(&mut self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    /// Writes these bytes to its stdin.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        let written = write_all(self.stdin.as_mut().unwrap(), bytes);
        written.unwrap_or_else(|error| panic!("cannot write to stdin: {error}; the log:\n{}", self.log()));
    }

    /// Its home and working directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the log contains `text`.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_until(&format!("{text:?} in the log"), || self.log().contains(text));
    }

    pub(crate) fn send_signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn has_exited(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it exits, and reads its stdout meanwhile, as a client does. Returns its status and how long it took
    /// from now.
    pub(crate) fn wait_for_exit(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        while self.stdout.is_some()
            && let Some(message) = self.read_message()
        {
            self.skipped.push_back(message);
        }
        wait_until("the program exits", || self.has_exited());
        let took = start.elapsed();
        self.log_reader.take().map_or(Ok(()), JoinHandle::join).unwrap();
        (self.child.wait().unwrap(), took)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
