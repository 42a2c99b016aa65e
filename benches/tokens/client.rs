//! A client of the program, which runs with a config of its own.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What `initialize` tells the model.
    pub(crate) instructions: String,
    _dir: TempDir,
}

impl Client {
    /// Starts the program with `servers`, which are processes of this bench, and waits until it knows their tools.
    pub(crate) fn start(servers: &[(String, Value)], settings: Value) -> Self {
        let dir = TempDir::new().unwrap();
        let this = std::env::current_exe().unwrap();
        let entries = servers.iter().map(|(name, entry)| {
            let mut entry = entry.clone();
            entry["command"] = json!(this);
            entry["args"] = json!(["--upstream", name]);
            (name.clone(), entry)
        });
        let config =
            json!({ "mcpServers": entries.collect::<serde_json::Map<_, _>>(), "settings": settings });
        let file = dir.path().join("servers.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"))
            .args(["--no-cache", "--config"])
            .arg(file)
            .env_clear()
            .env("HOME", dir.path())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, stdin, stdout, instructions: String::new(), _dir: dir };
        let info = json!({ "name": "bench", "version": "1" });
        let answer = client.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }),
        );
        answer["instructions"].as_str().unwrap().clone_into(&mut client.instructions);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        while client.call("get_status", &json!({}))["structuredContent"]["status"] != "ready" {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        client
    }

    /// The tools of the program's `tools/list`.
    pub(crate) fn list_tools(&mut self) -> Vec<Value> {
        self.request("tools/list", json!({}))["tools"].as_array().unwrap().clone()
    }

    /// The text that one of the program's own tools answers with.
    pub(crate) fn call_for_text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the program has ended");
            let mut message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == 1 {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].take();
            }
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        drop(self.child.wait());
    }
}
