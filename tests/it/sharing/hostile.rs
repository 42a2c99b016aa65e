//! What a session can do to the others of its server: nothing.

use super::*;
use dynamic_mcp::transport::shared::attach::{AttachRequest, ServerIdentity};
use dynamic_mcp::transport::warden::raise_nofile;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::time::Instant;

/// A client of the host that is no instance of the program.
struct RawSession(UnixStream);

impl RawSession {
    /// Attaches to the server that `window` uses as `g`.
    fn attach(user: &User, window: &mut Proxy) -> Self {
        let env: BTreeMap<String, String> =
            serde_json::from_str(&window.call_text("g", "env", json!({}))).unwrap();
        let server = ServerIdentity {
            program: crate::support::scripted_upstream_program().to_str().unwrap().to_owned(),
            args: Vec::new(),
            env: env.into_iter().filter(|(name, _)| name != "DYNAMIC_MCP_OWNER").collect(),
            cwd: user.home.path().to_str().unwrap().to_owned(),
            max_message_bytes: 32 << 20,
        };
        let request = AttachRequest { server, nofile: raise_nofile() };
        let mut session = Self::connect(user);
        session.write_line(&serde_json::to_string(&request).unwrap());
        let pid = window.upstream_pid("g");
        assert_eq!(session.read_line(), format!("{{\"attached\":{{\"pid\":{pid}}}}}\n"));
        session
    }

    fn connect(user: &User) -> Self {
        let files = fs::read_dir(user.host_dir()).unwrap().flatten().map(|file| file.path());
        let path =
            files.into_iter().find(|path| path.extension().is_some_and(|name| name == "sock")).unwrap();
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(crate::support::TEST_TIMEOUT)).unwrap();
        Self(socket)
    }

    fn write_line(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        // Nothing follows the line that is read, so nothing is lost with the buffer.
        if let Err(error) = BufReader::new(&self.0).read_line(&mut line) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        line
    }

    /// Sends requests until the socket takes no more, and reads nothing.
    fn flood(&mut self, request: impl Fn(u64) -> String) {
        self.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        for id in 1..5000 {
            match self.0.write_all(format!("{}\n", request(id)).as_bytes()) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    return;
                }
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
                    return;
                }
            }
        }
    }

    /// Whether the host has ended the session. Drops what it has sent.
    fn is_ended(&mut self) -> bool {
        let mut sink = vec![0; 1 << 20];
        loop {
            match self.0.read(&mut sink) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}

fn call(id: u64, tool: &str, args: &Value) -> String {
    let params = json!({"name": tool, "arguments": args});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn a_session_that_floods_and_never_reads_delays_nobody_and_is_ended() {
    let user = User::new();
    let config = shared_config(&[]);
    let mut windows: Vec<Proxy> = (0..3).map(|_| user.window(&config)).collect();
    let pids: Vec<u32> = windows.iter_mut().map(|window| window.upstream_pid("g")).collect();
    let mut hostile = RawSession::attach(&user, &mut windows[0]);
    hostile.flood(|id| call(id, "big", &json!({"bytes": 200_000})));
    let mut slowest = Duration::ZERO;
    for round in 0..200 {
        for window in &mut windows {
            let start = Instant::now();
            assert_eq!(window.call_text("g", "echo", json!({"text": "x"})), "x", "round {round}");
            slowest = slowest.max(start.elapsed());
        }
    }
    // Far below the second after which a window would leave.
    assert!(slowest < Duration::from_millis(900), "{slowest:?}");
    assert!(hostile.is_ended());
    for (window, pid) in windows.iter_mut().zip(pids) {
        assert_eq!(window.upstream_pid("g"), pid);
    }
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
        assert!(session.is_ended(), "{line:?}");
    }
    // A first line that is no request to attach.
    for line in ["", "{}", "null", "{\"server\":3}"] {
        let mut session = RawSession::connect(&user);
        session.write_line(line);
        // For the empty line. The session may be over already.
        let _gone = session.0.write_all(b"{}\n");
        let answer = session.read_line();
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
