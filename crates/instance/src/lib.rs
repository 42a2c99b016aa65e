//! One running instance: the groups of a config, and the client that uses them.
//!
//! # Theory of operation
//!
//! [`InstanceOptions`] say which config files an instance reads and what overrides them. [`Instance`] makes the parts
//! of the crates below (logins, secrets, transport, groups, and the client that upstreams know) and connects them. It
//! starts nothing.
//!
//! - `serve` runs an instance for the client on stdin and stdout, and `serve_http` one for each profile of the users that
//!   come over HTTP (`profile_instances`). `embedded` runs one for a command in the same
//!   process, so that `dynamic-mcp call` and `check` obey the same rules as a client. `import --measure` starts the
//!   groups alone.
//! - `follow_config` applies changes of the config files. `control` is the socket on which commands reach a running
//!   instance.
//! - `report` sums up all instances, for `status` and for the page that a client shows.
//! - `own_commands` runs the commands that the buttons of that page stand for.
//! - `nesting` recognizes an instance that would start itself. `signals` receives the signals that end the process.
//! - `stores` opens the user's logins and secrets.
//! - `client` is the MCP client of all commands. `program_client` starts this program once more for it, for `demo` and
//!   `import --measure`.
//!
//! # Invariants
//!
//! - A signal is received from the first moment on, and every wait at the start also ends by it.
//! - An instance ends in order, within a deadline: first the session, then the groups, then their processes.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let env = config::env::Env::of_process();
//! let options = instance::InstanceOptions { files: vec!["servers.json".into()], ..Default::default() };
//! instance::serve::serve(&options, env, upstream::groups::startup_info::StartupInfo::default()).await?;
//! # Ok(())
//! # }
//! ```

use auth::OAuthLogins;
use base::text;
use config::env::Env;
use config::{Config, Overrides};
use front::server::clients::FrontClient;
use front::server::served_instance::SessionOptions;
use process::launch::direct::DirectLaunches;
use process::secrets::SecretResolver;
use process::warden::Warden;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use upstream::GroupManager;
use upstream::cache::Cache;
use upstream::clients::Clients;
use upstream::groups::startup_info::StartupInfo;
use upstream::pins::PinStore;
use upstream::transport::AttachShared;
use upstream::transport::Transport;

pub mod client;
pub mod control;
pub mod embedded;
mod follow_config;
mod nesting;
mod own_commands;
mod profile_instances;
pub mod program_client;
pub mod report;
pub mod serve;
pub mod serve_http;
pub mod signals;
pub mod stores;

/// How long the config files, and the files that they name, may take to be read.
const LOAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How an instance is started.
#[derive(Clone, Debug, Default)]
pub struct InstanceOptions {
    /// The config files. A later one overrides an earlier one.
    pub files: Vec<PathBuf>,
    /// Whether the command line names the files. Else it is the default file.
    pub names_files: bool,
    /// The settings that the command line overrides, the profile, and the files that may be absent.
    pub overrides: Overrides,
    /// What the command line chooses for the client's session.
    pub session: SessionOptions,
    /// The directory of the cached catalogs. `None`: nothing is cached.
    pub cache_dir: Option<PathBuf>,
    /// The directory of the pinned definitions. `None`: nothing is pinned.
    pub pins_dir: Option<PathBuf>,
}

impl InstanceOptions {
    /// Returns the arguments with which another command reads the same config files, with a space before them. Empty
    /// for the default file. A path that cannot be typed is left out.
    pub fn config_args(&self, env: &Env) -> String {
        let named = self.files.iter().filter(|_| self.names_files).map(|file| env.cwd().join(file));
        named.filter_map(|file| Some(format!(" --config {}", text::shell_word(file.to_str()?)?))).collect()
    }
}

/// The parts of an instance, without a session. Its groups are not started.
pub struct Instance<C = FrontClient> {
    /// The groups.
    pub groups: Arc<GroupManager>,
    /// The client that upstreams know.
    pub client: Arc<C>,
    /// The stored logins.
    pub logins: Arc<OAuthLogins>,
    /// The environment of the instance, which servers inherit.
    pub env: Arc<Env>,
}

impl<C: Clients + Default + 'static> Instance<C> {
    /// Makes the parts for this config. Servers inherit `env`. `shares`: whether other instances may use the same servers.
    pub fn new(
        config: Config,
        cache: Cache,
        options: &InstanceOptions,
        env: Arc<Env>,
        startup: StartupInfo,
        shares: bool,
    ) -> Self {
        let logins = stores::token_store(options, &env, &config.settings, false);
        let logins = Arc::new(OAuthLogins::new(logins));
        let warden = warden(&env);
        let launchers = options.cache_dir.as_ref().map(|dir| dir.join("launchers"));
        let direct = DirectLaunches::new(launchers);
        let transport = Transport {
            shared: if shares { shared_servers(&env, &direct) } else { None },
            direct,
            secrets: SecretResolver::new(stores::secret_keyring(&env), env.clone(), warden.clone()),
            process_env: env.clone(),
            warden,
            logins: logins.clone(),
            in_memory: None,
        };
        let client = Arc::new(C::default());
        let pins = PinStore::new(options.pins_dir.clone());
        let groups = GroupManager::new(config, transport, client.clone(), cache, pins, startup);
        Self { groups, client, logins, env }
    }

    /// Reads the pins of the config's servers, and looks for their programs.
    pub(crate) async fn prepare(&self) {
        let config = self.groups.config();
        tokio::join!(self.groups.load_pins(&config), self.groups.check_commands(&config));
    }
}

/// Returns the warden of this instance. Without a runtime directory, its servers do not wait for those of instances that
/// have just ended.
fn warden(env: &Env) -> Warden {
    #[cfg(unix)]
    {
        use process::{ending_servers::EndingServers, runtime_dir::RuntimeDir};
        let base = env.get_non_empty("XDG_RUNTIME_DIR").map(std::path::Path::new);
        match RuntimeDir::open(base).and_then(|dir| EndingServers::open(&dir)) {
            Ok(ending) => return Warden::with_ending_servers(ending),
            Err(error) => tracing::debug!(%error, "no server waits for its predecessor"),
        }
    }
    #[cfg(not(unix))]
    let _ = env;
    Warden::default()
}

/// Attaches to servers that other instances use as well. Only Linux has a host for them.
fn shared_servers(env: &Arc<Env>, direct: &DirectLaunches) -> Option<Arc<dyn AttachShared>> {
    #[cfg(target_os = "linux")]
    return Some(Arc::new(sharing::SharedServers::new(env.clone(), direct.clone())));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (env, direct);
        None
    }
}
