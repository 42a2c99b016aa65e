//! A client of a server on stdin and stdout. It blocks, reads one line at a time and parses no JSON.

use super::process;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The arguments of every call: about 100 bytes.
const ARGUMENTS: &str = r#"{"text":"a line of text of the length that arguments of calls to tools usually have, one hundred bytes"}"#;

/// A server process and the connection to it.
pub(crate) struct BenchClient {
    child: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    last_id: u64,
}

impl BenchClient {
    /// Starts a server: a program and its arguments. If `DYNAMIC_MCP_BENCH_CORE` names a core, the server runs on it, and
    /// so does everything that it starts.
    pub(crate) fn start(command: &[String]) -> Self {
        let command = process::on_bench_core(command);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        Self { child, stdin, stdout, line: Vec::new(), last_id: 0 }
    }

    /// Performs the handshake.
    pub(crate) fn initialize(&mut self) {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
        self.request("initialize", params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Requests the list of tools.
    pub(crate) fn list_tools(&mut self) {
        self.request("tools/list", "{}");
    }

    /// Calls a tool: of the server itself, or through dynamic-mcp of the server of `group`.
    pub(crate) fn call(&mut self, group: Option<&str>, tool: &str) {
        self.request("tools/call", &call_params(group, tool));
    }

    /// Makes a call whose line is ready.
    pub(crate) fn call_with(&mut self, line: &mut CallLine) {
        assert!(self.try_call_with(line), "not a result: {}", String::from_utf8_lossy(self.head()));
    }

    #[allow(dead_code, reason = "the bench of shared servers uses it")]
    /// Sends a call and does not wait for its answer.
    pub(crate) fn send_call(&mut self, group: Option<&str>, tool: &str) {
        self.send_request("tools/call", &call_params(group, tool));
    }

    /// Makes a call whose line is ready. Returns whether the answer is a result without an error.
    pub(crate) fn try_call_with(&mut self, line: &mut CallLine) -> bool {
        self.last_id += 1;
        self.stdin.as_mut().unwrap().write_all(line.with_id(self.last_id)).unwrap();
        self.receive()
    }

    /// Makes calls, `depth` of them at a time. A thread of its own sends them, so that neither side waits for the other.
    pub(crate) fn calls_in_flight(&mut self, line: &mut CallLine, calls: usize, depth: usize) {
        let (permits, permitted) = std::sync::mpsc::sync_channel(depth);
        (0..depth).for_each(|_| permits.send(()).unwrap());
        let mut stdin = self.stdin.take().unwrap();
        let first = self.last_id + 1;
        self.last_id += calls as u64;
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                for id in first..first + calls as u64 {
                    permitted.recv().unwrap();
                    stdin.write_all(line.with_id(id)).unwrap();
                }
                stdin
            });
            for _ in 0..calls {
                assert!(self.receive(), "not a result: {}", String::from_utf8_lossy(self.head()));
                // At the end, nobody needs them any more.
                let _unused = permits.try_send(());
            }
            self.stdin = Some(sending.join().unwrap());
        });
    }

    /// Waits for the next response. Returns whether it is a result without an error.
    fn receive(&mut self) -> bool {
        loop {
            self.line.clear();
            self.stdout.read_until(b'\n', &mut self.line).unwrap();
            let head = self.head();
            let has = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
            // Other proxies also send notifications.
            if !has(b"\"method\":\"notifications/") {
                return has(b"\"result\":") && !has(b"\"isError\":true");
            }
        }
    }

    fn head(&self) -> &[u8] {
        &self.line[..self.line.len().min(400)]
    }

    /// Waits for the next message, which must be a result.
    pub(crate) fn receive_result(&mut self) {
        self.line.clear();
        let length = self.stdout.read_until(b'\n', &mut self.line).unwrap();
        let head = String::from_utf8_lossy(&self.line[..length.min(400)]);
        assert!(head.contains("\"result\":") && !head.contains("\"isError\":true"), "not a result: {head}");
    }

    /// The process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn request(&mut self, method: &str, params: &str) {
        self.send_request(method, params);
        self.receive_result();
    }

    fn send_request(&mut self, method: &str, params: &str) {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }

    fn send(&mut self, message: &str) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

impl Drop for BenchClient {
    /// Closes stdin, as clients do, and waits until the server has exited.
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _status = self.child.wait();
    }
}

/// The line of a call. Only its id differs from call to call.
pub(crate) struct CallLine(Vec<u8>);

impl CallLine {
    const BEFORE_ID: &str = r#"{"jsonrpc":"2.0","id":"#;

    pub(crate) fn new(params: &str) -> Self {
        let line =
            format!("{}{:09},\"method\":\"tools/call\",\"params\":{params}}}\n", Self::BEFORE_ID, FIRST_ID);
        Self(line.into_bytes())
    }

    fn with_id(&mut self, id: u64) -> &[u8] {
        let digits = (FIRST_ID + id).to_string();
        self.0[Self::BEFORE_ID.len()..][..digits.len()].copy_from_slice(digits.as_bytes());
        &self.0
    }
}

/// All ids of calls have as many digits as this one.
const FIRST_ID: u64 = 100_000_000;

fn call_params(group: Option<&str>, tool: &str) -> String {
    match group {
        Some(group) => format!(
            r#"{{"name":"call_dynamic_tool","arguments":{{"group":"{group}","name":"{tool}","args":{ARGUMENTS}}}}}"#
        ),
        None => format!(r#"{{"name":"{tool}","arguments":{ARGUMENTS}}}"#),
    }
}
