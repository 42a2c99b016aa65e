//! Runs a command on an instance of its own.

use super::print::Printout;
use crate::cli::config_files::load_config;
use crate::cli::started::on_instance;
use base::text::{joined, name};
use config::env::Env;
use config::{Config, GroupName, Overrides};
use instance::InstanceOptions;
use instance::embedded::{EmbeddedInstance, wait_for_groups};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use terminal::ProgressLine;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_INTERRUPTED};
use upstream::Upstream;

/// How long discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// A budget, in tokens, that every list of a person's own servers fits.
const NO_BUDGET: usize = 1 << 30;

/// Reads the config, with all tools fully described. `group` is the only server to start, if it is one of the config.
///
/// # Errors
///
/// Fails if there is no server, or no such profile.
fn load(
    overrides: Overrides,
    group: Option<&str>,
    options: &InstanceOptions,
    env: &Env,
) -> Result<Config, CommandError> {
    let mut config = load_config(overrides, options, env)?;
    config.settings.tools_budget = NO_BUDGET;
    // A person sees results whole.
    let servers = config.servers.iter_mut().flat_map(|(_, server)| server);
    servers.for_each(|server| Arc::make_mut(server).common.store_above = None);
    let errors: Vec<_> = config.errors.iter().map(ToString::to_string).collect();
    if config.servers.is_empty() {
        let message = match (errors.is_empty(), config.profile_summary()) {
            (false, _) => errors.join("\n"),
            (true, Some(profile)) => profile,
            (true, None) => format!(
                "the config has no server; `dynamic-mcp import{}` adds those of your MCP clients",
                options.config_args(env)
            ),
        };
        return Err(CommandError::new(EXIT_CONFIG, message));
    }
    errors.iter().for_each(terminal::message);
    if let Some(name) = group.map(GroupName::new)
        && config.servers.iter().any(|(known, _)| *known == name)
    {
        config.servers.retain(|(known, _)| *known == name);
    }
    Ok(config)
}

/// Waits until the servers that are started for their lists have answered or failed, but for `DISCOVERY_TIMEOUT` at
/// most. A terminal shows which are awaited.
pub(super) async fn wait_for_discovery(instance: &EmbeddedInstance) {
    let groups = &instance.groups;
    let mut progress = ProgressLine::on_stderr();
    // Until discovery is over, because the lists show what it found only then.
    let is_awaited = |_: &Upstream| groups.is_discovering();
    wait_for_groups(groups, DISCOVERY_TIMEOUT, is_awaited, |all, _| {
        let expected = all.iter().filter(|group| groups.expects_catalog(group));
        let names = joined(expected.map(|group| name(group.name.as_str())));
        if !names.is_empty() {
            progress.show(&format!("waiting for {names}"));
        }
    })
    .await;
}

/// Runs a command on an instance of our own, until it is done or a signal comes, closes the instance, and prints what
/// the command returns. `group` is the only server to start, if it is one of the config.
///
/// # Errors
///
/// Fails if the config has no server or no such profile, the instance cannot be started, `command` fails, or stdout
/// cannot be written.
pub(super) async fn run(
    overrides: Overrides,
    group: Option<&str>,
    options: &InstanceOptions,
    env: &Env,
    command: impl AsyncFnOnce(&EmbeddedInstance) -> anyhow::Result<Printout>,
) -> anyhow::Result<ExitCode> {
    let config = load(overrides, group, options, env)?;
    match on_instance(config, options, env.clone(), command).await? {
        Some(printout) => Ok(ExitCode::from(printout?.print()?)),
        None => Ok(ExitCode::from(EXIT_INTERRUPTED)),
    }
}
