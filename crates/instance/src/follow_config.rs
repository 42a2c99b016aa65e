//! Applies changes of the config files to a running instance.

use super::{InstanceOptions, LOAD_TIMEOUT};
use base::blocking;
use config::env::Env;
use config::load;
use config::watch::ConfigWatcher;
use std::sync::Arc;
use upstream::GroupManager;

/// Reads the config again and applies it each time one of its files changes. Never completes. `watcher`: `None` if the
/// files could not be read at the start.
pub(crate) async fn follow_config(
    watcher: Option<ConfigWatcher>,
    groups: &Arc<GroupManager>,
    options: &InstanceOptions,
    env: &Env,
) {
    let Some(mut watcher) = watcher else { return std::future::pending().await };
    let is_for_all_users = options.overrides.all_users_only;
    loop {
        watcher.changed().await;
        let (options, env) = (options.clone(), env.clone());
        // It runs on another thread, so that a large file or a slow disk delays no call.
        let loading = move || load::load(&options.files, &env, &options.overrides);
        match blocking::run(LOAD_TIMEOUT, loading).await {
            Ok(mut config) => {
                // One user may be editing, and keeps the last servers. Of many, each has what the profile gives now.
                config.is_incomplete |= config.lacks_profile() && !is_for_all_users;
                watcher.set_referenced(config.referenced.clone());
                groups.apply(config).await;
            }
            Err(error) => {
                tracing::error!("the changed config is not used: reading it {error}");
                watcher.report_again();
            }
        }
    }
}
