//! Serves many users over HTTP: one instance for each profile that they have, behind one address.
//!
//! The tokens, the keys and the config are read again when their files change. What cannot be read changes nothing. New
//! tokens count at once; a profile that one of them has gets an instance then, and its requests are refused until it has
//! one. An instance whose profile no token has any more stays until the process ends.

use super::InstanceOptions;
use super::nesting::Nesting;
use super::profile_instances::ProfileInstances;
use super::serve::load_files;
use super::signals::EndSignals;
use anyhow::{Context, bail, ensure};
use base::blocking::{self, BlockingError};
use base::files::{self, MAX_CONFIG_BYTES};
use config::OwnAddress;
use config::env::Env;
use config::watch::ConfigWatcher;
use front::session::caller::KeyRing;
use http_front::access::AllowedNames;
use http_front::authentication::UserAccess;
use http_front::limits::PrincipalLimits;
use http_front::oauth::OAuthResource;
use http_front::state::{HttpFront, HttpOptions};
use http_front::tokens::{TokenTable, UserProfile};
use process::launch::ANCESTORS_VAR;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

/// How long a file of tokens or keys may take to be read.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How many connections may wait to be accepted, if the system allows as many (Linux: `net.core.somaxconn`). When the
/// queue is full, a client connects a second later or more, with its next SYN. The default of Tokio, 128, is too few if all
/// clients of a team connect at once.
const BACKLOG: u32 = 4096;

/// How many connections may be open, if the system allows enough files.
const MAX_CONNECTIONS: usize = 20_000;
/// How many files stay for other uses, at least.
const RESERVED_FILES: u64 = 64;

/// What `dynamic-mcp serve --http` is started with.
#[derive(Clone, Debug)]
pub struct HttpServeOptions {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Names of hosts that requests may name, beside the address.
    pub allowed_hosts: Vec<String>,
    /// Origins that requests may name, beside that of the host.
    pub allowed_origins: Vec<String>,
    /// The file of tokens. Without it and `oauth`, anyone may ask, at a loopback address only.
    pub tokens: Option<PathBuf>,
    /// The file that names an authorization server.
    pub oauth: Option<PathBuf>,
    /// The file of keys. `None`: a random key, which only this process has.
    pub keys: Option<PathBuf>,
    /// The file of catalogs and pins to begin with. `None`: those of this machine, if there are any.
    pub catalog: Option<PathBuf>,
    /// The limits for each principal.
    pub limits: PrincipalLimits,
}

/// Serves requests at an address until a signal comes. Then ends open requests, for 30 s at most, and closes every server.
///
/// # Errors
///
/// Fails if signals cannot be handled; if the address cannot be listened at, or is reached from other machines and there is
/// no file of tokens or no name of the host; if a file of tokens or keys cannot be used; or if this instance is nested too
/// deep. With a [`ConfigError`](config::ConfigError) if a config file cannot be read. What is wrong in one that can be read
/// is logged.
pub async fn serve_http(
    http: HttpServeOptions,
    mut options: InstanceOptions,
    mut env: Env,
) -> anyhow::Result<()> {
    let mut signals = EndSignals::listen()?;
    let nesting = Nesting::new(env.var(ANCESTORS_VAR), &options.files, env.cwd());
    if let Some(reason) = nesting.too_deep() {
        bail!("this instance does not run: {reason}");
    }
    Arc::make_mut(&mut env.vars).extend([nesting.var_for_servers()]);
    // Before the files are read, so that no change is missed.
    let watched: Vec<_> = [&http.tokens, &http.oauth, &http.keys].into_iter().flatten().cloned().collect();
    let watcher = blocking::run(READ_TIMEOUT, move || ConfigWatcher::new(watched)).await;
    let watcher = watcher.context("the files of tokens and keys cannot be read: it")?;
    let (access, keys) = (access(&http).await?, keys(&http).await?);
    let is_local = http.address.ip().is_loopback();
    ensure!(
        is_local || !http.address.ip().is_unspecified() || !http.allowed_hosts.is_empty(),
        "{} does not say by which names clients reach it: name them with --allowed-host",
        http.address.ip()
    );
    // Whoever starts many of these sees that this one does not work, and keeps the others.
    let loaded = load_files(&options, &env).await;
    if let Some(error) = loaded.config.errors.into_iter().next().filter(|_| loaded.config.is_incomplete) {
        return Err(error.into());
    }
    let listener = listen(http.address).with_context(|| format!("cannot listen at {}", http.address))?;
    let profiles = access.profiles();
    let names = AllowedNames::new(http.address, &http.allowed_hosts, &http.allowed_origins);
    let connections = max_connections();
    let front_options = HttpOptions { path: http.path.clone(), names, limits: http.limits, connections };
    let front = HttpFront::new(front_options, access, keys);
    let address = listener.local_addr()?;
    options.overrides.own_address = Some(own_address(&http, address));
    let mut instances = ProfileInstances::new(front.clone(), options, http.catalog.clone(), Arc::new(env));
    let serving = {
        let front = front.clone();
        tracing::info!(%address, path = http.path, connections, "listening");
        let stop = async move {
            let signal = signals.next().await;
            tracing::info!(signal, "told to stop by a signal");
        };
        tokio::spawn(async move { front.serve(listener, stop).await })
    };
    let profiles = watch::Sender::new(profiles);
    let served = tokio::select! {
        served = serving => served,
        () = instances.run(profiles.subscribe()) => Ok(()),
        () = follow_access(&front, &http, watcher, &profiles) => Ok(()),
    };
    instances.shutdown().await;
    Ok(served?)
}

