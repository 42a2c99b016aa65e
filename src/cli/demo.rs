//! `dynamic-mcp demo`: the main job, end to end, on this machine alone.
//!
//! `server` is the MCP server that is built in, `stage` what is needed on disk, `client` speaks MCP to this program as
//! any client would, `story` is what is done and told, `page` how it looks.

use crate::config::vars::Env;
use crate::dirs;
use anyhow::{anyhow, bail};
use page::Page;
use stage::Stage;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

pub mod client;
pub mod page;
pub mod server;
pub mod stage;
pub mod story;

/// Shows it on stdout.
pub async fn demo(env: &Env) -> anyhow::Result<ExitCode> {
    let stdout = std::io::stdout();
    let color = stdout.is_terminal() && env.get("NO_COLOR").is_none_or(str::is_empty);
    show(&mut stdout.lock(), color, env).await?;
    Ok(ExitCode::SUCCESS)
}

async fn show(out: &mut dyn Write, color: bool, env: &Env) -> anyhow::Result<()> {
    let stage = Stage::set_up()?;
    let mut page = Page::new(out, color);
    let outcome = tokio::select! {
        outcome = story::tell(&mut page, &stage, dirs::default_config_file(env)) => outcome,
        _ = tokio::signal::ctrl_c() => bail!("the demo was interrupted"),
    };
    outcome.map_err(|error| match stage.last_log_lines() {
        log if log.is_empty() => error.context("the demo failed"),
        log => anyhow!("the demo failed: {error:#}\nThe end of the log:\n{log}"),
    })
}

/// The server that is built in, on stdin and stdout.
pub async fn server(kind: &str, env: &Env) -> anyhow::Result<ExitCode> {
    server::run(kind, env.get(server::PID_FILE)).await?;
    Ok(ExitCode::SUCCESS)
}
