//! `dynamic-mcp reconnect GROUP`: connects a group of a running instance again.

use super::instances::query::{self, Reconnected, RunningInstance};
use crate::config::vars::Env;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;

/// The command line does not say which instance is meant, or names no group.
const EXIT_USAGE: u8 = 2;

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
/// Fails if the runtime directory cannot be used, an instance does not answer, or stdout cannot be written.
pub fn reconnect(args: &ReconnectArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let mut instances = query::all(env)?;
    instances.retain(|instance| instance.status.has_group(&args.group));
    let is_here = |instance: &&RunningInstance| instance.status.cwd == env.cwd();
    let here: Vec<&RunningInstance> = instances.iter().filter(is_here).collect();
    let chosen = match (args.all, &here[..], &instances[..]) {
        (_, _, []) => {
            eprintln!("dynamic-mcp: no running instance has a group {:?}", args.group);
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        (true, ..) => instances.iter().collect(),
        (false, [], [only]) => vec![only],
        (false, [], several) => {
            eprintln!(
                "dynamic-mcp: {} instances have a group {:?}, and none of them runs in this directory: \
                 run this in the directory of one of them, or with --all",
                several.len(),
                args.group
            );
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        (false, ..) => here,
    };
    for instance in chosen {
        let pid = instance.status.pid;
        match instance.reconnect(&args.group)? {
            Reconnected::Yes => writeln!(std::io::stdout(), "{}: reconnecting in pid {pid}", args.group)?,
            Reconnected::NoSuchGroup => eprintln!("dynamic-mcp: {}: pid {pid} has it no more", args.group),
        }
    }
    Ok(ExitCode::SUCCESS)
}
