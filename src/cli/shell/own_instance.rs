//! An instance of our own in this process, and the MCP client that uses it.
//!
//! Client and session are connected by two pipes in memory. They speak as they would on stdio, so that nothing depends
//! on who asks. The client's own task answers what the session asks: forms go to the person at the terminal.

use super::forms::Forms;
use crate::cache::Cache;
use crate::cli::Cli;
use crate::cli::cache::cache_dir;
use crate::cli::nesting::Nesting;
use crate::cli::paths::config_files;
use crate::cli::terminal::{self, ProgressLine};
use crate::cli::wiring::InstanceParts;
use crate::config::Config;
use crate::config::vars::Env;
use crate::front::session::ClientSession;
use crate::front::session::options::SessionOptions;
use crate::groups::GroupManager;
use crate::groups::startup::Startup;
use crate::transport::launch::{ANCESTORS_VAR, ProcessEnv};
use crate::transport::remote::credentials::LoginService;
use anyhow::{Context, bail};
use base::text::name;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{DuplexStream, duplex};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use wire::lines::{Input, LineReader};
use wire::output::Output;
use wire::peer::{CallOptions, Incoming, Peer};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{LATEST_HANDSHAKE, code};
use wire::{Raw, Reply, Request, error_object, raw};

/// The capacity of a pipe in bytes.
const PIPE_CAPACITY: usize = 64 << 10;
/// How long a request may take. The session ends every request earlier, at the limits of the config.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// How long discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// How often discovery is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the session may take to end. It limits itself to less.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// An instance of our own, and its client.
pub(in crate::cli) struct OwnInstance {
    /// The groups.
    pub(in crate::cli) groups: Arc<GroupManager>,
    /// The client's end of the connection.
    peer: Arc<Peer>,
    /// The session. It ends when the client closes the connection.
    serving: JoinHandle<()>,
    /// What runs beside it.
    tasks: JoinSet<()>,
    /// The stored logins.
    logins: Arc<dyn LoginService>,
}

impl OwnInstance {
    /// Creates an instance with this config, and makes the handshake.
    ///
    /// # Errors
    ///
    /// Fails if the instance does not accept the handshake, or is nested too deep.
    pub(in crate::cli) async fn start(
        config: Config,
        cli: &Cli,
        env: &Env,
        mut ambient: ProcessEnv,
    ) -> anyhow::Result<Self> {
        let nesting = Nesting::new(ambient.var(ANCESTORS_VAR), &config_files(cli, env), env.cwd());
        if let Some(reason) = nesting.too_deep() {
            bail!("this instance does not run: {reason}");
        }
        ambient.vars.extend([nesting.var_for_servers()]);
        let cache = Cache::open(cache_dir(cli, env));
        let limit = config.settings.max_message_bytes;
        let InstanceParts { groups, client, logins, .. } =
            InstanceParts::new(config, cache, cli, env, ambient, Startup::default());
        let config = groups.config();
        tokio::join!(groups.load_pins(&config), groups.check_commands(&config));
        let ((client_out, session_in), (session_out, client_in)) =
            (duplex(PIPE_CAPACITY), duplex(PIPE_CAPACITY));
        let mut tasks = JoinSet::new();
        let background = groups.clone();
        tasks.spawn(async move { background.run().await });

        let (peer, mut lines) = connect(session_in, session_out, limit, &mut tasks);
        let session = ClientSession::new(groups.clone(), &client, peer.clone(), SessionOptions::default());
        let closing = groups.clone();
        let serving = tokio::spawn(async move {
            session.run(&mut lines, std::future::pending(), closing.shutdown()).await;
            peer.output().close();
        });
        let (peer, lines) = connect(client_in, client_out, limit, &mut tasks);
        tasks.spawn(answer_questions(peer.clone(), lines, Forms::new()));
        let instance = Self { groups, peer, serving, tasks, logins };
        instance.initialize().await?;
        Ok(instance)
    }

