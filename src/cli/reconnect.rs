//! `dynamic-mcp reconnect GROUP`: connects a group of a running instance again.

use super::instances::query::{self, Reconnected};
use super::instances::selection;
use super::terminal;
use crate::config::vars::Env;
use base::text::name;
use clap::Args;
use std::process::ExitCode;

/// Connect a server of a running instance again
#[derive(Args, Debug)]
pub struct ReconnectArgs {
    /// The name of the server in the config
    pub group: String,
    /// In every instance that has the server, not only in the one that runs in this directory
    #[arg(long)]
    pub all: bool,
}

/// Connects a group again: in the instances of this directory, in the only one that has the group, or in all.
///
/// # Errors
///
/// Fails if no instance is meant or one does not answer, the directory of the endpoints cannot be used, or stdout cannot
/// be written.
pub async fn reconnect(args: &ReconnectArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let chosen = selection::choose(query::all(env).await?, &args.group, args.all, env)?;
    for instance in chosen {
        let pid = instance.status.pid;
        match instance.reconnect(&args.group).await? {
            Reconnected::Yes => {
                terminal::line(format_args!("{}: reconnecting in pid {pid}", name(&args.group)))?;
            }
            Reconnected::NoSuchGroup => {
                terminal::message(format_args!("pid {pid} has {} no more", name(&args.group)));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
