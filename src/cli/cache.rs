//! `dynamic-mcp cache clear`, and where the cache is.

use super::Cli;
use crate::cache;
use crate::config::vars::Env;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// `None` with `--no-cache`, or where there is no place for one.
pub fn cache_dir(cli: &Cli, env: &Env) -> Option<PathBuf> {
    if cli.no_cache { None } else { place(env) }
}

/// Of this user: `$XDG_CACHE_HOME/dynamic-mcp`, on Windows in `%LOCALAPPDATA%`.
fn place(env: &Env) -> Option<PathBuf> {
    let absolute = |name| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match cfg!(windows) {
        true => absolute("LOCALAPPDATA"),
        false => absolute("XDG_CACHE_HOME").or_else(|| Some(env.home()?.join(".cache"))),
    };
    Some(base?.join("dynamic-mcp"))
}

/// Forgets what was learnt of every server.
pub fn clear(env: &Env) -> anyhow::Result<ExitCode> {
    let dir = place(env).ok_or_else(|| anyhow::anyhow!("there is no cache directory: HOME is not set"))?;
    let servers = cache::clear(&dir)?;
    writeln!(std::io::stdout(), "forgot the tools of {servers} servers ({})", dir.display())?;
    Ok(ExitCode::SUCCESS)
}