    async fn initialize(&self) -> anyhow::Result<()> {
        // The same with and without a terminal, because servers and the cache see it.
        let params = json!({
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "dynamic-mcp shell", "version": env!("CARGO_PKG_VERSION") },
        });
        self.request(Method::Initialize, &params.to_string().into()).await?;
        self.peer.notify(notification::INITIALIZED, None);
        // Once it is answered, the groups are started.
        self.request(Method::Ping, &Raw::from_static(b"{}")).await?;
        Ok(())
    }

    /// Sends a request and returns its result, as the bytes that came.
    ///
    /// # Errors
    ///
    /// Fails with the message of a JSON-RPC error.
    pub(super) async fn request(&self, method: Method, params: &Raw) -> anyhow::Result<Raw> {
        let options = CallOptions::within(REQUEST_TIMEOUT);
        let reply = self.peer.call(method.name(), Some(params.clone()), options).await;
        reply.with_context(|| format!("{} was not answered", method.name()))?.map_err(|error| {
            let message = raw::get_str(&error, "message");
            anyhow::Error::msg(message.unwrap_or_else(|| String::from_utf8_lossy(&error).into_owned()))
        })
    }

    /// Calls a tool of ours. `arguments` is a JSON object.
    ///
    /// # Errors
    ///
    /// Fails with the message of a JSON-RPC error. A result with `isError` is no error.
    pub(super) async fn call_tool(&self, tool: &str, arguments: &[u8]) -> anyhow::Result<Raw> {
        let params = raw::set(&json!({ "name": tool }).to_string().into(), "arguments", arguments);
        self.request(Method::ToolsCall, &params).await
    }

    /// Waits until the servers that are started for their lists have answered or failed. A terminal shows which are waited
    /// for.
    pub(super) async fn wait_for_discovery(&self) {
        let (deadline, mut progress) = (Instant::now() + DISCOVERY_TIMEOUT, ProgressLine::new());
        while self.groups.is_discovering() && Instant::now() < deadline {
            let groups = self.groups.all();
            let expected = groups.iter().filter(|group| self.groups.expects_catalog(group));
            let names: Vec<_> = expected.map(|group| name(group.name.as_str())).collect();
            if !names.is_empty() {
                progress.show(&format!("waiting for {}", names.join(", ")));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Closes every server. What was learned is in the cache then.
    pub(in crate::cli) async fn close(mut self) {
        self.peer.output().close();
        if timeout(CLOSE_TIMEOUT, &mut self.serving).await.is_err() {
            tracing::warn!("the servers did not end in time; the rest is killed");
        }
        drop(timeout(CLOSE_TIMEOUT, self.logins.flush()).await);
        self.tasks.shutdown().await;
    }
}

/// Makes one end of the connection. What it needs beside its reader runs in `tasks`.
fn connect(
    input: DuplexStream,
    output: DuplexStream,
    limit: usize,
    tasks: &mut JoinSet<()>,
) -> (Arc<Peer>, LineReader) {
    let input: Input = Box::new(input);
    let (peer_output, writer) = Output::any(output);
    let (peer, deadlines) = Peer::new(peer_output);
    tasks.spawn(async move { drop(writer.run().await) });
    tasks.spawn(deadlines.run());
    (peer, LineReader::new(input, limit))
}

/// Reads what the session sends, and answers what it asks.
async fn answer_questions(peer: Arc<Peer>, mut lines: LineReader, forms: Forms) {
    // One question at a time, while answers to our own requests are still read.
    let mut asking = JoinSet::new();
    while let Some(incoming) = peer.receive(&mut lines).await {
        if let Incoming::Request(request) = incoming {
            let (peer, forms) = (peer.clone(), forms.clone());
            asking.spawn(async move {
                let reply = answer(&request, &forms).await;
                peer.reply(&request.id, reply);
            });
        }
    }
    peer.end();
}

async fn answer(request: &Request, forms: &Forms) -> Reply {
    let params: Option<Value> =
        request.params.as_ref().and_then(|params| serde_json::from_slice(params).ok());
    match (request.method.known(), params) {
        (Some(Method::Ping), _) => Ok(Raw::from_static(b"{}")),
        (Some(Method::ElicitationCreate), Some(params)) => match forms.ask(&params).await {
            Some(answer) => Ok(answer.to_string().into()),
            None => {
                terminal::message("there is a question, and nobody to answer it; run it at a terminal");
                Err(error_object(code::INTERNAL_ERROR, "there is no terminal to ask", None))
            }
        },
        _ => Err(error_object(code::METHOD_NOT_FOUND, "method not found", None)),
    }
}
