//! A client of a server on stdin and stdout. It blocks, reads one line at a time and parses no JSON.

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
    /// Starts a server: a program and its arguments.
    pub(crate) fn start(command: &[String]) -> Self {
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

    /// Sends a call without waiting for its result.
    pub(crate) fn send_call(&mut self, group: Option<&str>, tool: &str) {
        self.send_request("tools/call", &call_params(group, tool));
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

fn call_params(group: Option<&str>, tool: &str) -> String {
    match group {
        Some(group) => format!(
            r#"{{"name":"call_dynamic_tool","arguments":{{"group":"{group}","name":"{tool}","args":{ARGUMENTS}}}}}"#
        ),
        None => format!(r#"{{"name":"{tool}","arguments":{ARGUMENTS}}}"#),
    }
}
