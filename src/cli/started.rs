//! Starts the servers of a config for a command, and waits until each has answered or failed.

use super::shell::forms::Forms;
use base::text::{joined, name};
use config::Config;
use config::env::Env;
use instance::InstanceOptions;
use instance::embedded::{EmbeddedInstance, wait_for_groups};
use instance::signals::interrupted;
use std::time::Duration;
use terminal::ProgressLine;
use upstream::{State, Upstream};

/// How long all servers together may take. Their own limits are shorter, unless the config sets longer ones.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Starts the servers of a config, and waits until each is connected or has failed, but for `START_TIMEOUT` at most.
/// `None`: a signal came, and they have ended.
///
/// # Errors
///
/// Fails if the instance cannot be started.
pub(super) async fn start_servers(
    config: Config,
    options: &InstanceOptions,
    env: &Env,
    process_env: Env,
) -> anyhow::Result<Option<EmbeddedInstance>> {
    // The client may start us in another directory.
    let files = options.files.iter().map(|file| env.cwd().join(file)).collect();
    let options = InstanceOptions { files, ..options.clone() };
    let instance = EmbeddedInstance::start(config, &options, process_env, Forms::new().handler()).await?;
    let is_done = tokio::select! {
        () = wait_for_all(&instance) => true,
        () = interrupted() => false,
    };
    if !is_done {
        instance.close().await;
        return Ok(None);
    }
    Ok(Some(instance))
}

/// Waits until every server is connected or has failed, but for `START_TIMEOUT` at most. Shows on a terminal which are
/// waited for.
async fn wait_for_all(instance: &EmbeddedInstance) {
    let mut progress = ProgressLine::on_stderr();
    wait_for_groups(
        &instance.groups,
        START_TIMEOUT,
        |group| !is_decided(group),
        |all, awaited| {
            if !awaited.is_empty() {
                let names = joined(awaited.iter().map(|group| name(group.name.as_str())));
                let done = all.len() - awaited.len();
                progress.show(&format!("{done} of {} done, waiting for {names}", all.len()));
            }
        },
    )
    .await;
}

/// Returns whether a server is connected, or has failed to be.
fn is_decided(group: &Upstream) -> bool {
    let snapshot = group.snapshot();
    let has_failed = matches!(snapshot.state, State::Failed(_));
    matches!(snapshot.state, State::Connected) || (has_failed && snapshot.connecting.is_none())
}
