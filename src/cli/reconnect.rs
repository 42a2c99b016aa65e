//! `dynamic-mcp reconnect GROUP`: connects a group of a running instance again.

use super::running_instances::{choose, running_instances};
use base::text::name;
use clap::Args;
use config::env::Env;
use instance::control::query::RunningInstance;
use std::process::ExitCode;
use std::time::Duration;
use terminal::outcome::EXIT_FAILURE;
use tokio::time::{Instant, sleep};

/// How long the outcome is awaited.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the instance is asked for it. It begins the attempt well before the first time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Connect a server of a running instance again
#[derive(Args, Debug)]
pub struct ReconnectArgs {
    /// The name of the server in the config
    #[arg(value_name = "SERVER")]
    pub group: String,
    /// Connect it in every instance that has the server, not only in the one in this directory
    #[arg(long)]
    pub all: bool,
}

/// Connects a group again: in the instances of this directory, in the only one that has the group, or in all. Waits up
/// to `OUTCOME_TIMEOUT` for each of them. One that is still connecting then counts as a success.
///
/// # Errors
///
/// Fails if no instance is meant or one does not answer, the directory of the endpoints cannot be used, or stdout
/// cannot be written.
pub async fn reconnect(args: &ReconnectArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let chosen = choose(running_instances(env).await?, &args.group, args.all, env)?;
    let mut exit_code = ExitCode::SUCCESS;
    for instance in chosen {
        let (pid, group) = (instance.status.pid, name(&args.group));
        if !instance.reconnect(&args.group).await? {
            terminal::message(format_args!("pid {pid} no longer has {group}"));
            continue;
        }
        match outcome(&instance, &args.group).await? {
            ReconnectOutcome::Connected => {
                terminal::line(format_args!("{group}: connected again in pid {pid}"))?;
            }
            ReconnectOutcome::Failed(error) => {
                terminal::message(format_args!("{group}: not connected in pid {pid}: {error}"));
                exit_code = ExitCode::from(EXIT_FAILURE);
            }
            ReconnectOutcome::Connecting => {
                let seconds = OUTCOME_TIMEOUT.as_secs();
                terminal::line(format_args!(
                    "{group}: reconnecting in pid {pid}, for {seconds} s so far; `dynamic-mcp status` shows how it goes"
                ))?;
            }
        }
    }
    Ok(exit_code)
}

/// What became of a new connection.
enum ReconnectOutcome {
    Connected,
    /// The attempt failed for this reason.
    Failed(String),
    /// The attempt goes on.
    Connecting,
}

/// Waits for the end of the attempt that a request to reconnect began. `Connecting`: it goes on after
/// `OUTCOME_TIMEOUT`, or the instance has no such group any more.
///
/// # Errors
///
/// Fails if the instance does not answer.
async fn outcome(instance: &RunningInstance, group: &str) -> std::io::Result<ReconnectOutcome> {
    let deadline = Instant::now() + OUTCOME_TIMEOUT;
    while Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
        let status = instance.ask_status().await?;
        let Some(group) = status.group(group) else { break };
        if group["connecting"] != true {
            let error = group["error"].as_str().unwrap_or_default().to_owned();
            let has_failed = group["state"] == "failed";
            return Ok(if has_failed {
                ReconnectOutcome::Failed(error)
            } else {
                ReconnectOutcome::Connected
            });
        }
    }
    Ok(ReconnectOutcome::Connecting)
}