/// Returns how many connections may be open: of the files that the system allows, a quarter stays for servers, which take
/// three pipes each and more while they start, and for what else is opened.
fn max_connections() -> usize {
    #[cfg(unix)]
    let files = process::warden::nofile_limit().unwrap_or(u64::MAX);
    #[cfg(not(unix))]
    let files = u64::MAX;
    let rest = files.saturating_sub(RESERVED_FILES.max(files / 4));
    usize::try_from(rest).map_or(MAX_CONNECTIONS, |rest| rest.clamp(1, MAX_CONNECTIONS))
}

/// Puts changed tokens and keys into force. Never completes.
async fn follow_access(
    front: &HttpFront,
    http: &HttpServeOptions,
    mut watcher: ConfigWatcher,
    profiles: &watch::Sender<BTreeSet<UserProfile>>,
) {
    if http.tokens.is_none() && http.oauth.is_none() && http.keys.is_none() {
        return std::future::pending().await;
    }
    loop {
        watcher.changed().await;
        let new_keys = async { if http.keys.is_some() { Some(keys(http).await) } else { None } };
        let (access, keys) = tokio::join!(access(http), new_keys);
        if let Some(access) = usable("tokens", access, &mut watcher) {
            profiles.send_replace(access.profiles());
            front.set_access(access);
        }
        if let Some(keys) = keys.and_then(|keys| usable("keys", keys, &mut watcher)) {
            front.set_keys(keys);
        }
    }
}

/// Returns what was read of changed files, and logs whether it is used.
fn usable<T>(what: &str, read: anyhow::Result<T>, watcher: &mut ConfigWatcher) -> Option<T> {
    match read {
        Ok(read) => {
            tracing::info!("the {what} were read again");
            Some(read)
        }
        Err(error) => {
            tracing::error!("the changed {what} are not used: {error:#}");
            if error.is::<BlockingError>() {
                watcher.report_again();
            }
            None
        }
    }
}

/// Returns where clients reach this instance: at its address, and under its names also where a load balancer has them.
fn own_address(http: &HttpServeOptions, address: SocketAddr) -> OwnAddress {
    let local = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{}", address.port()));
    let named = http.allowed_hosts.iter();
    let named = named.flat_map(|name| [name.clone(), format!("{name}:{}", address.port())]);
    let authorities = local.into_iter().chain(named).chain([address.to_string()]).collect();
    OwnAddress { authorities, path: http.path.clone() }
}

/// Listens at an address.
///
/// # Errors
///
/// The system refuses the address.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lets the next instance listen at this address at once. On Windows, it would let other programs take the address.
    socket.set_reuseaddr(cfg!(not(windows)))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Reads who may ask.
///
/// # Errors
///
/// A file cannot be used; or there is none, and others reach the address.
async fn access(http: &HttpServeOptions) -> anyhow::Result<UserAccess> {
    let mut access = UserAccess::default();
    if let Some(file) = &http.tokens {
        access.tokens = Some(parsed(file, TokenTable::parse).await?);
    }
    if let Some(file) = &http.oauth {
        access.oauth = Some(parsed(file, OAuthResource::parse).await?);
    }
    access.check_for(http.address.ip()).map_err(anyhow::Error::msg)?;
    Ok(access)
}

/// Reads the keys for what clients carry.
///
/// # Errors
///
/// The file cannot be used.
async fn keys(http: &HttpServeOptions) -> anyhow::Result<KeyRing> {
    let Some(file) = &http.keys else {
        tracing::info!(
            "no --keys: what clients carry is opened by this process only, and not after a restart"
        );
        return Ok(KeyRing::generate());
    };
    parsed(file, KeyRing::parse).await
}

/// Reads a file of this form.
///
/// # Errors
///
/// It cannot be read, or has another form. The text names it.
async fn parsed<T>(file: &Path, parse: fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
    parse(&read(file).await?).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

/// Reads a text file.
///
/// # Errors
///
/// It cannot be read in time, is too large, or is no UTF-8.
async fn read(path: &Path) -> anyhow::Result<String> {
    let file = path.to_owned();
    let read = blocking::run(READ_TIMEOUT, move || files::read(&file, MAX_CONFIG_BYTES)).await;
    let bytes = read.with_context(|| format!("cannot read {}: it", path.display()))?;
    let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).with_context(|| format!("{} is no text", path.display()))
}
