//! The instances of a process that serves HTTP: one for each profile that its users have.
//!
//! A profile that a token brings later gets its instance then. One whose profile no token has any more stays until the
//! process ends. The log names the profile.

use super::control::socket;
use super::follow_config::follow_config;
use super::serve::{LoadedFiles, load_files, log_config, store_tokens};
use super::{Instance, InstanceOptions, LOAD_TIMEOUT};
use anyhow::{Context, bail};
use auth::OAuthLogins;
use base::blocking;
use base::files::{self, MAX_CACHED_BYTES};
use config::Config;
use config::env::Env;
use front::server::clients::RequestClients;
use front::server::single_request::RequestServer;
use futures_util::future::join_all;
use http_front::state::HttpFront;
use http_front::tokens::UserProfile;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, Span};
use upstream::GroupManager;
use upstream::cache::Cache;
use upstream::cache::export::{CatalogDirs, ExportedCatalogs};
use upstream::groups::startup_info::StartupInfo;

/// After how long an instance that could not be started is tried again.
const START_RETRY: Duration = Duration::from_secs(10);

/// The instances of a process that serves HTTP, and what they are made of.
pub(crate) struct ProfileInstances {
    front: Arc<HttpFront>,
    options: InstanceOptions,
    /// The file of catalogs.
    catalog: Option<PathBuf>,
    env: Arc<Env>,
    /// The groups and the logins of each.
    running: Vec<(Arc<GroupManager>, Arc<OAuthLogins>)>,
    /// The background work of all.
    tasks: JoinSet<()>,
}

impl ProfileInstances {
    /// Nothing runs yet. `catalog`: the file of catalogs and pins to begin with.
    pub(crate) fn new(
        front: Arc<HttpFront>,
        options: InstanceOptions,
        catalog: Option<PathBuf>,
        env: Arc<Env>,
    ) -> Self {
        Self { front, options, catalog, env, running: Vec::new(), tasks: JoinSet::new() }
    }

    /// Starts an instance for each profile, and for those that come later. Never completes.
    pub(crate) async fn run(&mut self, mut profiles: watch::Receiver<BTreeSet<UserProfile>>) {
        let is_complete = self.start_all(&mut profiles).await;
        let started: Vec<_> = self.running.iter().map(|(groups, _)| groups.clone()).collect();
        let front = self.front.clone();
        self.tasks.spawn(async move {
            join_all(started.iter().map(|groups| groups.discovery_ended())).await;
            tracing::info!("requests are served");
            front.set_ready();
        });
        let mut is_complete = is_complete;
        loop {
            let retry = if is_complete { Duration::MAX } else { START_RETRY };
            // `follow_access` has the sender.
            if let Ok(Err(_)) = timeout(retry, profiles.changed()).await {
                return std::future::pending().await;
            }
            is_complete = self.start_all(&mut profiles).await;
        }
    }

    /// Starts an instance for each profile that has none. Returns whether each has one now.
    async fn start_all(&mut self, profiles: &mut watch::Receiver<BTreeSet<UserProfile>>) -> bool {
        let wanted = profiles.borrow_and_update().clone();
        let mut is_complete = true;
        for profile in wanted {
            is_complete &= self.start(profile).await;
        }
        is_complete
    }

    /// Starts an instance for a profile, if there is none. Returns `false` if the config cannot be read. The log names the
    /// profile.
    async fn start(&mut self, profile: UserProfile) -> bool {
        if self.front.has_server(&profile) {
            return true;
        }
        let span = match &profile {
            Some(profile) => tracing::info_span!("profile", profile = %profile),
            None => Span::none(),
        };
        self.start_new(profile).instrument(span).await
    }

    async fn start_new(&mut self, profile: UserProfile) -> bool {
        let mut options = self.options.clone();
        if let Some(profile) = &profile {
            options.overrides.profile = Some((**profile).to_owned());
        }
        let LoadedFiles { config, watcher, mut cache } = load_files(&options, &self.env).await;
        log_config(&config);
        if config.is_incomplete {
            return false;
        }
        if let Some(file) = &self.catalog {
            match install_catalog(file, &config, &options, &self.env).await {
                Ok(installed) => cache = installed,
                Err(error) => tracing::error!("the file of --catalog is not used: {error:#}"),
            }
        }
        // Users of other machines cannot read the log.
        let (env, startup) = (self.env.clone(), StartupInfo::default());
        // Nobody else uses these servers, whatever `share` says: their users are others.
        let instance = Instance::<RequestClients>::new(config, cache, &options, env, startup, false);
        instance.prepare().await;
        let Instance { groups, client, logins, env } = instance;
        let server = RequestServer::new(groups.clone(), client, options.session);
        let work = {
            let (groups, number) = (groups.clone(), self.running.len());
            async move {
                tokio::join!(
                    groups.run(),
                    socket::serve(&options.files, &env, groups.clone(), number),
                    follow_config(watcher, &groups, &options, &env),
                );
            }
        };
        self.tasks.spawn(work.in_current_span());
        // The groups exist, and those that connect at start are told to, before the first request and `/readyz`.
        server.start().await;
        let lists = server.clone();
        self.tasks.spawn(async move { lists.follow_lists().await }.in_current_span());
        self.front.set_server(profile, server);
        self.running.push((groups, logins));
        true
    }

    /// Closes every server, and waits until new tokens of logins are stored.
    pub(crate) async fn shutdown(self) {
        let Self { running, mut tasks, .. } = self;
        join_all(running.iter().map(|(groups, _)| groups.shutdown())).await;
        join_all(running.iter().map(|(_, logins)| store_tokens(&**logins))).await;
        tasks.shutdown().await;
    }
}

/// Puts the catalogs and pins of a file into the cache and the pins of this machine, and opens the cache.
///
/// # Errors
///
/// There is no cache, or the file cannot be used.
async fn install_catalog(
    file: &Path,
    config: &Config,
    options: &InstanceOptions,
    env: &Arc<Env>,
) -> anyhow::Result<Cache> {
    let (Some(cache), Some(pins)) = (options.cache_dir.clone(), options.pins_dir.clone()) else {
        bail!("there is no cache directory: set HOME, and leave out --no-cache");
    };
    let (file, config, env) = (file.to_owned(), config.clone(), env.clone());
    let install = move || -> anyhow::Result<Cache> {
        let text = files::read(&file, MAX_CACHED_BYTES);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let exported = serde_json::from_slice::<ExportedCatalogs>(&text);
        let exported = exported.with_context(|| format!("{} is no exported cache", file.display()))?;
        let dirs = CatalogDirs { cache: cache.clone(), pins };
        let installed = exported.install(&config, &env, &dirs).map_err(anyhow::Error::msg)?;
        tracing::info!(servers = installed, file = %file.display(), "the tools of a file are used");
        Ok(Cache::open(Some(cache)))
    };
    blocking::run(LOAD_TIMEOUT, install).await.map_err(|error| anyhow::anyhow!("reading it {error}"))?
}
