//! Decides which servers are shared, and among whom.

use super::tested_packages;
use config::env::Env;
use config::{ServerConfig, Share, StdioConfig};
use process::launch::Launch;

/// Returns how a server is shared: by `Directory` or by `User`; `None` if it is not.
pub(super) fn share_of(server: &ServerConfig, stdio: &StdioConfig) -> Option<Share> {
    match server.effective_share() {
        Share::Client => None,
        Share::Auto => tested_packages::contain(stdio).then_some(Share::Directory),
        share @ (Share::Directory | Share::User) => Some(share),
    }
}

/// Sets the working directory of a server that the whole user shares. Unless its config names one, it is the home
/// directory, because the directory of the window that happens to start it would be as good as random.
pub(super) fn set_directory(share: Share, stdio: &StdioConfig, process_env: &Env, launch: &mut Launch) {
    if share == Share::User
        && stdio.cwd.is_none()
        && let Some(home) = process_env.home()
    {
        launch.cwd = home;
    }
}
