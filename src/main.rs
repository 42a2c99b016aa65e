//! The binary: reads the environment, builds the runtime, turns the outcome into an exit code.

use anyhow::Context;
use clap::Parser;
use dynamic_mcp::cli::{self, CacheCommand, Cli, Command, demo, serve};
use dynamic_mcp::config::vars::Env;
use dynamic_mcp::telemetry;
use dynamic_mcp::transport::launch::ProcessEnv;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: the warden must stay one thread with nothing open.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|mode| mode == dynamic_mcp::transport::warden::MODE) {
        return dynamic_mcp::transport::warden::run();
    }
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("dynamic-mcp: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let ambient = ProcessEnv { vars: std::env::vars_os().collect(), cwd };
    let strings = ambient.vars.iter().filter_map(|(key, value)| Some((key.to_str()?, value.to_str()?)));
    let env = Env::new(strings, ambient.cwd.clone());
    let _flush_at_end = telemetry::init(telemetry::Options {
        level: cli.log_level.as_deref(),
        filter: env.get("DYNAMIC_MCP_LOG"),
        file: cli.log_file.as_deref(),
        no_color: env.get("NO_COLOR").is_some_and(|value| !value.is_empty()),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let outcome = runtime.block_on(async {
        match &cli.command {
            None => serve::serve(cli, &env, ambient).await,
            Some(Command::Demo) => demo::demo(&env).await,
            Some(Command::Login(args)) => cli::login::login(args, cli, &env).await,
            Some(Command::Logout { name }) => cli::login::logout(name, cli, &env).await,
            Some(Command::Schema) => cli::schema(),
            Some(Command::Cache { command: CacheCommand::Clear }) => cli::cache::clear(&env),
            Some(Command::DemoServer { group, pid_file }) => demo::server::serve(group, pid_file.as_deref()),
        }
    });
    // A read of stdin in a blocking thread cannot be cancelled; it must not hold us up.
    runtime.shutdown_background();
    outcome
}
