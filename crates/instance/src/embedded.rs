//! An instance in the process of a command, and the connection of the command to it.
//!
//! Two pipes in memory connect the command and the session. They speak as they would on stdio, so that nothing depends
//! on who asks. The command answers what the session asks its client ([`QuestionHandler`]).

use super::nesting::Nesting;
use super::{Instance, InstanceOptions};
use anyhow::{Context, bail};
use config::Config;
use config::env::Env;
use front::server::ClientSession;
use front::server::options::SessionOptions;
use futures_util::future::BoxFuture;
use http_client::credentials::LoginService;
use process::launch::ANCESTORS_VAR;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{DuplexStream, duplex};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use upstream::cache::Cache;
use upstream::groups::startup_info::StartupInfo;
use upstream::{GroupManager, Upstream};
use wire::lines::{Input, LineReader};
use wire::output::Output;
use wire::peer::{CallOptions, Incoming, Peer};
use wire::protocol::LATEST_HANDSHAKE;
use wire::protocol::methods::{Method, notification};
use wire::{Raw, Reply, Request, raw};

/// Answers a request of the session to its client.
pub type QuestionHandler = Arc<dyn Fn(Request) -> BoxFuture<'static, Reply> + Send + Sync>;

/// The capacity of a pipe in bytes.
const PIPE_CAPACITY: usize = 64 << 10;
/// How long a request may take. The session ends every request earlier, at the limits of the config.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// How often the groups are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the session may take to end. It limits itself to less.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// An instance, and the client's end of the connection to it.
pub struct EmbeddedInstance {
    /// The groups.
    pub groups: Arc<GroupManager>,
    /// The client's end of the connection.
    peer: Arc<Peer>,
    /// The session. It ends when the client closes the connection.
    serving: JoinHandle<()>,
    /// What runs beside it.
    tasks: JoinSet<()>,
    /// The stored logins.
    logins: Arc<dyn LoginService>,
}

impl EmbeddedInstance {
    /// Creates an instance with this config, and makes the handshake. Its groups are started then; `wait_for_groups`
    /// waits until they are connected.
    ///
    /// # Errors
    ///
    /// Fails if the instance does not accept the handshake, or is nested too deep.
    pub async fn start(
        config: Config,
        options: &InstanceOptions,
        mut env: Env,
        answer: QuestionHandler,
    ) -> anyhow::Result<Self> {
        let nesting = Nesting::new(env.var(ANCESTORS_VAR), &options.files, env.cwd());
        if let Some(reason) = nesting.too_deep() {
            bail!("this instance does not run: {reason}");
        }
        env.vars.extend([nesting.var_for_servers()]);
        let cache = Cache::open(options.cache_dir.clone());
        let limit = config.settings.max_message_bytes;
        let instance = Instance::new(config, cache, options, env, StartupInfo::default());
        instance.prepare().await;
        let Instance { groups, client, logins, .. } = instance;
        let ((client_out, session_in), (session_out, client_in)) =
            (duplex(PIPE_CAPACITY), duplex(PIPE_CAPACITY));
        let mut tasks = JoinSet::new();
        let background = groups.clone();
        tasks.spawn(async move { background.run().await });

        let (peer, mut lines) = connect(session_in, session_out, limit, &mut tasks);
        let session =
            ClientSession::new(groups.clone(), &client, peer.clone(), SessionOptions::default(), None);
        let closing = groups.clone();
        let serving = tokio::spawn(async move {
            session.run(&mut lines, std::future::pending(), closing.shutdown()).await;
            peer.output().close();
        });
        let (peer, lines) = connect(client_in, client_out, limit, &mut tasks);
        tasks.spawn(answer_questions(peer.clone(), lines, answer));
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
    /// Fails with the message of a JSON-RPC error, or if there is no answer within `REQUEST_TIMEOUT`.
    pub async fn request(&self, method: Method, params: &Raw) -> anyhow::Result<Raw> {
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
    /// As [`request`](Self::request). A result with `isError` is no error.
    pub async fn call_tool(&self, tool: &str, arguments: &[u8]) -> anyhow::Result<Raw> {
        let params = raw::set(&json!({ "name": tool }).to_string().into(), "arguments", arguments);
        self.request(Method::ToolsCall, &params).await
    }

    /// Closes every server, and stores new tokens. Either may take `CLOSE_TIMEOUT`. What was learned is in the cache
    /// then.
    pub async fn close(mut self) {
        self.peer.output().close();
        if timeout(CLOSE_TIMEOUT, &mut self.serving).await.is_err() {
            tracing::warn!("the servers did not end in time");
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
async fn answer_questions(peer: Arc<Peer>, mut lines: LineReader, answer: QuestionHandler) {
    // Beside the reader, so that answers to our own requests are still read.
    let mut asking = JoinSet::new();
    while let Some(incoming) = peer.receive(&mut lines).await {
        if let Incoming::Request(request) = incoming {
            let (peer, answer) = (peer.clone(), answer.clone());
            asking.spawn(async move {
                let id = request.id.clone();
                peer.reply(&id, answer(request).await);
            });
        }
    }
    peer.end();
}

/// Waits until no group `is_awaited` any more, but for `limit` at most. `show` gets all groups and the awaited ones at
/// each poll.
pub async fn wait_for_groups(
    groups: &GroupManager,
    limit: Duration,
    is_awaited: impl Fn(&Upstream) -> bool,
    mut show: impl FnMut(&[Upstream], &[&Upstream]),
) {
    let deadline = Instant::now() + limit;
    loop {
        let all = groups.all();
        let awaited: Vec<_> = all.iter().filter(|group| is_awaited(group)).collect();
        show(&all, &awaited);
        if awaited.is_empty() || Instant::now() >= deadline {
            return;
        }
        sleep(POLL_INTERVAL).await;
    }
}
