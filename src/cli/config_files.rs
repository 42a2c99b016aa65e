//! The config files that the command line names, and the servers in them.

use base::text::{self, joined, quoted};
use config::dirs::expand_home;
use config::env::Env;
use config::{Config, GroupName, Overrides, ServerConfig, load};
use instance::InstanceOptions;
use std::path::{Path, PathBuf};
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_USAGE};

/// Reads the config files of the command line, for a command that uses the servers of the profile.
///
/// # Errors
///
/// Fails if nothing is wrong but that there is no such profile, which is a usage error.
pub(super) fn load_config(
    overrides: Overrides,
    options: &InstanceOptions,
    env: &Env,
) -> Result<Config, CommandError> {
    let config =
        load_all_servers(Overrides { profile: options.overrides.profile.clone(), ..overrides }, options, env);
    match config.wrong_profile() {
        Some(error) => Err(CommandError::new(EXIT_USAGE, error.to_string())),
        None => Ok(config),
    }
}

/// Reads the config files of the command line, for a command that is about all servers.
pub(super) fn load_all_servers(overrides: Overrides, options: &InstanceOptions, env: &Env) -> Config {
    let overrides = Overrides { optional_files: options.overrides.optional_files.clone(), ..overrides };
    load::load(&options.files, env, &overrides)
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

/// Refuses names that the config does not have, or that the profile leaves out. Refuses none if the config has errors.
///
/// # Errors
///
/// Says which name is the first of these, and why.
pub(super) fn refuse_unknown(names: &[String], config: &Config) -> Result<(), CommandError> {
    let is_known = |wanted: &str| config.servers.iter().any(|(known, _)| known.as_str() == wanted);
    let unknown = names.iter().find(|wanted| !is_known(wanted));
    let Some(unknown) = unknown.filter(|_| config.errors.is_empty()) else { return Ok(()) };
    if let Some(disabled) = config.disabled(unknown) {
        return Err(CommandError::new(EXIT_USAGE, format!("{} is {disabled}", disabled.name)));
    }
    let known = joined(config.servers.iter().map(|(name, _)| name.as_str()));
    let is_left_out = config.is_left_out(&GroupName::new(unknown));
    let message = match config.profile_summary().filter(|_| is_left_out) {
        Some(profile) => format!("{profile}, among them {}", quoted(unknown)),
        None => format!("the config has no enabled server {}; it has {known}", quoted(unknown)),
    };
    Err(CommandError::new(EXIT_USAGE, message))
}

/// Returns the error of a name that no server has. `known`: the names of the servers.
pub(super) fn no_such_server<'n>(known: impl Iterator<Item = &'n str>) -> CommandError {
    let known = match joined(known.map(text::name)) {
        known if known.is_empty() => "there are no servers in the config".to_owned(),
        known => format!("the config has {known}"),
    };
    CommandError::new(EXIT_USAGE, format!("there is no such server; {known}"))
}

/// Returns the path that `--config` means, and whether its file may be absent: a `?` at its end says so.
pub(super) fn config_file(path: &Path, env: &Env) -> (PathBuf, bool) {
    let optional = path.to_str().and_then(|path| path.strip_suffix('?')).filter(|path| !path.is_empty());
    (expand_home(optional.map_or(path, Path::new), env), optional.is_some())
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
