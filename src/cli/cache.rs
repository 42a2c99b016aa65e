//! `dynamic-mcp cache clear`.

use base::text;
use config::dirs;
use config::env::Env;
use std::process::ExitCode;
use upstream::cache;

/// Removes the catalogs of all servers from the cache.
///
/// # Errors
///
/// Fails if there is no cache directory, it cannot be removed, or stdout cannot be written.
pub fn clear(env: &Env) -> anyhow::Result<ExitCode> {
    let dir = dirs::cache_dir(env);
    let dir = dir.ok_or_else(|| anyhow::anyhow!("there is no cache directory because HOME is not set"))?;
    let servers = cache::clear(&dir)?;
    terminal::line(format_args!("removed the cached tools of {servers} servers from {}", text::path(&dir)))?;
    Ok(ExitCode::SUCCESS)
}
