//! `"launcher": "direct"` with the real `npx` and `uvx`: the second start is without them, and the server's process is
//! the same in all that it can see.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::workspace::{Workspace, path_string};

/// The deadline for an answer, on a loaded machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A process, as it sees itself.
#[derive(Debug, PartialEq)]
struct SeenProcess {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    variables: BTreeMap<String, String>,
}

impl SeenProcess {
    /// `None` if it has ended.
    fn new(pid: i32) -> Option<Self> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let parts = |file: &str| -> Option<Vec<String>> {
            let text = String::from_utf8(fs::read(proc.join(file)).ok()?).unwrap();
            Some(text.split_terminator('\0').map(str::to_owned).collect())
        };
        let variables = parts("environ")?;
        let variables = variables.iter().filter_map(|variable| variable.split_once('='));
        // It names the process that started the server.
        let variables = variables.filter(|(name, _)| *name != "DYNAMIC_MCP_OWNER");
        Some(Self {
            program: fs::read_link(proc.join("exe")).ok()?,
            arguments: parts("cmdline")?,
            directory: fs::read_link(proc.join("cwd")).ok()?,
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        })
    }

    /// Returns whether it is dynamic-mcp or one of its helpers.
    fn is_ours(&self) -> bool {
        self.program == Path::new(env!("CARGO_BIN_EXE_dynamic-mcp"))
    }
}

/// dynamic-mcp, for a client that calls one tool.
struct Session {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Session {
    fn start(workspace: &Workspace, servers: &Value) -> Self {
        let command = workspace.proxy_for_servers(servers);
        let mut child = workspace
            .command(&command[0])
            .args(&command[1..])
            .env("npm_config_cache", workspace.install_dir.join("npm"))
            .env("npm_config_offline", "true")
            .env("UV_CACHE_DIR", workspace.install_dir.join("uv"))
            .env("UV_OFFLINE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let stdin = child.stdin.take().unwrap();
        let mut session = Self { child, stdin, lines };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                           "clientInfo": {"name": "test", "version": "1"}});
        session.request(1, "initialize", &hello);
        writeln!(session.stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        session
    }

    fn request(&mut self, id: u32, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let line = self.lines.recv_timeout(ANSWER_TIMEOUT).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    fn end(mut self) {
        drop(self.stdin);
        while self.lines.recv_timeout(ANSWER_TIMEOUT).is_ok() {}
        assert!(self.child.wait().unwrap().success());
    }
}

/// Starts the server, calls its tool, and returns the processes of the server and its launcher.
fn start(workspace: &Workspace, entry: &Value, call: &Value, expected: &str) -> Vec<SeenProcess> {
    let mut session = Session::start(workspace, &json!({ "g": entry }));
    let result = session.request(2, "tools/call", &json!({"name": "call_dynamic_tool", "arguments": call}));
    assert!(result.to_string().contains(expected), "{result}");
    let seen = workspace.processes().into_iter().filter_map(|(pid, _)| SeenProcess::new(pid));
    let seen = seen.filter(|process| !process.is_ours()).collect();
    session.end();
    workspace.assert_no_process_left();
    seen
}

/// Asserts that the server is started without its launcher as soon as the launcher has shown how.
fn check(workspace: &Workspace, launcher: &str, arguments: &[&str], call: &Value, expected: &str) {
    let entry = json!({
        "command": launcher, "args": arguments, "launcher": "direct", "lazy_startup": "pure", "share": "client",
    });
    let through_launcher = start(workspace, &entry, call, expected);
    assert!(through_launcher.len() > 1, "{launcher} is not there: {through_launcher:?}");
    for _ in 0..2 {
        let without = start(workspace, &entry, call, expected);
        let [server] = &*without else { panic!("not the server alone: {without:?}") };
        assert!(through_launcher.contains(server), "{server:?} is not among {through_launcher:?}");
    }
}

#[test]
fn a_server_of_npx_runs_without_it() {
    let Some(workspace) = Workspace::new() else { return };
    let call = json!({"group": "g", "tool": "read_graph", "args": {}});
    // Not one of the installed packages, which npx would take from `node_modules`.
    let arguments = ["-y", "@modelcontextprotocol/server-memory@2026.8.31"];
    check(&workspace, "npx", &arguments, &call, "relations");
}

#[test]
fn a_server_of_uvx_runs_without_it() {
    let Some(workspace) = Workspace::new() else { return };
    let args = json!({"source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": "UTC"});
    let call = json!({"group": "g", "tool": "convert_time", "args": args});
    let python = path_string(&workspace.install_dir.join("python2/bin/python"));
    let arguments = ["-q", "--python", &python, "--from", "mcp-server-time==2026.10.19", "mcp-server-time"];
    check(&workspace, "uvx", &arguments, &call, "03:30:00+00:00");
}
