//! An instance in the process of a command, and the connection of the command to it.
//!
//! Two pipes in memory connect the command's client and the session. They speak as they would on stdio, so that nothing
//! depends on who asks.

use super::client::{McpClient, QuestionHandler};
use super::nesting::Nesting;
use super::{Instance, InstanceOptions};
use anyhow::bail;
use config::Config;
use config::env::Env;
use front::server::ClientSession;
use front::server::served_instance::SessionOptions;
use http_client::credentials::LoginService;
use process::launch::ANCESTORS_VAR;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::duplex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use upstream::cache::Cache;
use upstream::groups::startup_info::StartupInfo;
use upstream::{GroupManager, Upstream};
use wire::Raw;
use wire::lines::LineReader;
use wire::output::Output;
use wire::peer::Peer;
use wire::protocol::methods::Method;

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
    pub client: McpClient,
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
        Arc::make_mut(&mut env.vars).extend([nesting.var_for_servers()]);
        let cache = Cache::open(options.cache_dir.clone());
        let limit = config.settings.max_message_bytes;
        let startup = StartupInfo::default();
        let instance: Instance = Instance::new(config, cache, options, Arc::new(env), startup, true);
        instance.prepare().await;
        let Instance { groups, client, logins, .. } = instance;
        let ((client_out, session_in), (session_out, client_in)) =
            (duplex(PIPE_CAPACITY), duplex(PIPE_CAPACITY));
        let mut tasks = JoinSet::new();
        let background = groups.clone();
        tasks.spawn(async move { background.run().await });

        let (output, writer) = Output::any(session_out);
        let (peer, deadlines) = Peer::new(output);
        tasks.spawn(async move { drop(writer.run().await) });
        tasks.spawn(deadlines.run());
        let mut lines = LineReader::new(Box::new(session_in), limit);
        let session =
            ClientSession::new(groups.clone(), &client, peer.clone(), SessionOptions::default(), None);
        let closing = groups.clone();
        let serving = tokio::spawn(async move {
            session.run(&mut lines, std::future::pending(), closing.shutdown()).await;
            peer.output().close();
        });
        let client = McpClient::new(client_in, client_out, limit, REQUEST_TIMEOUT, answer);
        // The same with and without a terminal, because servers and the cache see it.
        client.initialize("dynamic-mcp shell", json!({ "elicitation": {} })).await?;
        // Once it is answered, the groups are started.
        client.request(Method::Ping, &Raw::from_static(b"{}")).await?;
        Ok(Self { groups, client, serving, tasks, logins })
    }

    /// Closes every server, and stores new tokens. Either may take `CLOSE_TIMEOUT`. What was learned is in the cache
    /// then.
    pub async fn close(mut self) {
        self.client.close();
        if timeout(CLOSE_TIMEOUT, &mut self.serving).await.is_err() {
            tracing::warn!("the servers did not end in time");
        }
        drop(timeout(CLOSE_TIMEOUT, self.logins.flush()).await);
        self.tasks.shutdown().await;
    }
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
