//! The program as a process: how a test starts, signals and ends it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use super::{Message, wait_until, write_all};

/// A D-Bus address without a bus, so that no test uses the keyring of the developer.
#[cfg(unix)]
pub(crate) const DISABLED_DBUS: &str = "disabled:";

#[cfg(unix)]
pub(crate) mod unix;

/// A command that starts the program in a home directory of its own.
pub(crate) struct ProxyCommand {
    command: Command,
    home: TempDir,
    /// The user and group that it runs as, if these are others than those of the tests.
    #[cfg(unix)]
    user: Option<u32>,
}

impl ProxyCommand {
    /// With no environment variables of the test process.
    pub(crate) fn new() -> Self {
        Self::of(Path::new(env!("CARGO_BIN_EXE_dynamic-mcp")), TempDir::new().unwrap())
    }

    fn of(program: &Path, home: TempDir) -> Self {
        let mut command = Command::new(program);
        command.env_clear().envs(base_env(home.path())).current_dir(home.path());
        Self {
            command,
            home,
            #[cfg(unix)]
            user: None,
        }
    }

    /// Its home and working directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Sets a variable. On Windows, `LOCALAPPDATA` takes the place of the XDG variables for the cache, state and data.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        let is_local = ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"].contains(&name);
        self.command.env(if cfg!(windows) && is_local { "LOCALAPPDATA" } else { name }, value);
        self
    }

    /// Removes a variable.
    #[cfg(unix)]
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
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

/// The environment of the program in this home directory.
#[cfg(unix)]
pub(crate) fn base_env(home: &Path) -> Vec<(&'static str, OsString)> {
    vec![
        ("HOME", home.into()),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
        ("XDG_CONFIG_HOME", home.join("config").into()),
        ("XDG_CACHE_HOME", home.join("cache").into()),
        ("XDG_DATA_HOME", home.join("data").into()),
        // Its sockets go there.
        ("XDG_RUNTIME_DIR", home.into()),
        ("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS.into()),
    ]
}

/// The environment of the program in this home directory, and what no program can do without.
#[cfg(windows)]
pub(crate) fn base_env(home: &Path) -> Vec<(&'static str, OsString)> {
    let own = ["SystemRoot", "SystemDrive", "ComSpec", "PATH", "PATHEXT", "TEMP", "TMP"];
    let own = own.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let dirs = [("USERPROFILE", ""), ("APPDATA", "config"), ("LOCALAPPDATA", "data")];
    own.chain(dirs.map(|(name, dir)| (name, home.join(dir).into()))).collect()
}

/// A test that makes orphaned processes holds this for writing, because the warden of any other test would end them.
pub(crate) static ORPHANS_LOCK: RwLock<()> = RwLock::new(());

/// Some tests of the warden make orphaned processes, which the warden of any other program ends, so these tests run
/// alone. All programs of a thread share one guard: a second guard would wait for a test that waits for the first one.
fn orphans_guard() -> Rc<RwLockReadGuard<'static, ()>> {
    thread_local! {
        static GUARD: RefCell<Weak<RwLockReadGuard<'static, ()>>> = RefCell::default();
    }
    GUARD.with_borrow_mut(|shared| {
        shared.upgrade().unwrap_or_else(|| {
            let guard = Rc::new(ORPHANS_LOCK.read().unwrap_or_else(PoisonError::into_inner));
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

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
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
