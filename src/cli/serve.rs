//! Serves one client on stdin and stdout, which is what dynamic-mcp does without a command.
//!
//! It reads the config, creates the warden, the groups and the session, and connects them. Then four things run at the
//! same time: the session, the background work of the groups, the socket for commands, and the watcher of the config
//! files. The session ends
//! when stdin ends, when a signal comes, or when stdout cannot be written; it then closes every upstream, and the last
//! answers are written before the process exits.

use super::Cli;
use super::cache::cache_dir;
use super::instances::socket::{self, InstanceInfo};
use super::paths::{config_files, token_store};
use crate::auth::OAuthLogins;
use crate::cache::Cache;
use crate::config::load;
use crate::config::vars::Env;
use crate::config::watch::ConfigWatcher;
use crate::config::{Config, Mode, Overrides};
use crate::front::interaction::clients::ClientRegistry;
use crate::front::session::ClientSession;
use crate::groups::GroupManager;
use crate::transport::launch::ProcessEnv;
use crate::transport::shared::SharedServers;
use crate::transport::warden::Warden;
use crate::transport::{Transport, warden};
use crate::wire::peer::Peer;
use crate::wire::stdio;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long the last answers may take to be written after everything else has ended.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves one client on stdin and stdout until it disconnects or a signal comes.
///
/// # Errors
///
/// Fails if signals cannot be handled. A config that cannot be used is logged and shown by `get_status`.
pub async fn serve(cli: &Cli, env: &Env, ambient: ProcessEnv) -> anyhow::Result<ExitCode> {
    // This comes before anything that takes time, because a client may send a signal during the start.
    let stop = Signals::listen()?;
    if std::io::stdin().is_terminal() {
        eprintln!("{TERMINAL_HINT}");
    }
    let files = config_files(cli, env);
    let mut watcher = ConfigWatcher::new(files.clone());
    let config = read_config(&files, cli, env);
    warden::raise_nofile();
    let (mut lines, output, writer) = stdio::open(config.settings.max_message_bytes);
    let process_env = Arc::new(ambient);
    let runtime_base = env.get("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let info = InstanceInfo { runtime_base, cwd: process_env.cwd.clone(), config: files.clone() };
    let transport = Transport {
        shared: SharedServers::new(process_env.clone()),
        process_env,
        warden: Warden::new(),
        logins: Arc::new(OAuthLogins::new(token_store(env, &config.settings, false))),
    };
    let clients = Arc::new(ClientRegistry::default());
    let groups = GroupManager::new(config, transport, clients.clone(), Cache::open(cache_dir(cli, env)));
    let session = ClientSession::new(groups.clone(), &clients, Peer::new(output.clone()));
    let mut writing = tokio::spawn(writer.run());
    let stop = async {
        tokio::select! {
            signal = stop.any() => tracing::info!(signal, "told to stop by a signal"),
            _ = &mut writing => tracing::info!("the client has disconnected"),
        }
    };
    tokio::select! {
        () = session.run(&mut lines, stop, groups.shutdown()) => {}
        () = groups.run() => {}
        () = socket::serve(info, &groups) => {}
        () = follow_config(&mut watcher, &files, &groups, cli, env) => {}
    }
    output.close();
    if !writing.is_finished() && tokio::time::timeout(FLUSH_TIMEOUT, writing).await.is_err() {
        tracing::debug!("the client did not read its last answers");
    }
    Ok(ExitCode::SUCCESS)
}

/// The text for a person who starts the program in a terminal.
const TERMINAL_HINT: &str = "dynamic-mcp speaks MCP on stdin and stdout and is started by a client, such as Claude Desktop or OpenCode.
To see what it does, run: dynamic-mcp demo
Waiting for JSON-RPC on stdin; end with Ctrl-D.";

/// Reads the config again and applies it each time one of its files changes.
async fn follow_config(
    watcher: &mut ConfigWatcher,
    files: &[PathBuf],
    groups: &GroupManager,
    cli: &Cli,
    env: &Env,
) {
    loop {
        watcher.changed().await;
        let (files, env, overrides) = (files.to_vec(), env.clone(), cli.overrides());
        // It runs on another thread, so that a large file or a slow disk delays no call.
        let read = tokio::task::spawn_blocking(move || load::load(&files, &env, &overrides));
        if let Ok(config) = read.await {
            groups.apply(config).await;
        }
    }
}

/// Reads the config and logs its errors and warnings. Entries that are valid are used even if others are not.
fn read_config(files: &[PathBuf], cli: &Cli, env: &Env) -> Config {
    let config = load::load(files, env, &cli.overrides());
    for error in &config.errors {
        tracing::error!("{error}");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    for (name, server) in &config.servers {
        if let Err(error) = server {
            tracing::error!(group = %name, "{error}");
        }
    }
    tracing::info!(groups = config.servers.len(), "dynamic-mcp {} is ready", env!("CARGO_PKG_VERSION"));
    config
}

impl Cli {
    /// The settings that the command line overrides.
    fn overrides(&self) -> Overrides {
        let mode = match (self.eager_startup, self.pure_lazy, self.hybrid_lazy) {
            (true, ..) => Some(Mode::Eager),
            (_, true, _) => Some(Mode::Pure),
            (_, _, true) => Some(Mode::Hybrid),
            _ => None,
        };
        let idle_timeout =
            self.idle_timeout.map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds)));
        Overrides { mode, idle_timeout, surface: None }
    }
}

/// The signals that end the process.
#[cfg(unix)]
struct Signals([(&'static str, tokio::signal::unix::Signal); 3]);

#[cfg(unix)]
impl Signals {
    /// Starts to receive the signals, which then no longer end the process by themselves.
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            ("SIGTERM", signal(SignalKind::terminate())?),
            ("SIGINT", signal(SignalKind::interrupt())?),
            ("SIGHUP", signal(SignalKind::hangup())?),
        ]))
    }

    /// Waits for the first signal and returns its name.
    async fn any(mut self) -> &'static str {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.1.recv() => term.0,
            _ = int.1.recv() => int.0,
            _ = hup.1.recv() => hup.0,
        }
    }
}
