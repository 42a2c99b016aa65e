//! Serves one client on stdin and stdout, which is what dynamic-mcp does without a command.
//!
//! Config and cache are read on another thread, while a signal or the end of stdin still ends the process at once. Then
//! four things run at the same time: the session, the background work of the groups, the socket for commands, and the
//! watcher of the config files. The session ends when stdin ends, when a signal comes, or when stdout cannot be written.
//! It then closes every upstream, and the last answers are written before the process exits.

use super::control::socket;
use super::follow_config::follow_config;
use super::nesting::{self, Nesting};
use super::own_commands::own_commands;
use super::report::client_reports;
use super::signals::EndSignals;
use super::{Instance, InstanceOptions, LOAD_TIMEOUT};
use base::blocking;
use config::dirs;
use config::env::Env;
use config::load;
use config::watch::ConfigWatcher;
use config::{Config, ConfigError, Settings};
use front::server::ClientSession;
use front::session::requester::PageServices;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_client::credentials::LoginService;
use process::launch::ANCESTORS_VAR;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use upstream::cache::Cache;
use upstream::groups::startup_info::StartupInfo;
use wire::lines::LineReader;
use wire::output::{Output, Writer};
use wire::peer::Peer;
use wire::stdio::{self, close_stdout};

/// How long exit waits for new tokens: a request takes 10 s at most, and a keyring 3 s.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);
/// How long exit waits for a client that reads nothing of the last answers.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);
/// How many times it waits so long, for a client that reads slowly.
const MAX_FLUSH_WAITS: usize = 10;
/// How long the start continues after the end of stdin, for a client that sends its requests and closes stdin at once.
const EOF_GRACE: Duration = Duration::from_millis(300);

/// Serves one client on stdin and stdout until it disconnects or a signal comes.
///
/// # Errors
///
/// Fails if signals cannot be handled, if this instance is a server of its own config or nested too deep, or if the
/// session panics. A config that cannot be used is logged and shown by `get_status`, and so are the errors in
/// `startup`.
pub async fn serve(
    options: &InstanceOptions,
    mut env: Env,
    mut startup: StartupInfo,
) -> anyhow::Result<ServeOutcome> {
    // This comes before anything that takes time, because a client may send a signal during the start.
    let mut signals = EndSignals::listen()?;
    let nesting = Nesting::new(env.var(ANCESTORS_VAR), &options.files, env.cwd());
    Arc::make_mut(&mut env.vars).extend([nesting.var_for_servers()]);
    startup.results_dir = dirs::state_dir(&env).map(|dir| dir.join("results"));
    let (mut lines, output, writer) = stdio::open(Settings::default().max_message_bytes);
    let refusal = tokio::select! {
        refusal = nesting.refusal(&mut lines) => refusal,
        signal = signals.next() => return Ok(stopped_at_start(signal)),
    };
    startup.errors.iter().for_each(|error| tracing::error!("{error}"));
    if let Some(reason) = refusal {
        let writing = tokio::spawn(writer.run());
        nesting::refuse(&reason, &mut lines, &output).await;
        output.close();
        drop(timeout(FLUSH_TIMEOUT, writing).await);
        anyhow::bail!("this instance does not run: {reason}");
    }
    let loaded = tokio::select! {
        loaded = load_files(options, &env) => loaded,
        () = end_of_input(&mut lines) => return Ok(stopped_at_start(EOF)),
        signal = signals.next() => return Ok(stopped_at_start(signal)),
    };
    log_config(&loaded.config);
    let wrong_profile = loaded.config.wrong_profile().map(ToString::to_string);
    if let Some(error) = wrong_profile.clone().filter(|_| io::stdin().is_terminal()) {
        return Ok(ServeOutcome::WrongProfile(error));
    }
    lines.set_limit(loaded.config.settings.max_message_bytes);
    let LoadedFiles { config, watcher, cache } = loaded;
    let instance = Instance::new(config, cache, options, Arc::new(env), startup, true);
    let outcome = run_session(instance, watcher, (lines, output, writer), signals, options).await?;
    Ok(match (outcome, wrong_profile) {
        (ServeOutcome::NoClient, Some(error)) => ServeOutcome::WrongProfile(error),
        (outcome, _) => outcome,
    })
}

/// How serving ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeOutcome {
    /// A client came, or a signal ended it.
    Served,
    /// stdin ended before any request came.
    NoClient,
    /// The config does not have the profile that was named, and no request came or stdin is a terminal. Says what is
    /// wrong.
    WrongProfile(String),
}

/// The cause of an end before any request came.
const EOF: &str = "EOF";

/// What is read at the start.
pub(crate) struct LoadedFiles {
    pub(crate) config: Config,
    /// `None` if the files took too long.
    pub(crate) watcher: Option<ConfigWatcher>,
    pub(crate) cache: Cache,
}

/// Reads the config files and the cache. If that takes longer than `LOAD_TIMEOUT`, the config has this error and no
/// servers.
pub(crate) async fn load_files(options: &InstanceOptions, env: &Env) -> LoadedFiles {
    let (env, options) = (env.clone(), options.clone());
    let first_file = options.files.first().cloned().unwrap_or_default();
    let loading = blocking::run(LOAD_TIMEOUT, move || {
        // The watcher first, so that no change after `load` is missed.
        let mut watcher = ConfigWatcher::new(options.files.clone());
        let config = load::load(&options.files, &env, &options.overrides);
        watcher.set_referenced(config.referenced.clone());
        LoadedFiles { config, watcher: Some(watcher), cache: Cache::open(options.cache_dir) }
    });
    loading.await.unwrap_or_else(|error| {
        let error = ConfigError {
            file: first_file,
            at: None,
            message: format!("cannot be read: it {error}"),
            hint: Some("restart dynamic-mcp when its files can be read".to_owned()),
        };
        let config = Config { is_incomplete: true, errors: vec![error], ..Config::default() };
        LoadedFiles { config, watcher: None, cache: Cache::open(None) }
    })
}

