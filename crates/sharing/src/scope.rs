//! Decides which servers are shared, and among whom.

use super::tested_packages::{self, TestedPackage};
use config::env::Env;
use config::{ServerConfig, Share, StdioConfig};
use process::launch::Launch;

/// How a server is shared.
#[derive(Clone, Copy)]
pub(super) enum SharingScope {
    /// As the config says.
    Config(Share),
    /// In its directory, because its package was tested.
    Tested(&'static TestedPackage),
}

/// Returns how a server is shared; `None` if it is not.
pub(super) fn of(server: &ServerConfig, stdio: &StdioConfig) -> Option<SharingScope> {
    match server.effective_share() {
        Share::Client => None,
        Share::Auto => tested_packages::find(stdio).map(SharingScope::Tested),
        share @ (Share::Directory | Share::User) => Some(SharingScope::Config(share)),
    }
}

impl SharingScope {
    /// Sets the working directory of a server that the whole user shares. Unless its config names one, it is the home
    /// directory, because the directory of the window that happens to start it would be as good as random.
    pub(super) fn set_directory(self, stdio: &StdioConfig, process_env: &Env, launch: &mut Launch) {
        if matches!(self, Self::Config(Share::User))
            && stdio.cwd.is_none()
            && let Some(home) = process_env.home()
        {
            launch.cwd = home;
        }
    }
}
