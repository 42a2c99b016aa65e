//! The running instances, and which of them a command about a group means.

use base::text::{self, joined, name, quoted};
use config::env::Env;
use instance::control::query::{self, RunningInstance};
use std::collections::BTreeSet;
use std::io;
use terminal::outcome::{CommandError, EXIT_USAGE};

/// Returns the running instances, the oldest first. Says which do not answer.
///
/// # Errors
///
/// Fails if the directory of the endpoints cannot be used.
pub(super) async fn running_instances(env: &Env) -> io::Result<Vec<RunningInstance>> {
    let instances = query::ask_all(env).await?;
    instances.silent.iter().for_each(terminal::message);
    Ok(instances.answering)
}

/// Chooses the instances of this directory that have the group, or the only one that has it, or `all` that have it.
///
/// # Errors
///
/// Fails if there is none, or it is not clear which is meant.
pub(super) fn choose(
    mut instances: Vec<RunningInstance>,
    group: &str,
    all: bool,
    env: &Env,
) -> Result<Vec<RunningInstance>, CommandError> {
    if instances.is_empty() {
        let message = format!(
            "no instance of dynamic-mcp is running: start a client that uses it, or see with `dynamic-mcp check {}` \
             what the server says",
            text::shell_word(group).unwrap_or_else(|| "NAME".to_owned())
        );
        return Err(CommandError::new(EXIT_USAGE, message));
    }
    let known: BTreeSet<String> = instances.iter().flat_map(|instance| instance.status.names()).collect();
    let is_disabled = instances.iter().any(|instance| instance.status.disables(group));
    instances.retain(|instance| instance.status.group(group).is_some());
    let is_here = |instance: &RunningInstance| instance.status.cwd == env.cwd().to_string_lossy();
    let (count, is_any_here) = (instances.len(), instances.iter().any(is_here));
    let message = match (count, is_any_here) {
        (0, _) if is_disabled => format!("{0} is disabled; run `dynamic-mcp enable {0}`", name(group)),
        (0, _) if known.is_empty() => format!("no running instance has a server {}", quoted(group)),
        (0, _) => {
            let known = joined(known.iter().map(|known| name(known)));
            format!("no running instance has a server {}; the servers: {known}", quoted(group))
        }
        _ if all || count == 1 => return Ok(instances),
        (_, true) => {
            instances.retain(is_here);
            return Ok(instances);
        }
        (_, false) => format!(
            "{count} instances have a server {}, and none of them runs in this directory: run this in the \
             directory of one of them, or with --all",
            quoted(group)
        ),
    };
    Err(CommandError::new(EXIT_USAGE, message))
}
