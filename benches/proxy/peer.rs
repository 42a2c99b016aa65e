//! A client of a server on stdin and stdout: blocking, one line at a time, no JSON parser.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The arguments of every call: about 100 bytes.
const ARGUMENTS: &str = r#"{"text":"a line of text of the length that arguments of calls to tools usually have, one hundred bytes"}"#;

pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
    next_id: u64,
}

impl Peer {
    pub(crate) fn start(command: &[String]) -> Self {
        let mut command_line = Command::new(&command[0]);
        command_line.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command_line.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        Self { child, stdin, stdout, line: Vec::new(), next_id: 0 }
    }

    pub(crate) fn initialize(&mut self) {
        let client = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
        self.ask("initialize", client);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    pub(crate) fn list_tools(&mut self) {
        self.ask("tools/list", "{}");
    }

    /// A tool of the server itself, or of the `group` behind it.
    pub(crate) fn call(&mut self, group: Option<&str>, tool: &str) -> usize {
        self.ask("tools/call", &call_params(group, tool))
    }

    pub(crate) fn send_call(&mut self, group: Option<&str>, tool: &str) {
        self.request("tools/call", &call_params(group, tool));
    }

    /// The length of the next message, which must be a result.
    pub(crate) fn receive(&mut self) -> usize {
        self.line.clear();
        let length = self.stdout.read_until(b'\n', &mut self.line).unwrap();
        let head = String::from_utf8_lossy(&self.line[..length.min(400)]);
        assert!(head.contains("\"result\":") && !head.contains("\"isError\":true"), "not a result: {head}");
        length
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn ask(&mut self, method: &str, params: &str) -> usize {
        self.request(method, params);
        self.receive()
    }

    fn request(&mut self, method: &str, params: &str) {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }

    fn send(&mut self, message: &str) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

impl Drop for Peer {
    /// As clients do: stdin is closed, and the server ends.
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
