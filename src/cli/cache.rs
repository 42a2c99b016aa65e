//! `dynamic-mcp cache clear`, and `cache export` for the replicas of `serve --http`.

use super::config_files::load_config;
use base::text::{self, quoted_list};
use config::env::Env;
use config::{GroupName, Overrides, dirs};
use instance::InstanceOptions;
use std::process::ExitCode;
use upstream::cache;
use upstream::cache::export::{CatalogDirs, ExportedCatalogs};

/// Removes the catalogs of all servers from the cache.
///
/// # Errors
///
/// Fails if there is no cache directory, it cannot be removed, or stdout cannot be written.
pub fn clear(env: &Env) -> anyhow::Result<ExitCode> {
    let dir = dirs::cache_dir(env);
    let dir = dir.ok_or_else(|| anyhow::anyhow!("there is no cache directory because HOME is not set"))?;
    let servers = cache::clear(&dir)?;
    terminal::line(format_args!(
        "removed the cached tools of {} from {}",
        text::counted(servers, "server"),
        text::path(&dir)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the cached tools and the pins of the servers of the config, for `serve --http --catalog`.
///
/// # Errors
///
/// Fails if the config has an error, nothing is known of a server, or stdout cannot be written.
pub fn export(options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let overrides = Overrides { all_users_only: true, ..Overrides::default() };
    let config = load_config(overrides, options, env)?;
    let (Some(cache), Some(pins)) = (options.cache_dir.clone(), options.pins_dir.clone()) else {
        anyhow::bail!("there is no cache directory because HOME is not set, or --no-cache is given");
    };
    let (exported, unknown) = ExportedCatalogs::read(&config, env, &CatalogDirs { cache, pins });
    if !unknown.is_empty() {
        let names = quoted_list(unknown.iter().map(GroupName::as_str));
        anyhow::bail!("the tools of {names} are not known: run `dynamic-mcp check` first");
    }
    terminal::payload(&serde_json::to_vec(&exported)?)?;
    Ok(ExitCode::SUCCESS)
}
