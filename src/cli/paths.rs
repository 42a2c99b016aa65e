//! The files that the commands use: configs, logins and pins.

use super::Cli;
use super::outcome::{CommandError, EXIT_CONFIG, EXIT_USAGE};
use crate::auth::keyring::Keyring;
use crate::auth::secret_store::SecretStore;
use crate::auth::token_store::TokenStore;
use crate::config::vars::Env;
use crate::config::{Config, GroupName, Overrides, ServerConfig, Settings, load, secrets};
use crate::dirs;
use crate::transport::secrets::SecretKeyring;
use base::text;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The config files of the command line, or else the default one.
pub(super) fn config_files(cli: &Cli, env: &Env) -> Vec<PathBuf> {
    match cli.config.is_empty() {
        true => dirs::default_config_file(env).into_iter().collect(),
        false => cli.config.iter().map(|path| config_file(path, env).0).collect(),
    }
}

/// The config files of the command line that may be absent.
pub(super) fn optional_files(cli: &Cli, env: &Env) -> BTreeSet<PathBuf> {
    let files = cli.config.iter().map(|path| config_file(path, env));
    files.filter(|(_, is_optional)| *is_optional).map(|(path, _)| path).collect()
}

/// Reads the config files of the command line, for a command that uses the servers of the profile.
///
/// # Errors
///
/// Fails if nothing is wrong but that there is no such profile, which is a usage error.
pub(super) fn load_config(cli: &Cli, env: &Env) -> Result<Config, CommandError> {
    load_config_with(Overrides::default(), cli, env)
}

/// The same, for a command that overrides settings.
///
/// # Errors
///
/// Fails like [`load_config`].
pub(super) fn load_config_with(overrides: Overrides, cli: &Cli, env: &Env) -> Result<Config, CommandError> {
    let config = load_all_servers(Overrides { profile: cli.profile.clone(), ..overrides }, cli, env);
    match config.wrong_profile() {
        Some(error) => Err(CommandError::new(EXIT_USAGE, error.to_string())),
        None => Ok(config),
    }
}

/// Reads the config files of the command line, for a command that is about all servers.
pub(super) fn load_all_servers(overrides: Overrides, cli: &Cli, env: &Env) -> Config {
    let overrides = Overrides { optional_files: optional_files(cli, env), ..overrides };
    load::load(&config_files(cli, env), env, &overrides)
}

/// Returns the server with this name.
///
/// # Errors
///
/// The config does not have it, or it is invalid.
pub(super) fn find_server<'c>(
    config: &'c Config,
    name: &GroupName,
) -> Result<&'c ServerConfig, CommandError> {
    let invalid_config = |message: String| Err(CommandError::new(EXIT_CONFIG, message));
    match config.server(name) {
        Some(Ok(server)) => Ok(server),
        Some(Err(error)) => invalid_config(error.to_string()),
        None if !config.errors.is_empty() => invalid_config(config.errors[0].to_string()),
        None if config.is_left_out(name) => {
            let message = "the profile leaves this server out; choose another profile, or none";
            Err(CommandError::new(EXIT_USAGE, message))
        }
        None if let Some(disabled) = config.disabled(name.as_str()) => {
            Err(CommandError::new(EXIT_USAGE, format!("the server is {disabled}")))
        }
        None => Err(no_such_server(config.servers.iter().map(|(name, _)| name.as_str()))),
    }
}

/// The error of a name that no server has. `known`: the names of the servers.
pub(super) fn no_such_server<'n>(known: impl Iterator<Item = &'n str>) -> CommandError {
    let known: Vec<_> = known.map(text::name).collect();
    let known = match known.is_empty() {
        true => "there are no servers in the config".to_owned(),
        false => format!("the config has {}", known.join(", ")),
    };
    CommandError::new(EXIT_USAGE, format!("there is no such server; {known}"))
}

/// The options with which another command reads the same config files, with a space before them; empty for the default
/// file. A path that cannot be typed is left out.
pub(super) fn config_options(cli: &Cli, env: &Env) -> String {
    let files = cli.config.iter().map(|path| env.cwd().join(config_file(path, env).0));
    files.filter_map(|file| Some(format!(" --config {}", text::shell_word(file.to_str()?)?))).collect()
}

/// The path that `--config` means, and whether its file may be absent: a `?` at its end says so.
fn config_file(path: &Path, env: &Env) -> (PathBuf, bool) {
    let optional = path.to_str().and_then(|path| path.strip_suffix('?')).filter(|path| !path.is_empty());
    (expand_home(optional.map_or(path, Path::new), env), optional.is_some())
}

/// Replaces a leading `~` by the home directory, because a client that starts us does not.
pub fn expand_home(path: &Path, env: &Env) -> PathBuf {
    match (path.strip_prefix("~"), env.home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// The directory of what is remembered of the servers' tools. `None` if the home directory is not known.
pub(super) fn pins_dir(env: &Env) -> Option<PathBuf> {
    Some(dirs::state_dir(env)?.join("pins"))
}

/// The logins of this user: files in `logins` of the data directory, and the system's keyring, unless the settings turn
/// it off. `may_prompt` says whether the user may be asked to unlock it. `None` if the home directory is not known.
pub(super) fn token_store(cli: &Cli, env: &Env, settings: &Settings, may_prompt: bool) -> Option<TokenStore> {
    let keyring = match settings.keyring {
        true => Keyring::of_system(env, may_prompt),
        false => Keyring::disabled(),
    };
    let store = TokenStore::new(env.data_dir()?.join("logins"), keyring);
    Some(store.with_command_options(&config_options(cli, env)))
}

/// The secrets of this user, in the system's keyring, whatever the settings say about logins. `None` if the home
/// directory is not known.
pub(super) fn secret_store(env: &Env) -> Option<SecretStore> {
    Some(SecretStore::new(Keyring::of_system(env, true), secrets::marker_dir(env)?))
}

/// The same for servers that start. The user may be asked to unlock the keyring.
pub(super) fn secret_keyring(env: &Env) -> Option<Arc<dyn SecretKeyring>> {
    Some(Arc::new(secret_store(env)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_path_may_start_with_a_tilde_and_end_with_a_question_mark() {
        let env = Env::new([("HOME", "/h")], "/w");
        for (path, expected) in [
            ("~/a.json", ("/h/a.json", false)),
            ("~/a.json?", ("/h/a.json", true)),
            ("a.json", ("a.json", false)),
            ("/x/~/a.json", ("/x/~/a.json", false)),
            ("~a.json", ("~a.json", false)),
            ("?", ("?", false)),
        ] {
            let (file, is_optional) = config_file(Path::new(path), &env);
            assert_eq!((&*file, is_optional), (Path::new(expected.0), expected.1), "{path}");
        }
        assert_eq!(config_file(Path::new("~/a"), &Env::default()).0, Path::new("~/a"));
    }
}
