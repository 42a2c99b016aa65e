//! Puts the parts of an instance together: logins, transport, clients and groups.

use super::Cli;
use super::cache::cache_dir;
use super::paths::{pins_dir, secret_keyring, token_store};
use crate::auth::OAuthLogins;
use crate::cache::Cache;
use crate::config::Config;
use crate::config::vars::Env;
use crate::front::interaction::front_client::FrontClient;
use crate::groups::GroupManager;
use crate::groups::startup::Startup;
use crate::pins::PinStore;
use crate::transport::Transport;
use crate::transport::launch::ProcessEnv;
use crate::transport::launch::direct::DirectLaunches;
use crate::transport::secrets::SecretResolver;
use crate::transport::shared::SharedServers;
use crate::transport::warden::Warden;
use std::sync::Arc;

/// The parts of an instance, without a session.
pub(super) struct InstanceParts {
    /// The groups, which are not started.
    pub(super) groups: Arc<GroupManager>,
    /// The client that upstreams know.
    pub(super) client: Arc<FrontClient>,
    /// The stored logins.
    pub(super) logins: Arc<OAuthLogins>,
    /// The environment that servers inherit.
    pub(super) process_env: Arc<ProcessEnv>,
}

impl InstanceParts {
    /// Makes the parts for this config. Nothing is started.
    pub(super) fn new(
        config: Config,
        cache: Cache,
        cli: &Cli,
        env: &Env,
        ambient: ProcessEnv,
        startup: Startup,
    ) -> Self {
        let logins = Arc::new(OAuthLogins::new(token_store(cli, env, &config.settings, false)));
        let process_env = Arc::new(ambient);
        let shared = SharedServers::new(process_env.clone());
        let warden = Warden::new();
        let secrets = SecretResolver::new(secret_keyring(env), process_env.clone(), warden.clone());
        let transport = Transport {
            direct: DirectLaunches::new(cache_dir(cli, env).map(|dir| dir.join("launchers"))),
            shared,
            process_env: process_env.clone(),
            warden,
            logins: logins.clone(),
            secrets,
        };
        let client = Arc::new(FrontClient::default());
        let pins = PinStore::new(pins_dir(env));
        let groups = GroupManager::new(config, transport, client.clone(), cache, pins, startup);
        Self { groups, client, logins, process_env }
    }
}
