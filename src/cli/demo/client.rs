//! An MCP client, as far as the demo needs one: starts a server, shakes hands, asks.

use crate::protocol::{LATEST_HANDSHAKE, code};
use crate::wire::lines::LineReader;
use crate::wire::output::Output;
use crate::wire::peer::{CallOptions, Incoming, Peer};
use crate::wire::{Raw, error_object};
use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Bytes of a message.
const LIMIT: usize = 1 << 20;
/// For an answer. On a machine under load everything takes its time.
const ANSWER: Duration = Duration::from_secs(10);
/// For the process to end once its stdin has.
const END: Duration = Duration::from_secs(5);

pub struct Client {
    child: Child,
    peer: Arc<Peer>,
    started: Instant,
    reading: JoinHandle<()>,
}

/// What a tool answered.
pub struct Answer {
    pub text: String,
    pub structured: Value,
    pub is_error: bool,
    pub took: Duration,
}

impl Client {
    /// Starts `program` as clients do. What it writes to stderr goes to `log`.
    pub fn start<A: AsRef<OsStr>>(program: &Path, args: &[A], log: File) -> anyhow::Result<Self> {
        let started = Instant::now();
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        // What the user has set for their own instance would change what is shown.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("DYNAMIC_MCP_")) {
            command.env_remove(name);
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let (stdin, stdout) =
            child.stdin.take().zip(child.stdout.take()).context("a process without pipes")?;
        let (peer, reading) = connect(stdin, stdout);
        Ok(Self { child, peer, started, reading })
    }

    /// Shakes hands. Returns the server's answer and the time since the process was started.
    pub async fn initialize(&self) -> anyhow::Result<(Value, Duration)> {
        let params = json!({
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": {},
            "clientInfo": { "name": "dynamic-mcp demo", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = self.ask("initialize", params).await?;
        let took = self.started.elapsed();
        self.peer.notify("notifications/initialized", None);
        Ok((result, took))
    }

    /// All tools, and the time since the process was started.
    pub async fn tools(&self) -> anyhow::Result<(Vec<Value>, Duration)> {
        let mut result = self.ask("tools/list", json!({})).await?;
        match result["tools"].take() {
            Value::Array(tools) => Ok((tools, self.started.elapsed())),
            other => bail!("tools/list answered {other} in place of a list"),
        }
    }

    pub async fn call(&self, tool: &str, args: &Value) -> anyhow::Result<Answer> {
        let asked = Instant::now();
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": args })).await?;
        Ok(Answer {
            text: result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            structured: result["structuredContent"].clone(),
            is_error: result["isError"] == true,
            took: asked.elapsed(),
        })
    }

    async fn ask(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let reply =
            self.peer.call(method, Some(params.to_string().into()), CallOptions::within(ANSWER)).await;
        match reply.with_context(|| format!("{method} failed"))? {
            Ok(result) => {
                serde_json::from_slice(&result).with_context(|| format!("{method} answered no JSON"))
            }
            Err(error) => Err(anyhow!("{method} was refused: {}", String::from_utf8_lossy(&error))),
        }
    }

    /// Ends the server as clients do, by closing its stdin.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.peer.output().close();
        let status =
            timeout(END, self.child.wait()).await.context("the process did not end with its stdin")??;
        self.reading.abort();
        if status.success() { Ok(()) } else { bail!("the process ended with {status}") }
    }
}

/// A peer on the pipes of a process, read and written by tasks of their own.
fn connect(stdin: ChildStdin, stdout: ChildStdout) -> (Arc<Peer>, JoinHandle<()>) {
    let (output, writer) = Output::any(stdin);
    tokio::spawn(writer.run());
    let peer = Peer::new(output);
    let own = peer.clone();
    let reading = tokio::spawn(async move {
        let mut lines = LineReader::new(stdout, LIMIT);
        while let Some(incoming) = own.receive(&mut lines).await {
            answer(&own, incoming);
        }
        own.end();
    });
    (peer, reading)
}

/// A server may ask too; this client offers nothing but `ping`.
fn answer(peer: &Peer, incoming: Incoming) {
    if let Incoming::Request(request) = incoming {
        let reply = match request.method.as_str() {
            "ping" => Ok(Raw::from_static(b"{}")),
            _ => Err(error_object(code::METHOD_NOT_FOUND, "method not found", None)),
        };
        peer.reply(&request.id, reply);
    }
}
