//! The MCP client of the commands: of an instance in this process (`embedded`), or of a process (`program_client`).

use anyhow::Context;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use wire::lines::LineReader;
use wire::output::Output;
use wire::peer::{CallOptions, Incoming, Peer};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{LATEST_HANDSHAKE, code};
use wire::{Raw, Reply, Request, error_object, raw};

/// Answers a request of the server to its client, but for `ping`. `None`: the client has no such method.
pub type QuestionHandler = Arc<dyn Fn(Request) -> BoxFuture<'static, Option<Reply>> + Send + Sync>;

/// A connection to a server. Dropping it closes the connection.
pub struct McpClient {
    peer: Arc<Peer>,
    /// How long a request may take.
    timeout: Duration,
    /// The reader, the writer and the deadlines.
    _tasks: JoinSet<()>,
}

impl McpClient {
    /// Opens a connection on two streams of lines. `limit`: the longest message that is received, in bytes.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        limit: usize,
        timeout: Duration,
        answer: QuestionHandler,
    ) -> Self {
        let (output, writer) = Output::any(output);
        let (peer, deadlines) = Peer::new(output);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(writer.run().await) });
        tasks.spawn(deadlines.run());
        tasks.spawn(answer_questions(peer.clone(), LineReader::new(Box::new(input), limit), answer));
        Self { peer, timeout, _tasks: tasks }
    }

    /// Makes the handshake as the client `name` of our version, and returns the result of `initialize`.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub async fn initialize(&self, name: &str, capabilities: Value) -> anyhow::Result<Raw> {
        let params = json!({
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": capabilities,
            "clientInfo": { "name": name, "version": env!("CARGO_PKG_VERSION") },
        });
        let result = self.request(Method::Initialize, &params.to_string().into()).await?;
        self.peer.notify(notification::INITIALIZED, None);
        Ok(result)
    }

    /// Sends a request and returns its result, as the bytes that came.
    ///
    /// # Errors
    ///
    /// Fails with the message of a JSON-RPC error, if the server has ended, or if it does not answer in time.
    pub async fn request(&self, method: Method, params: &Raw) -> anyhow::Result<Raw> {
        let options = CallOptions::within(self.timeout);
        let reply = self.peer.call(method.name(), Some(params.clone()), options).await;
        let reply = reply.with_context(|| format!("{} was not answered", method.name()))?;
        reply.map_err(|error| {
            let message = raw::get_str(&error, "message");
            anyhow::Error::msg(message.unwrap_or_else(|| String::from_utf8_lossy(&error).into_owned()))
        })
    }

    /// Calls a tool. `arguments` is a JSON object.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request). A result with `isError` is no error.
    pub async fn call_tool(&self, tool: &str, arguments: &[u8]) -> anyhow::Result<Raw> {
        let params = raw::set(&json!({ "name": tool }).to_string().into(), "arguments", arguments);
        self.request(Method::ToolsCall, &params).await
    }

    /// Returns the definitions of the tools on the first page of the list.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), and if the list is not one of tools.
    pub async fn list_tools(&self) -> anyhow::Result<Vec<Value>> {
        let result = self.request(Method::ToolsList, &Raw::from_static(b"{}")).await?;
        let mut result: Value = serde_json::from_slice(&result)?;
        serde_json::from_value(result["tools"].take()).context("tools/list was answered without tools")
    }

    /// Closes the connection, as clients do.
    pub fn close(&self) {
        self.peer.output().close();
    }
}

/// Reads what the server sends, and answers what it asks.
async fn answer_questions(peer: Arc<Peer>, mut lines: LineReader, answer: QuestionHandler) {
    // Beside the reader, so that answers to our own requests are still read.
    let mut asking = JoinSet::new();
    while let Some(incoming) = peer.receive(&mut lines).await {
        if let Incoming::Request(request) = incoming {
            let (peer, answer) = (peer.clone(), answer.clone());
            asking.spawn(async move {
                let id = request.id.clone();
                let reply = match request.method.known() {
                    Some(Method::Ping) => Some(Ok(Raw::from_static(b"{}"))),
                    _ => answer(request).await,
                };
                let not_found = || Err(error_object(code::METHOD_NOT_FOUND, "method not found", None));
                peer.reply(&id, reply.unwrap_or_else(not_found));
            });
        }
    }
    peer.end();
}
