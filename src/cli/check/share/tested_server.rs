//! A server under test, and its processes, each of which is started by another client.

use super::traces::ProcessTraces;
use base::text::shorten;
use config::env::Env;
use config::{Features, GroupName, ServerConfig, StdioConfig};
use process::child::{ChildTransport, RunningChild};
use process::launch::Launch;
use process::server_log::ServerLog;
use process::warden::{StopTimeouts, Warden};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::body::Body;
use wire::lines::LineReader;
use wire::peer::{CallError, CallOptions, Incoming, Peer};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{LATEST_HANDSHAKE, code};
use wire::{Raw, Reply, error_object};

/// The clients that start the processes in turn: their names, and what they offer.
const CLIENTS: [(&str, &str); 5] = [
    ("dynamic-mcp check", r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#),
    ("claude-code", r#"{"roots":{}}"#),
    ("Visual Studio Code", r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#),
    ("cursor-vscode", "{}"),
    ("codex-mcp-client", r#"{"elicitation":{}}"#),
];
/// The limit for `initialize`, if the config sets none: launchers download first.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit for any other request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The lists, and the members that have their entries.
const LISTS: [(Method, &str); 4] = [
    (Method::ToolsList, "tools"),
    (Method::ResourcesList, "resources"),
    (Method::ResourceTemplatesList, "resourceTemplates"),
    (Method::PromptsList, "prompts"),
];
/// The most pages of a list.
const MAX_PAGES: usize = 100;
/// How many findings about one process wait to be read.
const MAX_HEARD: usize = 16;
/// How many characters of the end of stderr are shown.
const MAX_STDERR: usize = 200;

/// A server under test.
pub(super) struct TestedServer {
    pub(super) name: GroupName,
    /// Its entry, with the values of secrets.
    pub(super) config: Arc<ServerConfig>,
    pub(super) stdio: StdioConfig,
    /// The command that starts it.
    pub(super) launch: Launch,
    pub(super) env: Arc<Env>,
    pub(super) warden: Warden,
    pub(super) max_message_bytes: usize,
}

impl TestedServer {
    /// Starts a process of the server, in `dir` or where its entry says, and makes the handshake as the client `turn`.
    ///
    /// # Errors
    ///
    /// Says why there is no handshake. Completes "the server".
    pub(super) async fn start(&self, turn: usize, dir: Option<&Path>) -> Result<TestedProcess, String> {
        let cwd = dir.unwrap_or(&self.launch.cwd).to_owned();
        let launch = (Launch { cwd, ..self.launch.clone() }, None);
        let log = ServerLog::default();
        let child = ChildTransport::open(&self.warden, &self.env, &self.name, &self.stdio, launch, &log);
        let RunningChild { input, output, writer, handle } =
            child.await.map_err(|error| format!("does not start: {error}"))?;
        let (peer, deadlines) = Peer::new(output);
        peer.accept_batches();
        let (sender, heard) = mpsc::channel(MAX_HEARD);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(writer.run().await) });
        tasks.spawn(deadlines.run());
        tasks.spawn(listen(peer.clone(), LineReader::new(input, self.max_message_bytes), sender));
        let (client, capabilities) = CLIENTS[turn % CLIENTS.len()];
        let mut process = TestedProcess {
            client,
            peer,
            child: handle,
            traces: ProcessTraces::default(),
            heard,
            _tasks: tasks,
            hello: Value::Null,
        };
        let params = json!({
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": serde_json::from_str::<Value>(capabilities).unwrap_or_default(),
            "clientInfo": {"name": client, "version": env!("CARGO_PKG_VERSION")},
        });
        let limit = self.config.timeout.initialize.unwrap_or(INITIALIZE_TIMEOUT);
        let options = CallOptions { cancellable: false, ..CallOptions::within(limit) };
        let reply = process.peer.call(Method::Initialize.name(), Some(raw(&params)), options).await;
        process.hello = match reply {
            Ok(Ok(result)) => serde_json::from_slice(&result).unwrap_or_default(),
            Ok(Err(error)) => {
                return Err(format!("refuses the handshake: {}", String::from_utf8_lossy(&error)));
            }
            Err(error) => {
                let stderr = process.child.stderr_tail();
                let last = stderr
                    .lines()
                    .last()
                    .map(|line| format!("; its stderr ends with {}", shorten(line, MAX_STDERR)));
                return Err(format!("does not make the handshake: {error}{}", last.unwrap_or_default()));
            }
        };
        process.peer.notify(notification::INITIALIZED, None);
        Ok(process)
    }
}

/// A process of a server, after the handshake. It is ended when this is dropped.
pub(super) struct TestedProcess {
    /// The name of the client that started it.
    pub(super) client: &'static str,
    pub(super) peer: Arc<Peer>,
    child: ChildTransport,
    /// Its state after the handshake.
    pub(super) traces: ProcessTraces,
    /// What it did that a shared server must not do.
    heard: mpsc::Receiver<String>,
    /// They run as long as this lives.
    _tasks: JoinSet<()>,
    /// The result of `initialize`.
    hello: Value,
}

impl TestedProcess {
    /// Returns its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Returns the first thing that it asked its client, or told it about its lists.
    pub(super) fn heard(&mut self) -> Option<String> {
        self.heard.try_recv().ok()
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// There is none within `REQUEST_TIMEOUT`, or the process has ended.
    pub(super) async fn ask(&self, method: Method, params: &Value) -> Result<Reply, CallError> {
        self.peer.call(method.name(), Some(raw(params)), CallOptions::within(REQUEST_TIMEOUT)).await
    }

    /// Returns everything that a client can list, and the result of `initialize`.
    ///
    /// # Errors
    ///
    /// A list is not answered, is an error, or has too many pages. Completes "the server".
    pub(super) async fn lists(&self, features: Features) -> Result<Value, String> {
        let mut lists = json!({"initialize": self.hello});
        for (method, key) in LISTS {
            let (capability, is_wanted) = match method {
                Method::ToolsList => ("tools", features.tools),
                Method::PromptsList => ("prompts", features.prompts),
                _ => ("resources", features.resources),
            };
            if is_wanted && self.hello["capabilities"].get(capability).is_some() {
                lists[key] = self.list(method, key).await?;
            }
        }
        Ok(lists)
    }

    async fn list(&self, method: Method, key: &str) -> Result<Value, String> {
        let (mut all, mut params) = (Vec::new(), json!({}));
        for _ in 0..MAX_PAGES {
            let failed = |error: &str| format!("does not answer {}: {error}", method.name());
            let reply = self.ask(method, &params).await.map_err(|error| failed(&error.to_string()))?;
            let page: Value = match &reply {
                Ok(page) => serde_json::from_slice(page).map_err(|error| failed(&error.to_string()))?,
                // Servers say that they have resources and then list only their templates, or the reverse.
                Err(_) if method != Method::ToolsList => return Ok(Value::Null),
                Err(error) => return Err(failed(&String::from_utf8_lossy(error))),
            };
            all.extend(page[key].as_array().cloned().unwrap_or_default());
            match page["nextCursor"].as_str() {
                Some(next) => params = json!({"cursor": next}),
                None => return Ok(all.into()),
            }
        }
        Err(format!("has more than {MAX_PAGES} pages of {}", method.name()))
    }

    /// Ends the process, and waits for that.
    pub(super) async fn close(self) {
        self.peer.output().close();
        self.child.stop(StopTimeouts::ORDINARY).await;
    }
}

/// Returns params as they are sent.
pub(super) fn raw(params: &Value) -> Body {
    Raw::from(params.to_string()).into()
}

/// Reads what a process sends, and reports what it asks its client and tells it about its lists.
async fn listen(peer: Arc<Peer>, mut lines: LineReader, heard: mpsc::Sender<String>) {
    while let Some(incoming) = peer.receive(&mut lines).await {
        match incoming {
            Incoming::Request(request) if request.method.known() == Some(Method::Ping) => {
                peer.reply(&request.id, Ok(Raw::from_static(b"{}")));
            }
            Incoming::Request(request) => {
                let answer = error_object(code::METHOD_NOT_FOUND, "this is a test", None);
                peer.reply(&request.id, Err(answer));
                // Those that do not fit would say no more.
                heard.try_send(format!("it asks its client: {}", &*request.method)).ok();
            }
            Incoming::Notification { method, .. } if method.ends_with("list_changed") => {
                heard.try_send(format!("it sends {method}")).ok();
            }
            _ => {}
        }
    }
    peer.end();
}
