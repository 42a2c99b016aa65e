//! From config files to the [`Config`] the program uses.
//!
//! Nothing here fails as a whole: what is wrong with a file, a setting or a server becomes a [`Problem`] with its
//! place, and everything else still counts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::resolve::Defaults;
use self::source::{Entry, Part};
use super::vars::Env;
use super::{Config, ConfigError, DiscoveryMode, GroupName, Mode, Settings, SurfaceKind, file};

mod env_file;
mod resolve;
mod source;
mod text;

/// What the command line says, over what the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Every server's mode.
    pub mode: Option<Mode>,
    /// For servers that have no `idle_timeout` of their own; `Some(None)`: never.
    pub idle_timeout: Option<Option<Duration>>,
    pub surface: Option<SurfaceKind>,
}

/// Reads the files in order; a later one overrides an earlier one, servers by name, settings by key.
/// Reads nothing but these files and those they name.
pub fn load(files: &[PathBuf], env: &Env, overrides: &Overrides) -> Config {
    let mut config = Config::default();
    let mut entries: Vec<Entry> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut settings = file::Settings::default();
    let mut lost_rules = None;
    for path in files {
        let part = source::read(path, env);
        let Part { errors, warnings, .. } = part;
        config.errors.extend(errors);
        config.warnings.extend(warnings);
        settings = merged(settings, part.settings);
        lost_rules = part.lost_rules.or(lost_rules);
        for entry in part.entries {
            match known.get(&entry.name).and_then(|n| entries.get_mut(*n)) {
                Some(earlier) => *earlier = entry,
                None => {
                    known.insert(entry.name.clone(), entries.len());
                    entries.push(entry);
                }
            }
        }
    }
    config.settings = instance(&settings, overrides);
    let defaults = Defaults { settings, overrides, env, lost_rules };
    config.servers = entries.into_iter().filter_map(|entry| server(entry, &defaults)).collect();
    config
}

/// `None`: the server is disabled.
fn server(
    entry: Entry,
    defaults: &Defaults<'_>,
) -> Option<(GroupName, Result<super::ServerConfig, ConfigError>)> {
    let name = GroupName::new(&entry.name);
    let server = entry.server.transpose()?.and_then(|server| resolve::server(server, &entry.place, defaults));
    Some((name, server))
}

/// `later` over `earlier`, key by key.
fn merged(earlier: file::Settings, later: file::Settings) -> file::Settings {
    file::Settings {
        lazy_startup: later.lazy_startup.or(earlier.lazy_startup),
        idle_timeout: later.idle_timeout.or(earlier.idle_timeout),
        stateful: later.stateful.or(earlier.stateful),
        timeout: later.timeout.or(earlier.timeout),
        features: later.features.or(earlier.features),
        tools: later.tools.or(earlier.tools),
        expose: later.expose.or(earlier.expose),
        inherit_env: later.inherit_env.or(earlier.inherit_env),
        surface: later.surface.or(earlier.surface),
        tools_budget: later.tools_budget.or(earlier.tools_budget),
        names_budget: later.names_budget.or(earlier.names_budget),
        max_message_bytes: later.max_message_bytes.or(earlier.max_message_bytes),
        discovery: later.discovery.or(earlier.discovery),
        keyring: later.keyring.or(earlier.keyring),
    }
}

/// The instance's own settings.
fn instance(settings: &file::Settings, overrides: &Overrides) -> Settings {
    let default = Settings::default();
    let surface = settings.surface.map(|surface| match surface {
        file::Surface::Meta => SurfaceKind::Meta,
        file::Surface::Flat => SurfaceKind::Flat,
    });
    let discovery = settings.discovery.map(|discovery| match discovery {
        file::Discovery::Cached => DiscoveryMode::Cached,
        file::Discovery::Always => DiscoveryMode::Always,
    });
    Settings {
        surface: overrides.surface.or(surface).unwrap_or(default.surface),
        tools_budget: settings.tools_budget.unwrap_or(default.tools_budget),
        names_budget: settings.names_budget.unwrap_or(default.names_budget),
        max_message_bytes: settings.max_message_bytes.map_or(default.max_message_bytes, usize::from),
        discovery: discovery.unwrap_or(default.discovery),
        keyring: settings.keyring.unwrap_or(default.keyring),
    }
}

/// The directory that relative paths in a config file are relative to.
fn dir_of(path: &Path, env: &Env) -> PathBuf {
    let path = env.cwd().join(path);
    path.parent().map_or_else(|| path.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests;
