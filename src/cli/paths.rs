//! The files that the commands use: configs, logins and pins.

use super::Cli;
use crate::auth::keyring::Keyring;
use crate::auth::secret_store::SecretStore;
use crate::auth::token_store::TokenStore;
use crate::config::vars::Env;
use crate::config::{Settings, secrets};
use crate::dirs;
use std::path::PathBuf;

/// The config files of the command line, or else the default one.
pub(super) fn config_files(cli: &Cli, env: &Env) -> Vec<PathBuf> {
    match cli.config.is_empty() {
        true => dirs::default_config_file(env).into_iter().collect(),
        false => cli.config.clone(),
    }
}

/// The directory of what is remembered of the servers' tools. `None` if the home directory is not known.
pub(super) fn pins_dir(env: &Env) -> Option<PathBuf> {
    Some(dirs::state_dir(env)?.join("pins"))
}

/// The logins of this user: files in `logins` of the data directory, and the system's keyring, unless the settings turn
/// it off. `may_prompt` says whether the user may be asked to unlock it. `None` if the home directory is not known.
pub(super) fn token_store(env: &Env, settings: &Settings, may_prompt: bool) -> Option<TokenStore> {
    let keyring = match settings.keyring {
        true => Keyring::of_system(env, may_prompt),
        false => Keyring::disabled(),
    };
    Some(TokenStore::new(dirs::data_dir(env)?.join("logins"), keyring))
}

/// The secrets of this user, in the system's keyring, whatever the settings say about logins. `None` if the home
/// directory is not known.
pub(super) fn secret_store(env: &Env) -> Option<SecretStore> {
    Some(SecretStore::new(Keyring::of_system(env, true), secrets::marker_dir(env)?))
}
