//! The instance on which a command works, and the wait until all its servers have answered or failed.

use super::shell::forms;
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

/// Does the work of a command on an instance of its own, until it is done or a signal comes, and closes the instance.
/// Returns what the work returns; `None` if a signal came.
///
/// # Errors
///
/// Fails if the instance cannot be started.
pub(super) async fn on_instance<T>(
    config: Config,
    options: &InstanceOptions,
    env: Env,
    work: impl AsyncFnOnce(&EmbeddedInstance) -> T,
) -> anyhow::Result<Option<T>> {
    let instance = EmbeddedInstance::start(config, options, env, forms::handler()).await?;
    let outcome = tokio::select! {
        outcome = work(&instance) => Some(outcome),
        // Dropping the work cancels its requests.
        () = interrupted() => None,
    };
    instance.close().await;
    Ok(outcome)
}

/// Waits until every server is connected or has failed, but for `START_TIMEOUT` at most. Shows on a terminal which are
/// waited for.
pub(super) async fn wait_for_all(instance: &EmbeddedInstance) {
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
