//! `dynamic-mcp cache clear`, and where the cache is.

use super::Cli;
use crate::cache;
use crate::config::vars::Env;
use crate::dirs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// `None` with `--no-cache`, or where there is no place for one.
pub fn cache_dir(cli: &Cli, env: &Env) -> Option<PathBuf> {
    if cli.no_cache { None } else { dirs::cache_dir(env) }
}

/// Forgets what was learnt of every server.
pub fn clear(env: &Env) -> anyhow::Result<ExitCode> {
    let dir = dirs::cache_dir(env)
        .ok_or_else(|| anyhow::anyhow!("there is no cache directory: HOME is not set"))?;
    let servers = cache::clear(&dir)?;
    writeln!(std::io::stdout(), "forgot the tools of {servers} servers ({})", dir.display())?;
    Ok(ExitCode::SUCCESS)
}
