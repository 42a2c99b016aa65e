//! `dynamic-mcp logs GROUP`: what a server of a running instance has written to stderr.

use super::instances::query::{self, LogReply, RunningInstance};
use super::instances::selection;
use super::signals::EndSignals;
use super::stderr;
use crate::config::vars::Env;
use crate::transport::server_log::{LogCursor, LogPage};
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// The interval between two looks with `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Show what a server of a running instance has written to stderr
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// The name of the server in the config
    pub group: String,
    /// Go on with what it writes, until Ctrl-C or the end of the instance
    #[arg(short, long)]
    pub follow: bool,
    /// Of every instance that has the server, not only of the one that runs in this directory
    #[arg(long)]
    pub all: bool,
}

/// An instance whose log is read.
struct ReadInstance {
    instance: RunningInstance,
    cursor: Option<LogCursor>,
}

/// Prints the last lines of a server's log: in the instances of this directory, in the only one that has the group, or
/// in all. A shared server's lines are printed once.
///
/// # Errors
///
/// Fails if no instance is meant, signals cannot be handled, the directory of the endpoints cannot be used, or stdout
/// cannot be written.
pub async fn logs(args: &LogsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let chosen = selection::choose(query::all(env)?, &args.group, args.all, env)?;
    let mut servers = Vec::new();
    let mut read: Vec<ReadInstance> = Vec::new();
    for instance in chosen {
        let server = instance.status.shared_server(&args.group);
        if server.is_none() || !servers.contains(&server) {
            servers.push(server);
            read.push(ReadInstance { instance, cursor: None });
        }
    }
    let names = read.len() > 1;
    let mut signals = EndSignals::listen()?;
    loop {
        read.retain_mut(|read| match read.instance.log(&args.group, read.cursor) {
            Ok(LogReply::Page(page)) => {
                let prefix = names.then_some(read.instance.status.pid);
                let is_printed = print(&page, prefix).is_ok();
                read.cursor = Some(page.cursor);
                is_printed
            }
            Ok(LogReply::NoSuchGroup) => {
                stderr::message(format_args!("pid {} has {} no more", read.instance.status.pid, args.group));
                false
            }
            Err(error) => {
                stderr::message(format_args!("pid {} does not answer: {error}", read.instance.status.pid));
                false
            }
        });
        if !args.follow || read.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
        }
    }
}

/// Prints lines, after the pid of the instance if there are several.
fn print(page: &LogPage, pid: Option<u32>) -> std::io::Result<()> {
    let prefix = pid.map(|pid| format!("[{pid}] ")).unwrap_or_default();
    let mut text = String::new();
    if page.missed > 0 {
        text.push_str(&format!("{prefix}({} lines are not kept any more)\n", page.missed));
    }
    for line in &page.lines {
        text.push_str(&format!("{prefix}{line}\n"));
    }
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
