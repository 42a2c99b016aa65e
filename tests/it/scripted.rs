//! The scripted upstream itself, without dynamic-mcp: the other tests rely on what these show.

use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{PipeReader, wait_for_child, write_all};

mod eras;
mod tasks;

/// The path of the built example.
pub(crate) fn program() -> PathBuf {
    example("scripted_upstream")
}

/// A built example.
pub(crate) fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let examples = deps.ancestors().nth(2).unwrap().join("examples");
    let program = examples.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{program:?} is missing: cargo build --examples");
    program
}

/// A running scripted upstream, which is killed when this is dropped.
pub(crate) struct ScriptedUpstream {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: PipeReader<ChildStdout>,
}

impl ScriptedUpstream {
    /// Starts it with `flags`.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = PipeReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// Writes a line to its stdin.
    pub(crate) fn send(&mut self, line: &str) {
        write_all(self.stdin.as_mut().unwrap(), format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads a line of its stdout. Empty at the end.
    pub(crate) fn read_line(&mut self) -> String {
        self.stdout.read_line().unwrap_or_default().trim_end().to_owned()
    }

    /// The next message, of whatever kind.
    fn next_message(&mut self) -> Value {
        serde_json::from_str(&self.read_line()).unwrap()
    }

    /// Sends a request and returns the next message.
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        self.next_message()
    }

    /// Calls a tool and returns its text.
    fn call_tool(&mut self, name: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Closes its stdin and waits for it to exit.
    fn exit_code(&mut self) -> Option<i32> {
        drop(self.stdin.take());
        wait_for_child(&mut self.child).code()
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn initialize_is_answered_and_eof_ends_it() {
    let mut server = ScriptedUpstream::start(&["--name", "x", "--instructions", "do"]);
    let result = &server.request("initialize", json!({"protocolVersion": "2024-11-05"}))["result"];
    assert_eq!(result["protocolVersion"], "2024-11-05");
    assert_eq!((&result["serverInfo"]["name"], &result["instructions"]), (&json!("x"), &json!("do")));
    assert_eq!(server.request("nonsense", json!({}))["error"]["code"], -32601);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn bodies_keep_their_bytes() {
    let mut server = ScriptedUpstream::start(&[]);
    server.send(r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"args","arguments":{ "x":1e400,"y":-0.0 }}}"#);
    let line = server.read_line();
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":"a\u0062","#), "{line}");
    assert!(line.contains(r#""text":"{ \"x\":1e400,\"y\":-0.0 }""#), "{line}");
    server.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"weird"}}"#);
    assert!(
        server.read_line().contains(r#""minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"#)
    );
    server.send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rpc_error","arguments":{"code":123456789012,"data":1.10}}}"#);
    assert!(
        server.read_line().ends_with(r#""error":{"code":123456789012,"message":"an error","data":1.10}}"#)
    );
}

#[test]
fn pagination_reaches_every_tool() {
    let mut server = ScriptedUpstream::start(&["--tools", "30", "--page", "7", "--empty-cursor"]);
    let (mut cursor, mut names) = (json!(null), Vec::new());
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let answer = server.request("tools/list", params);
        let tools = answer["result"]["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = answer["result"]["nextCursor"].clone();
        assert_eq!(names.len() == 7, cursor == "", "only the second page has the empty cursor");
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((names.len(), &*names[0], &*names[50]), (51, "echo", "generated_29"));
}

#[test]
fn answers_come_out_of_order_and_requests_and_progress_are_sent() {
    let mut server = ScriptedUpstream::start(&[]);
    let call = |id: u32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    server.send(&call(1, "late", json!({})));
    server.send(&call(2, "progress", json!({"n": 2})));
    assert_eq!(server.next_message()["params"]["progress"], 1);
    assert_eq!(server.next_message()["params"]["progressToken"], "t");
    assert_eq!(server.next_message()["id"], 2);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(server.next_message()["id"], 1);
    server.send(&call(3, "ask", json!({"method": "roots/list"})));
    let request = server.next_message();
    assert_eq!((&request["method"], &request["id"]), (&json!("roots/list"), &json!("ask-1")));
    server.send(r#"{"jsonrpc":"2.0","id":"ask-1","result":{"roots":[]}}"#);
    let text = server.next_message()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":"ask-1","result":{"roots":[]}}"#);
}

#[test]
fn flags_make_it_misbehave() {
    let mut server = ScriptedUpstream::start(&["--garbage", "--bom", "--early", "--exit-after", "1"]);
    server.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#);
    server.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}"#);
    let output = server.stdout.read_to_end();
    let is_message = |line: &&[u8]| line.starts_with(br#"{"jsonrpc""#) && line.ends_with(b"\r");
    let lines = output.split(|byte| *byte == b'\n').collect::<Vec<_>>();
    assert_eq!((lines.iter().filter(|line| is_message(line)).count(), lines.len()), (6, 6 * 11 + 1));
    assert!(output.starts_with(b"\xef\xbb\xbf"));
    assert_eq!(server.exit_code(), Some(0));

    let mut server = ScriptedUpstream::start(&["--crash-at-start", "no TOKEN"]);
    let stderr = PipeReader::new(server.child.stderr.take().unwrap()).read_to_end();
    assert_eq!((stderr.trim_ascii_end(), server.exit_code()), (&b"no TOKEN"[..], Some(3)));

    let mut server =
        ScriptedUpstream::start(&["--reject-versions-but", "2025-03-26", "--list-changed-on-call"]);
    let error = &server.request("initialize", json!({"protocolVersion": "2025-11-25"}))["error"];
    assert_eq!(error["data"]["supported"], json!(["2025-03-26"]));
    assert_eq!(
        server.request("tools/call", json!({"name": "cwd"}))["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(server.next_message()["id"], 1);
    server.send(
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"crash","arguments":{"code":7}}}"#,
    );
    assert_eq!(server.exit_code(), Some(7));
}

#[cfg(unix)]
#[test]
fn sigterm_and_eof_are_ignored_with_their_flags() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let mut server =
        ScriptedUpstream::start(&["--ignore-term", "--ignore-eof", "--grandchild", "--live", "100"]);
    let answer = server.request("tools/call", json!({"name": "pid"}));
    let pid = |key: &str| Pid::from_raw(answer["result"]["structuredContent"][key].as_i64().unwrap() as i32);
    assert_eq!(pid("pid").as_raw() as u32, server.child.id());
    kill(pid("pid"), Signal::SIGTERM).unwrap();
    assert_eq!(server.call_tool("echo", json!({"text": "still here"})), "still here");
    drop(server.stdin.take());
    assert_eq!(server.child.try_wait().unwrap(), None);
    kill(pid("grandchild"), Signal::SIGKILL).unwrap();
}

#[test]
fn resources_and_prompts_are_served_with_their_flags() {
    let mut server = ScriptedUpstream::start(&["--resources", "--prompts", "--no-newline-flush"]);
    assert_eq!(server.request("resources/read", json!({"uri": "x:"}))["error"]["code"], -32002);
    let read = server.request("resources/read", json!({"uri": "mem://one"}));
    assert_eq!(read["result"]["contents"][0]["uri"], "mem://one");
    assert_eq!(server.request("prompts/list", json!({}))["result"]["prompts"][0]["name"], "greet");
    assert_eq!(server.call_tool("big", json!({"bytes": 100_000})).len(), 100_000);
    let rows =
        server.request("tools/call", json!({"name": "big", "arguments": {"bytes": 6400, "kind": "rows"}}));
    assert_eq!(rows["result"]["structuredContent"]["rows"].as_array().unwrap().len(), 100);
}
