//! The binary: reads the environment, builds the runtime, runs the command and turns its outcome into an exit code.

use anyhow::Context;
use clap::Parser;
use dynamic_mcp::cli::{self, CacheCommand, Cli, CliCommand, demo, serve};
use dynamic_mcp::config::vars::Env;
use dynamic_mcp::telemetry;
use dynamic_mcp::transport::launch::ProcessEnv;
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: the warden must have a single thread and no open files.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|mode| mode == dynamic_mcp::transport::warden::MODE_ARG) {
        return dynamic_mcp::transport::warden::run();
    }
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|mode| mode == dynamic_mcp::transport::shared::MODE_ARG) {
        return dynamic_mcp::host::run(std::env::args_os().skip(2));
    }
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("dynamic-mcp: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let process_env = ProcessEnv { vars: std::env::vars_os().collect(), cwd };
    let utf8_vars = process_env.vars.iter().filter_map(|(key, value)| Some((key.to_str()?, value.to_str()?)));
    let env = Env::new(utf8_vars, process_env.cwd.clone());
    let _flush_log = telemetry::init(telemetry::Options {
        level: cli.log_level.as_deref(),
        filter: env.get("DYNAMIC_MCP_LOG"),
        file: cli.log_file.as_deref(),
        no_color: env.get("NO_COLOR").is_some_and(|value| !value.is_empty()),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let outcome = runtime.block_on(async {
        match &cli.command {
            None => serve::serve(cli, &env, process_env).await,
            Some(CliCommand::Demo) => demo::demo(&env).await,
            Some(CliCommand::Login(args)) => cli::login::login(args, cli, &env).await,
            Some(CliCommand::Logout { name }) => cli::login::logout(name, cli, &env).await,
            Some(CliCommand::Status(args)) => cli::status::status(args, &env).await,
            Some(CliCommand::Reconnect(args)) => cli::reconnect::reconnect(args, &env),
            Some(CliCommand::Schema) => cli::schema(),
            Some(CliCommand::Cache { command: CacheCommand::Clear }) => cli::cache::clear(&env),
            Some(CliCommand::DemoServer { group, pid_file }) => {
                demo::server::serve(group, pid_file.as_deref())
            }
        }
    });
    // A blocking thread that reads stdin cannot be cancelled. Waiting for it would delay the exit.
    runtime.shutdown_background();
    outcome
}
