//! Processes that pose as the host or as a client of it: another one's pid must not vouch for them.

use super::*;
use crate::support::namespaces::{NamespaceRun, OWN_PIDS, run_again_in};
use crate::support::{TEST_TIMEOUT, is_alive, kill};
use nix::sys::signal::{Signal, kill as send_signal};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

/// A value that only a server may get.
const SECRET: &str = "hunter2-of-the-server";

/// A command of `tests/helpers/sandboxed.rs`.
pub(super) fn sandboxed() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/sandboxed");
    assert!(path.exists(), "run `cargo build --examples` first: no {}", path.display());
    path
}

/// A process that is killed and reaped when it is dropped.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A process that listens in the place of the host, while another one has its socket.
struct Listener {
    listening: Reaped,
    /// The pid of the process that answers.
    answering: u32,
    record: PathBuf,
}

impl Listener {
    fn start(user: &User, path: &Path) -> Self {
        let record = user.home.path().join("record");
        let mut command = Command::new(sandboxed());
        command.arg("listen").arg(path).arg(&record).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut listening = Reaped(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(listening.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { listening, answering: line.trim().parse().unwrap(), record }
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.record).unwrap_or_default()).into_owned()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if is_alive(self.answering) {
            kill(self.answering);
        }
    }
}

/// A config with a server whose environment has the secret.
fn secret_config() -> Value {
    let entry = merged(shared(scripted_upstream(&[])), json!({"env": {"TOKEN": SECRET}}));
    pure_config([("g", entry)])
}

/// Returns the path at which the program looks for a host, which does not run any more.
fn path_of_ended_host(user: &User, config: &Value) -> PathBuf {
    let mut window = user.window(config);
    window.upstream_pid("g");
    let (path, host) = (user.host_socket(), user.host());
    window.close_stdin();
    window.wait_for_exit();
    send_signal(Pid::from_raw(host.cast_signed()), Signal::SIGTERM).unwrap();
    wait_until("the host has ended", || user.hosts().is_empty() && !path.exists());
    path
}

/// Asserts that a window works and sends the impostor nothing that is secret.
fn assert_impostor_learns_nothing(user: &User, config: &Value, impostor: &Listener) {
    let mut window = user.window(config);
    let env: Value = serde_json::from_str(&window.call_text("g", "env", json!({}))).unwrap();
    assert_eq!(env["TOKEN"], SECRET);
    assert_eq!(window.group_status("g")["shared"], false);
    assert!(is_alive(impostor.answering));
    let received = impostor.received();
    assert!(!received.contains(SECRET), "the impostor has the secret: {received}");
    window.wait_for_log("the server gets a process of its own");
}

/// As with a socket of systemd, which listens for its services.
#[test]
fn a_process_that_answers_for_the_one_that_listens_learns_nothing() {
    let user = User::new();
    let config = secret_config();
    let path = path_of_ended_host(&user, &config);
    let impostor = Listener::start(&user, &path);
    assert_impostor_learns_nothing(&user, &config, &impostor);
    assert!(!impostor.received().is_empty(), "the window has asked it who it is");
}

/// Runs the test in a PID namespace of its own, where it can choose pids. Returns whether that is here.
fn can_choose_pids() -> bool {
    let run = run_again_in(&OWN_PIDS);
    if run == NamespaceRun::Impossible {
        eprintln!("SKIPPED: no PID namespace can be made here, and without one no pid can be chosen");
    }
    run == NamespaceRun::Inside
}

/// Starts a process with this pid, which must be free.
fn spawn_with_pid(pid: u32, mut command: impl FnMut() -> Command) -> Reaped {
    for _ in 0..1000 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let process = Reaped(command().spawn().unwrap());
        if process.0.id() == pid {
            return process;
        }
    }
    panic!("no process got the pid {pid}");
}

/// A process of the user that has nothing to do with any of this.
fn bystander() -> Command {
    let mut command = Command::new("sleep");
    command.arg("60").stdin(Stdio::null());
    command
}

#[test]
fn the_recycled_pid_of_a_listener_vouches_for_nobody() {
    if !can_choose_pids() {
        return;
    }
    let user = User::new();
    let config = secret_config();
    let path = path_of_ended_host(&user, &config);
    let mut impostor = Listener::start(&user, &path);
    let pid = impostor.listening.0.id();
    drop(impostor.listening.0.stdin.take());
    impostor.listening.0.wait().unwrap();
    let bystander = spawn_with_pid(pid, bystander);
    assert_impostor_learns_nothing(&user, &config, &impostor);
    drop(bystander);
}

#[test]
fn the_recycled_pid_of_a_client_vouches_for_nobody() {
    if !can_choose_pids() {
        return;
    }
    let user = User::new();
    let mut window = user.window(&shared_config(&[]));
    window.upstream_pid("g");
    let host = Pid::from_raw(user.host().cast_signed());
    send_signal(host, Signal::SIGSTOP).unwrap();
    // Who connects ends before the host looks, and a bystander gets its pid.
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let end = || Stdio::from(socket.try_clone().unwrap());
    let mut connecting =
        Command::new(sandboxed()).arg("connect").arg(user.host_socket()).stdin(end()).spawn().unwrap();
    let pid = connecting.id();
    assert!(connecting.wait().unwrap().success());
    let bystander = spawn_with_pid(pid, bystander);
    send_signal(host, Signal::SIGCONT).unwrap();
    // The host has looked when it asks, or closes the connection.
    let mut question = [0; 32];
    let asked = recv(socket.as_raw_fd(), &mut question, MsgFlags::MSG_PEEK).is_ok_and(|count| count > 0);
    drop(bystander);
    let mut answer = String::new();
    if asked {
        // Its successor answers with the same pid.
        let mut answering = spawn_with_pid(pid, || {
            let mut command = Command::new("head");
            command.args(["-c", "32"]).stdin(end()).stdout(end());
            command
        });
        answering.0.wait().unwrap();
        let mut socket = UnixStream::from(socket);
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        drop(socket.write_all(b"0123456789abcdef0123456789abcde\n"));
        drop(socket.read_to_string(&mut answer));
    }
    assert_eq!(answer, "", "the host has let it in");
    assert_eq!(window.call_text("g", "echo", json!({"text": "x"})), "x");
}