/// Resolves `EOF_GRACE` after the end of stdin.
async fn end_of_input(lines: &mut LineReader) {
    lines.ended().await;
    sleep(EOF_GRACE).await;
}

/// Logs why the process ends before it has served anyone.
fn stopped_at_start(cause: &str) -> ServeOutcome {
    tracing::info!(cause, "stopped while starting");
    if cause == EOF { ServeOutcome::NoClient } else { ServeOutcome::Served }
}

/// Serves the client until it disconnects or a signal comes. Then closes every server, writes the last answers, and waits
/// until new tokens are stored.
///
/// # Errors
///
/// Fails if the session panics.
async fn run_session(
    instance: Instance,
    watcher: Option<ConfigWatcher>,
    (mut lines, output, writer): (LineReader, Output, Writer),
    mut signals: EndSignals,
    options: &InstanceOptions,
) -> anyhow::Result<ServeOutcome> {
    tokio::select! {
        () = instance.prepare() => {}
        signal = signals.next() => return Ok(stopped_at_start(signal)),
    }
    let Instance { groups, client, logins, env } = instance;
    let (peer, deadlines) = Peer::new(output.clone());
    let page = PageServices {
        reports: client_reports(&options.files, &env),
        commands: own_commands(&options.files, &env),
    };
    let session = ClientSession::new(groups.clone(), &client, peer, options.session, Some(page));
    let closing = groups.clone();
    // A task, because a future that `block_on` runs itself costs a system call each time that it is woken. Boxed, because
    // tokio moves a future several times, and this one is large.
    let serving = tokio::spawn(Box::pin(async move {
        let mut writing = tokio::spawn(writer.run());
        // The task ends with the session.
        let mut timing = JoinSet::new();
        timing.spawn(deadlines.run());
        // A task of its own, so that the signals are not asked for each message.
        let signal = tokio::spawn(async move { signals.next().await });
        let stop = async {
            tokio::select! {
                Ok(signal) = signal => tracing::info!(signal, "told to stop by a signal"),
                _ = &mut writing => tracing::info!("the client has disconnected"),
            }
        };
        // A set polls its future when that was woken, and not each time that a message comes.
        let stop = async { FuturesUnordered::from_iter([stop]).next().await.unwrap_or_default() };
        let was_asked = session.run(&mut lines, stop, closing.shutdown()).await;
        output.close();
        if !writing.is_finished() {
            flush(&output, writing).await;
        }
        if was_asked { ServeOutcome::Served } else { ServeOutcome::NoClient }
    }));
    let served = tokio::select! {
        served = serving => served,
        () = groups.run() => Ok(ServeOutcome::Served),
        () = socket::serve(&options.files, &env, groups.clone(), 0) => Ok(ServeOutcome::Served),
        () = follow_config(watcher, &groups, options, &env) => Ok(ServeOutcome::Served),
    };
    store_tokens(&*logins).await;
    Ok(served?)
}

/// Waits until the last answers are written, for as long as the client goes on reading, but `MAX_FLUSH_WAITS` times
/// `FLUSH_TIMEOUT` at most.
async fn flush(output: &Output, mut writing: JoinHandle<io::Result<()>>) {
    let mut unwritten = output.unwritten_bytes();
    for _ in 0..MAX_FLUSH_WAITS {
        if timeout(FLUSH_TIMEOUT, &mut writing).await.is_ok() {
            return;
        }
        let left = output.unwritten_bytes();
        if left == unwritten {
            break;
        }
        unwritten = left;
    }
    tracing::debug!(unwritten, "the client did not read its last answers");
}

/// Waits until the answers to token requests are stored, but for `TOKEN_TIMEOUT` at most: an authorization server may
/// have replaced the old tokens already. The client sees the end of stdout meanwhile. Signals do not cut this short.
pub(crate) async fn store_tokens(logins: &dyn LoginService) {
    let mut stored = std::pin::pin!(logins.flush());
    if timeout(Duration::ZERO, &mut stored).await.is_ok() {
        return;
    }
    tracing::info!("waiting for new tokens of a login, which would be lost otherwise");
    close_stdout();
    if timeout(TOKEN_TIMEOUT, stored).await.is_err() {
        tracing::warn!("new tokens of a login did not arrive in time and may be lost");
    }
}

/// Logs the errors and warnings of the config. Entries that are valid are used even if others are not.
pub(crate) fn log_config(config: &Config) {
    for error in &config.errors {
        tracing::error!("{error}");
    }
    for warning in config.all_warnings() {
        tracing::warn!("{warning}");
    }
    if config.has_no_server() {
        tracing::warn!("{}", Config::NO_SERVER);
    }
    for (name, server) in &config.servers {
        if let Err(error) = server {
            error.to_string().lines().for_each(|line| tracing::error!(group = %name, "{line}"));
        }
    }
    for group in &config.not_for_all_users {
        tracing::warn!(%group, "not served, because its users would share one process: set \"all_users\": true to allow it");
    }
    if let Some(profile) = config.profile_summary() {
        tracing::info!("{profile}");
    }
    tracing::info!(groups = config.servers.len(), "dynamic-mcp {} is ready", env!("CARGO_PKG_VERSION"));
}
