//! `dynamic-mcp logs GROUP`: what a server of a running instance has written to stderr.

use super::running_instances::{choose, running_instances};
use base::text::name;
use clap::Args;
use config::env::Env;
use instance::control::InstanceStatus;
use instance::control::query::RunningInstance;
use instance::signals::EndSignals;
use process::server_log::{LogCursor, LogPage};
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

/// The interval between two looks with `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Show what a server of a running instance has written to stderr
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// The name of the server in the config
    #[arg(value_name = "SERVER")]
    pub group: String,
    /// Keep printing new lines, until Ctrl-C or the end of the instance
    #[arg(short, long)]
    pub follow: bool,
    /// Print the log of every instance that has the server, not only of the one in this directory
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
/// Fails if no instance is meant, signals cannot be handled, or the directory of the endpoints cannot be used. If
/// stdout cannot be written, no more lines are read, and that is a success.
pub async fn logs(args: &LogsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let chosen = choose(running_instances(env).await?, &args.group, args.all, env)?;
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
        let mut still_read = Vec::new();
        for mut read in read {
            if print_next(&mut read, &args.group, names).await {
                still_read.push(read);
            }
        }
        read = still_read;
        if !args.follow || read.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
        }
    }
}

/// Prints the lines that are new. `names`: after the pid of the instance. Returns whether there may be more later.
async fn print_next(read: &mut ReadInstance, group: &str, names: bool) -> bool {
    let pid = read.instance.status.pid;
    let end = match read.instance.log(group, read.cursor).await {
        Ok(Some(page)) => {
            if read.cursor.replace(page.cursor).is_none() && page.lines.is_empty() {
                say_empty(&read.instance.status, group);
            }
            return print(&page, names.then_some(pid)).is_ok();
        }
        Ok(None) => format!("no longer has {}", name(group)),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => "has ended".to_owned(),
            _ => format!("does not answer: {error}"),
        },
    };
    terminal::message(format_args!("the instance with pid {pid} {end}"));
    false
}

/// Says that a server has written nothing, and why it failed, if it did.
fn say_empty(status: &InstanceStatus, group: &str) {
    let error =
        status.group(group).and_then(|group| group["error"].as_str()).and_then(|error| error.lines().next());
    let why = error.map(|error| format!("; it failed: {error}")).unwrap_or_default();
    terminal::message(format_args!(
        "{}: nothing was written to stderr in the instance with pid {}{why}",
        name(group),
        status.pid
    ));
}

/// Prints lines, after the pid of the instance if there are several.
///
/// # Errors
///
/// Fails if stdout cannot be written.
fn print(page: &LogPage, pid: Option<u32>) -> std::io::Result<()> {
    let prefix = pid.map(|pid| format!("[{pid}] ")).unwrap_or_default();
    let mut text = String::new();
    if page.missed > 0 {
        text.push_str(&format!("{prefix}({} lines are not kept any more)\n", page.missed));
    }
    for line in &page.lines {
        text.push_str(&format!("{prefix}{line}\n"));
    }
    terminal::payload(text.as_bytes())
}
