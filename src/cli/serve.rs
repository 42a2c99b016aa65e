//! `dynamic-mcp --config servers.json`: config, groups and the session wired together, and their ordered end.

use super::Cli;
use crate::config::load::{self, Overrides};
use crate::config::vars::Env;
use crate::config::{Config, Mode};
use crate::front::Session;
use crate::groups::GroupManager;
use crate::transport::launch::Ambient;
use crate::transport::warden::Warden;
use crate::transport::{Transport, warden};
use crate::wire::peer::Peer;
use crate::wire::stdio;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What is left to write once all else has ended.
const FLUSH: Duration = Duration::from_millis(100);

/// Serves one client on stdin and stdout until it goes or we are told to.
pub async fn serve(cli: &Cli, env: &Env, ambient: Ambient) -> anyhow::Result<ExitCode> {
    // Before anything that takes time: a client may stop us while we still start.
    let stop = Signals::listen()?;
    if std::io::stdin().is_terminal() {
        eprintln!("{TERMINAL_HINT}");
    }
    let config = read_config(cli, env);
    warden::raise_nofile();
    let (mut lines, output, writer) = stdio::open(config.settings.max_message_bytes);
    let transport = Transport { ambient: Arc::new(ambient), warden: Warden::new() };
    let groups = GroupManager::start(config, transport);
    groups.audience.attach(output.clone());
    let session = Session::new(groups.clone(), Peer::new(output.clone()));
    let mut writing = tokio::spawn(writer.run());
    let stop = async {
        tokio::select! {
            signal = stop.any() => tracing::info!(signal, "told to stop"),
            _ = &mut writing => tracing::info!("the client is gone"),
        }
    };
    session.run(&mut lines, pin!(stop), groups.shutdown()).await;
    output.close();
    if !writing.is_finished() && tokio::time::timeout(FLUSH, writing).await.is_err() {
        tracing::debug!("the client did not read its last answers");
    }
    Ok(ExitCode::SUCCESS)
}

const TERMINAL_HINT: &str = "dynamic-mcp speaks MCP on stdin and stdout and is started by a client, such as Claude Desktop or OpenCode.
To see what it does, run: dynamic-mcp demo
Waiting for JSON-RPC on stdin; end with Ctrl-D.";

/// The config with its problems in the log. Whatever is wrong, what is right is served.
fn read_config(cli: &Cli, env: &Env) -> Config {
    let files: Vec<PathBuf> = match cli.config.is_empty() {
        true => load::default_path(env).into_iter().collect(),
        false => cli.config.clone(),
    };
    let mut config = load::load(&files, env, &cli.overrides());
    for problem in &config.errors {
        tracing::error!("{problem}");
    }
    for problem in &config.warnings {
        tracing::warn!("{problem}");
    }
    for (name, server) in &config.servers {
        if let Err(problem) = server {
            tracing::error!(group = %name, "{problem}");
        }
    }
    only_pure(&mut config);
    tracing::info!(groups = config.servers.len(), "dynamic-mcp {} is ready", env!("CARGO_PKG_VERSION"));
    config
}

/// The other modes come later; until then every group connects on its first use.
fn only_pure(config: &mut Config) {
    let servers = config.servers.iter_mut().filter_map(|(_, server)| server.as_mut().ok());
    let mut changed = 0;
    for server in servers.filter(|server| server.mode != Mode::Pure) {
        server.mode = Mode::Pure;
        changed += 1;
    }
    if changed > 0 {
        tracing::warn!(
            groups = changed,
            "eager and hybrid start-up are not available yet: these groups connect on first use"
        );
    }
}

impl Cli {
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

/// The signals that end us.
#[cfg(unix)]
struct Signals([(&'static str, tokio::signal::unix::Signal); 3]);

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            ("SIGTERM", signal(SignalKind::terminate())?),
            ("SIGINT", signal(SignalKind::interrupt())?),
            ("SIGHUP", signal(SignalKind::hangup())?),
        ]))
    }

    async fn any(mut self) -> &'static str {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.1.recv() => term.0,
            _ = int.1.recv() => int.0,
            _ = hup.1.recv() => hup.0,
        }
    }
}
