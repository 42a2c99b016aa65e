//! Decides which servers are shared, and where they start.

use config::env::Env;
use config::{Endpoint, ServerConfig, Share, StdioConfig};
use process::launch::Launch;

/// Returns the server's process and with whom it is shared; `None` if it is not.
pub(super) fn of(server: &ServerConfig) -> Option<(&StdioConfig, Share)> {
    let Endpoint::Stdio(stdio) = &server.endpoint else { return None };
    let share = server.effective_share();
    (share != Share::Client).then_some((stdio, share))
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
