//! The stores of this user that instances and commands share: logins and secrets.

use super::InstanceOptions;
use auth::keyring::Keyring;
use auth::secret_store::SecretStore;
use auth::token_store::TokenStore;
use config::env::Env;
use config::secrets::SecretKeyring;
use config::{Settings, secrets};
use std::sync::Arc;

/// Returns the logins of this user: files in `logins` of the data directory, and the system's keyring, unless the
/// settings turn it off. `may_prompt` says whether the user may be asked to unlock it. `None` if the home directory is
/// not known.
pub fn token_store(
    options: &InstanceOptions,
    env: &Env,
    settings: &Settings,
    may_prompt: bool,
) -> Option<TokenStore> {
    let keyring = match settings.keyring {
        true => Keyring::of_system(env, may_prompt),
        false => Keyring::disabled(),
    };
    let store = TokenStore::new(env.data_dir()?.join("logins"), keyring);
    Some(store.with_command_options(&options.config_args(env)))
}

/// Returns the secrets of this user, in the system's keyring, which the user may be asked to unlock. The settings about
/// logins do not matter here. `None` if the home directory is not known.
pub fn secret_store(env: &Env) -> Option<SecretStore> {
    Some(SecretStore::new(Keyring::of_system(env, true), secrets::marker_dir(env)?))
}

/// Returns the secrets of this user for servers that start. The user may be asked to unlock the keyring.
pub fn secret_keyring(env: &Env) -> Option<Arc<dyn SecretKeyring>> {
    Some(Arc::new(secret_store(env)?))
}
