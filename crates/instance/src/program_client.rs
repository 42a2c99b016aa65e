//! An MCP client of this program, for commands: it starts a server, sends one request at a time and waits for the answer.

use anyhow::{Context, bail, ensure};
use process::launch::OWN_VAR_PREFIX;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use wire::protocol::LATEST_HANDSHAKE;

/// How long to wait for an answer, and for a process to exit. The machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A running server and the connection to it.
pub struct ProgramClient {
    /// The server's process.
    child: Child,
    /// The server's stdin. `None` once the connection is closed.
    stdin: Option<ChildStdin>,
    /// The lines of the server's stdout.
    stdout: Lines<BufReader<ChildStdout>>,
    /// The id of the last request.
    last_id: u64,
}

impl ProgramClient {
    /// Starts this program with `args`. Its stderr is ours. It gets our environment, but for the variables of our own
    /// options. `dirs` are variables of directories, such as `XDG_STATE_HOME` for what it remembers.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn start(args: &[&OsStr], dirs: &[(&str, &Path)]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.envs(dirs.iter().copied());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // The user's own settings would change what the demo shows.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(OWN_VAR_PREFIX) {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().context("cannot start this program once more")?;
        let stdout = child.stdout.take().context("a process without stdout")?;
        Ok(Self { stdin: child.stdin.take(), stdout: BufReader::new(stdout).lines(), child, last_id: 0 })
    }

    /// Performs the handshake and returns the result of `initialize`.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended, answers with an error, or does not answer within `TIMEOUT`.
    pub async fn initialize(&mut self) -> anyhow::Result<Value> {
        let client = json!({ "name": "dynamic-mcp demo", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": LATEST_HANDSHAKE, "capabilities": {}, "clientInfo": client });
        let result = self.request("initialize", &params).await?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(serde_json::from_str(&result)?)
    }

    /// Returns the definitions of the tools on the first page of the list.
    ///
    /// # Errors
    ///
    /// As [`initialize`](Self::initialize).
    pub async fn list_tools(&mut self) -> anyhow::Result<Vec<Value>> {
        let mut result: Value = serde_json::from_str(&self.request("tools/list", &json!({})).await?)?;
        Ok(serde_json::from_value(result["tools"].take())?)
    }

    /// Calls a tool and returns the result as the bytes that came.
    ///
    /// # Errors
    ///
    /// As [`initialize`](Self::initialize). A result with `isError` is no error.
    pub async fn call_tool(&mut self, name: &str, args: &Value) -> anyhow::Result<String> {
        self.request("tools/call", &json!({ "name": name, "arguments": args })).await
    }

    /// Returns the pid of the server.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Closes the server's stdin, as clients do, and waits until its process has exited.
    ///
    /// # Errors
    ///
    /// Fails if it does not exit within `TIMEOUT`, or not with success.
    pub async fn shut_down(&mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        let status = timeout(TIMEOUT, self.child.wait()).await.context("the process did not exit")??;
        ensure!(status.success(), "the process ended with {status}");
        Ok(())
    }

    /// Sends a request and returns its result as it came.
    ///
    /// # Errors
    ///
    /// As [`initialize`](Self::initialize).
    async fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<String> {
        self.last_id += 1;
        let id = self.last_id.to_string();
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }))
            .await?;
        let answer = async {
            while let Some(line) = self.stdout.next_line().await? {
                let message: HashMap<&str, &RawValue> = serde_json::from_str(&line)?;
                // Everything else is a notification.
                if message.get("id").is_some_and(|answered| answered.get() == id) {
                    let result = message.get("result").with_context(|| format!("{method} failed: {line}"))?;
                    return Ok(result.get().to_owned());
                }
            }
            bail!("the process ended before it answered {method}")
        };
        timeout(TIMEOUT, answer).await.with_context(|| format!("{method} was not answered"))?
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("the connection is closed")?;
        let sent = stdin.write_all(format!("{message}\n").as_bytes()).await;
        ensure!(sent.is_ok(), "the process reads no requests");
        Ok(())
    }
}
