//! The built program with a config of its own, and a client that speaks JSON-RPC to it line by line.
//!
//! Nothing here sleeps to wait for something to happen: lines are waited for with a deadline, states by `until`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) use crate::scripted::program;
pub(crate) use message::{Message, text_of};
pub(crate) use processes::{Processes, alive};

mod message;
mod processes;
pub(crate) mod stateless;

/// For everything that happens soon, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The address of no bus: nobody's own keyring is asked for anything.
pub(crate) const NO_BUS: &str = "disabled:";

/// An entry for the scripted upstream.
pub(crate) fn upstream(flags: &[&str]) -> Value {
    json!({"command": program(), "args": flags})
}

/// `entry` with the members of `more`.
pub(crate) fn with(mut entry: Value, more: Value) -> Value {
    entry.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
    entry
}

/// A config with these servers, each of which is started by its first use: the messages of a session are then those
/// that a test makes.
pub(crate) fn servers<const N: usize>(entries: [(&str, Value); N]) -> Value {
    with(as_configured(entries), json!({"settings": {"lazy_startup": "pure"}}))
}

/// A config with these servers in the modes they say, or the default one.
pub(crate) fn as_configured<const N: usize>(entries: [(&str, Value); N]) -> Value {
    json!({"mcpServers": entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect::<serde_json::Map<_, _>>()})
}

/// A config with the one server `g`.
pub(crate) fn one(flags: &[&str]) -> Value {
    servers([("g", upstream(flags))])
}

/// Waits for a state.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < SOON, "not after {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How the program is started.
pub(crate) struct Setup {
    command: Command,
    dir: TempDir,
}

impl Setup {
    /// With a directory of its own as HOME, and nothing else of our environment.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().env("HOME", dir.path()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        for (name, sub) in
            [("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"), ("XDG_DATA_HOME", "data")]
        {
            command.env(name, dir.path().join(sub));
        }
        command.env("DBUS_SESSION_BUS_ADDRESS", NO_BUS).current_dir(dir.path());
        Self { command, dir }
    }

    /// Its HOME and working directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// In a process group of its own.
    pub(crate) fn own_group(mut self) -> Self {
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        self
    }

    /// With a file of this text as its config.
    pub(crate) fn config_text(self, text: &str) -> Self {
        let path = self.dir.path().join("servers.json");
        std::fs::write(&path, text).unwrap();
        self.args(&["--config", path.to_str().unwrap()])
    }

    pub(crate) fn config(self, config: &Value) -> Self {
        self.config_text(&config.to_string())
    }

    pub(crate) fn start(mut self) -> Proxy {
        let turn = turn();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let log = Arc::<Mutex<String>>::default();
        let (stderr, kept) = (child.stderr.take().unwrap(), log.clone());
        let logging = std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&String::from_utf8_lossy(&line));
                kept.push('\n');
            }
        });
        Proxy {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            child,
            log,
            logging: Some(logging),
            unread: Vec::new(),
            waiting: VecDeque::new(),
            last_id: 0,
            _dir: self.dir,
            _turn: turn,
        }
    }

    /// Started, and listening to signals.
    pub(crate) fn start_listening(self) -> Proxy {
        let proxy = self.start();
        proxy.until_logged("is ready");
        proxy
    }

    /// Started, and through the handshake.
    pub(crate) fn ready(self) -> Proxy {
        let mut proxy = self.start();
        proxy.handshake();
        proxy
    }
}

/// Some tests of the warden make orphaned processes, which the warden of any other program ends: they run alone.
/// One for all programs of a thread: a second one must not wait for whoever waits for the first.
fn turn() -> Rc<RwLockReadGuard<'static, ()>> {
    thread_local! {
        static HELD: RefCell<Weak<RwLockReadGuard<'static, ()>>> = RefCell::default();
    }
    HELD.with_borrow_mut(|held| {
        held.upgrade().unwrap_or_else(|| {
            let turn = Rc::new(crate::warden::ORPHANS_LOCK.read().unwrap_or_else(PoisonError::into_inner));
            *held = Rc::downgrade(&turn);
            turn
        })
    })
}

/// The running program, and the client's side of its session.
pub(crate) struct Proxy {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    log: Arc<Mutex<String>>,
    logging: Option<JoinHandle<()>>,
    /// Read from stdout, not yet a whole line.
    unread: Vec<u8>,
    /// Messages that came while another was waited for.
    waiting: VecDeque<Message>,
    last_id: u64,
    _dir: TempDir,
    _turn: Rc<RwLockReadGuard<'static, ()>>,
}

