//! The files that the commands use: configs, the cache and the logins.

use super::Cli;
use crate::auth::keyring::Keyring;
use crate::auth::token_store::TokenStore;
use crate::config::Settings;
use crate::config::load;
use crate::config::vars::Env;
use std::path::PathBuf;

/// The config files of the command line, or else the default one.
pub(super) fn config_files(cli: &Cli, env: &Env) -> Vec<PathBuf> {
    match cli.config.is_empty() {
        true => load::default_path(env).into_iter().collect(),
        false => cli.config.clone(),
    }
}

/// The cache directory: `$XDG_CACHE_HOME/dynamic-mcp`, on Windows `%LOCALAPPDATA%\dynamic-mcp`. `None` if the home
/// directory is not known.
pub(super) fn user_cache_dir(env: &Env) -> Option<PathBuf> {
    user_dir(env, "XDG_CACHE_HOME", ".cache")
}

/// The logins of this user: files in `$XDG_DATA_HOME/dynamic-mcp/logins`, on Windows in `%LOCALAPPDATA%`, and the
/// system's keyring, unless the settings turn it off. `may_prompt`: the user may be asked to unlock it. `None` if the
/// home directory is not known.
pub(super) fn token_store(env: &Env, settings: &Settings, may_prompt: bool) -> Option<TokenStore> {
    let keyring = match settings.keyring {
        true => Keyring::of_system(env, may_prompt),
        false => Keyring::disabled(),
    };
    Some(TokenStore::new(user_dir(env, "XDG_DATA_HOME", ".local/share")?.join("logins"), keyring))
}

/// This program's directory in the one that `variable` names, or else in `default` of the home directory.
fn user_dir(env: &Env, variable: &str, default: &str) -> Option<PathBuf> {
    // The XDG specification has relative paths ignored.
    let absolute = |name| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match cfg!(windows) {
        true => absolute("LOCALAPPDATA"),
        false => absolute(variable).or_else(|| Some(env.home()?.join(default))),
    };
    Some(base?.join("dynamic-mcp"))
}
