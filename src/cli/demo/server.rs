//! `dynamic-mcp __demo-server KIND`: a small MCP server that keeps what it is told in memory.
//!
//! Its tools are defined in the JSON files beside its parts, and every one of them works.

use crate::protocol::{HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, code};
use crate::wire::peer::{Incoming, Peer};
use crate::wire::{Raw, Reply, Request, error_object, raw, stdio};
use records::{Outcome, Record};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod calendar;
mod notes;
mod records;
mod schema;
mod tasks;

/// The variable that names a file for the process's id, which is there while the process runs.
pub const PID_FILE: &str = "DYNAMIC_MCP_DEMO_PID_FILE";

/// Bytes of a message.
const LIMIT: usize = 1 << 20;
/// What is left to write when stdin has ended.
const FLUSH: Duration = Duration::from_millis(200);

/// What stands behind the tools. `None`: there is no such tool.
trait Service {
    fn call(&mut self, tool: &str, args: Record) -> Option<Outcome>;
}

struct Server {
    kind: &'static str,
    tools: Vec<Value>,
    service: Box<dyn Service>,
}

/// Serves stdin and stdout until stdin ends.
pub async fn run(kind: &str, pid_file: Option<&str>) -> anyhow::Result<()> {
    let mut server = Server::new(kind)?;
    let (mut lines, output, writer) = stdio::open(LIMIT);
    let peer = Peer::new(output.clone());
    let writing = tokio::spawn(writer.run());
    let _pid_file = pid_file.map(PidFile::write).transpose()?;
    while let Some(incoming) = peer.receive(&mut lines).await {
        if let Incoming::Request(request) = incoming {
            peer.reply(&request.id, server.answer(&request));
        }
        output.ready().await;
    }
    output.close();
    // A reader that is gone needs no last words.
    drop(tokio::time::timeout(FLUSH, writing).await);
    Ok(())
}

impl Server {
    fn new(kind: &str) -> anyhow::Result<Self> {
        let (kind, tools, service): (_, _, Box<dyn Service>) = match kind {
            "notes" => ("notes", include_str!("server/notes.json"), Box::new(notes::Notes::new())),
            "tasks" => ("tasks", include_str!("server/tasks.json"), Box::new(tasks::Tasks::new())),
            "calendar" => {
                ("calendar", include_str!("server/calendar.json"), Box::new(calendar::Calendar::new()))
            }
            other => anyhow::bail!("there is no demo server {other:?}: notes, tasks or calendar"),
        };
        Ok(Self { kind, tools: serde_json::from_str(tools)?, service })
    }

    fn answer(&mut self, request: &Request) -> Reply {
        match request.method.as_str() {
            "initialize" => Ok(self.introduce(request.params.as_ref())),
            "ping" => Ok(Raw::from_static(b"{}")),
            "tools/list" => Ok(json!({ "tools": self.tools }).to_string().into()),
            "tools/call" => self.call(request.params.as_ref()),
            _ => Err(error_object(code::METHOD_NOT_FOUND, "method not found", None)),
        }
    }

    fn introduce(&self, params: Option<&Raw>) -> Raw {
        let asked = params.and_then(|params| raw::get_str(params, "protocolVersion"));
        let known = HANDSHAKE_REVISIONS.into_iter().find(|known| asked.as_deref() == Some(*known));
        json!({
            "protocolVersion": known.unwrap_or(LATEST_HANDSHAKE),
            "capabilities": { "tools": {} },
            "serverInfo": { "name": format!("demo-{}", self.kind), "version": env!("CARGO_PKG_VERSION") },
        })
        .to_string()
        .into()
    }

    /// An unknown tool is an error of the protocol, bad arguments are a result for the model.
    fn call(&mut self, params: Option<&Raw>) -> Reply {
        let bad = |what: String| error_object(code::INVALID_PARAMS, &what, None);
        let name = params.and_then(|params| raw::get_str(params, "name")).unwrap_or_default();
        let args = params.and_then(|params| raw::get(params, "arguments"));
        let args: Record = match args.map(|args| serde_json::from_slice(&args)).transpose() {
            Ok(args) => args.unwrap_or_default(),
            Err(_) => return Err(bad("arguments must be an object".to_owned())),
        };
        let unknown = || bad(format!("unknown tool: {name}"));
        let tool = self.tools.iter().find(|tool| tool["name"] == name).ok_or_else(unknown)?;
        let outcome = match schema::check(&tool["inputSchema"], &args) {
            Ok(()) => self.service.call(&name, args).ok_or_else(unknown)?,
            Err(problem) => Err(problem),
        };
        let (text, failed) = match outcome {
            Ok(value) => (value.to_string(), false),
            Err(problem) => (problem, true),
        };
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": failed }).to_string().into())
    }
}

/// Tells whoever started us, by way of a proxy, that we run.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &str) -> std::io::Result<Self> {
        std::fs::write(path, std::process::id().to_string())?;
        Ok(Self(Path::new(path).to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
