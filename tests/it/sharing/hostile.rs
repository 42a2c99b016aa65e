//! What a session can do to the others of its server: nothing.

use super::*;
use crate::limits::memory::memory;
use crate::limits::unread::{REASON, asking_server};
use crate::support::{InputRecord, wait_until_closed};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use sharing::attach::{AttachRequest, ServerIdentity};
use sharing::challenge;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::time::Instant;

/// A client of the host that is no instance of the program.
struct RawSession {
    input: PipeReader,
    output: PipeWriter,
}

impl RawSession {
    /// Attaches to the server that `window` uses as `g`.
    fn attach(user: &User, window: &mut Proxy) -> Self {
        let env: BTreeMap<String, String> =
            serde_json::from_str(&window.call_text("g", "env", json!({}))).unwrap();
        let server = ServerIdentity {
            program: scripted_upstream_program().to_str().unwrap().to_owned(),
            args: Vec::new(),
            env: env.into_iter().filter(|(name, _)| !name.starts_with("DYNAMIC_MCP_")).collect(),
            cwd: user.home.path().to_str().unwrap().to_owned(),
            max_message_bytes: 32 << 20,
        };
        // The window started with the limit of this process, which `User::new` has raised.
        let (nofile, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let request = AttachRequest { server, without_launcher: None, nofile, instance: std::process::id() };
        let line = serde_json::to_string(&request).unwrap() + "\n";
        let ((host_input, output), (input, host_output)) =
            (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let mut socket = connect(user);
        let ends = [host_input.as_raw_fd(), host_output.as_raw_fd()];
        let parts = [IoSlice::new(line.as_bytes())];
        let rights = [ControlMessage::ScmRights(&ends)];
        let sent = sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None);
        assert_eq!(sent.unwrap(), line.len());
        let pid = window.upstream_pid("g");
        let attached = json!({"attached": {"pid": pid, "is_direct": false, "is_new": false}});
        assert_eq!(read_line(&mut socket), format!("{attached}\n"));
        fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        Self { input, output }
    }

    fn write_line(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for a line.
    fn read_line(&mut self) -> String {
        let mut line = String::new();
        wait_until("a line arrives", || {
            let mut byte = [0];
            while self.input.read(&mut byte).is_ok_and(|count| count == 1) {
                line.push(char::from(byte[0]));
                if byte[0] == b'\n' {
                    return true;
                }
            }
            false
        });
        line
    }

    /// Sends requests until the host takes no more for a while, and reads nothing.
    fn flood(&mut self, request: impl Fn(u64) -> String) {
        let mut last = Instant::now();
        for id in 1..5000 {
            let line = format!("{}\n", request(id));
            // A line is smaller than the buffer of a pipe, so it is written whole or not at all.
            while let Err(error) = self.output.write(line.as_bytes()) {
                if error.kind() == ErrorKind::BrokenPipe || last.elapsed() > Duration::from_millis(200) {
                    return;
                }
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                std::thread::yield_now();
            }
            last = Instant::now();
        }
    }

    /// Waits until the host has ended the session. Reads nothing.
    fn wait_for_end_unread(&self) {
        wait_until_closed(&self.input).unwrap();
    }

    /// Waits until the host has ended the session. Drops what it has sent.
    fn wait_for_end(&mut self) {
        let mut sink = vec![0; 1 << 20];
        wait_until("the host ends the session", || {
            loop {
                match self.input.read(&mut sink) {
                    Ok(0) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
        });
    }
}

/// Connects to the host of a user.
fn connect(user: &User) -> UnixStream {
    let mut socket = UnixStream::connect(user.host_socket()).unwrap();
    socket.set_read_timeout(Some(crate::support::TEST_TIMEOUT)).unwrap();
    challenge::answer(&socket).unwrap();
    let question = [b'0'; challenge::CHALLENGE_BYTES];
    let mut answer = [0; challenge::CHALLENGE_BYTES];
    socket.write_all(&question).unwrap();
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, question);
    socket
}

/// Reads a line; empty if the host closed the connection.
fn read_line(socket: &mut UnixStream) -> String {
    let mut line = String::new();
    // Nothing follows the line that is read, so nothing is lost with the buffer.
    if let Err(error) = BufReader::new(socket).read_line(&mut line) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    line
}

/// The longest of many calls that windows make in turn.
fn slowest_call(windows: &mut [Proxy]) -> Duration {
    let mut slowest = Duration::ZERO;
    for round in 0..200 {
        for window in &mut *windows {
            let start = Instant::now();
            assert_eq!(window.call_text("g", "echo", json!({"text": "x"})), "x", "round {round}");
            slowest = slowest.max(start.elapsed());
        }
    }
    slowest
}

fn call(id: u64, tool: &str, args: &Value) -> String {
    let params = json!({"name": tool, "arguments": args});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn a_session_that_floods_and_never_reads_delays_nobody() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut windows: Vec<Proxy> = (0..3).map(|_| user.window(&config)).collect();
    let pids: Vec<u32> = windows.iter_mut().map(|window| window.upstream_pid("g")).collect();
    let alone = slowest_call(&mut windows);
    let mut hostile = RawSession::attach(&user, &mut windows[0]);
    hostile.flood(|id| call(id, "big", &json!({"bytes": 200_000})));
    let beside = slowest_call(&mut windows);
    // The second is for a machine that has other things to do.
    assert!(beside < 10 * alone + Duration::from_secs(1), "{beside:?}, alone {alone:?}");
    // Its end with open requests delays nobody either.
    drop(hostile);
    for (window, pid) in windows.iter_mut().zip(pids) {
        assert_eq!(window.upstream_pid("g"), pid);
    }
}

#[test]
fn a_session_that_never_reads_is_ended() {
    let user = User::new();
    let mut window = user.window(&shared_config(&[]));
    let pid = window.upstream_pid("g");
    let mut hostile = RawSession::attach(&user, &mut window);
    // The host reads them before there is an answer. The first answer may wait, however large, and the second exceeds
    // what may wait beside it.
    let calls = [1, 2, 3].map(|id| call(id, "big", &json!({"bytes": 9_000_000})));
    hostile.write_line(&calls.join("\n"));
    hostile.wait_for_end_unread();
    assert_eq!(window.upstream_pid("g"), pid);
}

#[test]
fn a_server_that_asks_and_never_reads_is_ended_and_delays_nobody() {
    let user = User::new();
    let ping = json!({"jsonrpc": "2.0", "id": "x".repeat(100), "method": "ping"}).to_string();
    let hostile = shared(asking_server(user.home.path(), &ping, "never-reads"));
    let config = pure_config([("hostile", hostile), ("g", shared(scripted_upstream(&[])))]);
    let mut window = user.window(&config);
    window.upstream_pid("g");
    let host = user.host();
    let before = memory(host, "VmRSS");
    let call = window.send_call("hostile", "t", json!({}));
    let mut windows = [window];
    assert!(slowest_call(&mut windows) < Duration::from_secs(2));
    let line = windows[0].response(call).line;
    assert!(line.contains(REASON), "{line}");
    let grown = memory(host, "VmHWM") - before;
    assert!(grown < 32 << 20, "{grown}");
}

#[test]
fn lines_that_are_no_messages_end_their_session_only() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut window = user.window(&config);
    let pid = window.upstream_pid("g");
    for line in ["{", "[]", "{\"jsonrpc\":\"2.0\"}", "\u{0}\u{1}"] {
        let mut session = RawSession::attach(&user, &mut window);
        session.write_line(line);
        session.wait_for_end();
    }
    // A first line that is no request to attach.
    for line in ["", "{}", "null", "{\"server\":3}"] {
        let mut socket = connect(&user);
        socket.write_all(format!("{line}\n").as_bytes()).unwrap();
        let answer = read_line(&mut socket);
        assert!(answer.is_empty() || answer.contains("refused"), "{line:?}: {answer}");
    }
    assert_eq!(window.upstream_pid("g"), pid);
}

#[test]
fn a_session_cannot_send_what_only_the_host_or_another_session_may() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut window = user.window(&config);
    let pid = window.upstream_pid("g");
    let open = window.send_call("g", "late", json!({}));
    let mut session = RawSession::attach(&user, &mut window);
    // The ids of the host are small numbers, which are easy to guess.
    for id in 0..100 {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        session.write_line(&cancel.to_string());
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        session.write_line(&answer.to_string());
    }
    session.write_line(&call(1, "echo", &json!({"text": "x"})));
    assert!(session.read_line().contains("\"x\""));
    drop(session);
    assert_eq!(window.call_text("g", "echo", json!({"text": "x"})), "x");
    window.notify("notifications/cancelled", json!({"requestId": open}));
    window.assert_no_message();
    assert_eq!(window.upstream_pid("g"), pid);
}

#[test]
fn a_stopped_window_delays_nobody_and_gets_its_answers_when_it_goes_on() {
    let user = User::new();
    let record = InputRecord::new();
    let config = pure_config([("g", record.attached_to(shared(scripted_upstream(&[]))))]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let pid = a.upstream_pid("g");
    let mut open: Vec<u64> = (0..4).map(|_| a.send_call("g", "big", json!({"bytes": 200_000}))).collect();
    open.push(a.send_call("g", "sleep", json!({"ms": 321})));
    wait_until("the server has the calls", || {
        record.lines_of("tools/call").iter().any(|line| line.contains("321"))
    });
    a.send_signal(Signal::SIGSTOP);
    for _ in 0..200 {
        assert_eq!(b.call_text("g", "echo", json!({"text": "x"})), "x");
    }
    a.send_signal(Signal::SIGCONT);
    for id in open {
        let line = a.response(id).line;
        assert!(line.contains("slept") || line.len() > 200_000, "{line:.300}");
    }
    assert_eq!((a.upstream_pid("g"), b.upstream_pid("g")), (pid, pid));
}