impl Proxy {
    /// Through the handshake, with this config.
    pub(crate) fn new(config: &Value) -> Self {
        Setup::new().config(config).ready()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The config file of `Setup::config`.
    pub(crate) fn config_file(&self) -> PathBuf {
        self._dir.path().join("servers.json")
    }

    pub(crate) fn handshake(&mut self) -> Value {
        self.handshake_with(json!({}))
    }

    /// Of a client that declares these capabilities.
    pub(crate) fn handshake_with(&mut self, capabilities: Value) -> Value {
        let info = json!({"name": "e2e", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let answer = self.ask("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Writes `text` as it is.
    pub(crate) fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.send_raw(method, &params.to_string())
    }

    /// The same with the bytes of `params`.
    pub(crate) fn send_raw(&mut self, method: &str, params: &str) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        id
    }

    pub(crate) fn send_call(&mut self, group: &str, tool: &str, args: Value) -> u64 {
        let arguments = json!({"group": group, "name": tool, "args": args});
        self.send("tools/call", json!({"name": "call_dynamic_tool", "arguments": arguments}))
    }

    /// The answer to a request, whatever else comes before it.
    pub(crate) fn answer(&mut self, id: u64) -> Message {
        let id = id.to_string();
        let is_it = |message: &Message| message.method().is_none() && message.id() == Some(&id);
        if let Some(at) = self.waiting.iter().position(is_it) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let message =
                self.read().unwrap_or_else(|| panic!("the end before the answer {id}: {}", self.log()));
            if is_it(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// The next message in the order they came.
    pub(crate) fn next(&mut self) -> Option<Message> {
        self.waiting.pop_front().or_else(|| self.read())
    }

    /// A whole answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).json()
    }

    /// The code of the error that a request is answered with.
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// The result of one of our own tools.
    pub(crate) fn front(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].take()
    }

    /// The result of an upstream's tool.
    pub(crate) fn call(&mut self, group: &str, tool: &str, args: Value) -> Value {
        self.front("call_dynamic_tool", json!({"group": group, "name": tool, "args": args}))
    }

    /// The text of a call that succeeds.
    pub(crate) fn text(&mut self, group: &str, tool: &str, args: Value) -> String {
        let result = self.call(group, tool, args);
        assert_ne!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    }

    /// The text of a call that fails.
    pub(crate) fn failure(&mut self, group: &str, tool: &str, args: Value) -> String {
        let result = self.call(group, tool, args);
        assert_eq!(result["isError"], true, "{result}");
        text_of(&result).to_owned()
    }

    /// What `get_dynamic_tools` says.
    pub(crate) fn tools(&mut self, arguments: Value) -> String {
        text_of(&self.front("get_dynamic_tools", arguments)).to_owned()
    }

    /// `get_status` of all.
    pub(crate) fn status(&mut self) -> Value {
        self.front("get_status", json!({}))["structuredContent"].take()
    }

    /// What `get_status` says of one group.
    pub(crate) fn group(&mut self, name: &str) -> Value {
        self.front("get_status", json!({"group": name}))["structuredContent"]["groups"][0].take()
    }

    /// The pid of a group's process, which is started if need be.
    pub(crate) fn upstream_pid(&mut self, group: &str) -> u32 {
        self.text(group, "pid", json!({})).parse().unwrap()
    }

    /// What was logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn until_logged(&self, text: &str) {
        until(&format!("{text:?} in the log"), || self.log().contains(text));
    }

    pub(crate) fn signal(&self, signal: Signal) {
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

    /// How it ended, and how long that took from now. Its stdout is read meanwhile, as a client does.
    pub(crate) fn ends(&mut self) -> (ExitStatus, Duration) {
        let begin = Instant::now();
        while self.stdout.is_some()
            && let Some(message) = self.read()
        {
            self.waiting.push_back(message);
        }
        until("it ends", || self.child.try_wait().unwrap().is_some());
        let took = begin.elapsed();
        self.logging.take().map_or(Ok(()), JoinHandle::join).unwrap();
        (self.child.wait().unwrap(), took)
    }

    /// The next line of its stdout; `None` at the end.
    fn read(&mut self) -> Option<Message> {
        let begin = Instant::now();
        let stdout = self.stdout.as_mut().unwrap();
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.drain(..=end).collect();
                return Some(Message::parse(String::from_utf8(line).unwrap()));
            }
            let rest = SOON.checked_sub(begin.elapsed()).unwrap_or_default();
            let wait = PollTimeout::try_from(rest).unwrap();
            let ready = poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)], wait).unwrap();
            let log = || self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert_ne!(ready, 0, "nothing on stdout for {SOON:?}; the log:\n{}", log());
            let mut chunk = vec![0; 64 << 10];
            let length = stdout.read(&mut chunk).unwrap();
            if length == 0 {
                assert!(self.unread.is_empty(), "half a line at the end of stdout: {:?}", self.unread);
                return None;
            }
            self.unread.extend_from_slice(&chunk[..length]);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
