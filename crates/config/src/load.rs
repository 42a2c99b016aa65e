//! From config files to the [`Config`] the program uses.
//!
//! # Theory of operation
//!
//! Loading has three steps. `parse` reads one file (`source_text`) into entries that remember their position. [`load`]
//! puts the files together: a later file overrides an earlier one, servers and profiles by name and settings by key.
//! `profiles` removes the servers that the profile in use leaves out, and adds its rules for tools to the others.
//! `resolve` makes a [`ServerConfig`] of each entry:
//! it checks rules that concern several fields, reads the `env_file`, and applies the command line, the settings and
//! the built-in defaults.
//!
//! Loading never fails as a whole. A mistake in a file, a setting or a server becomes a [`ConfigError`] with its
//! position, and everything else still counts. Only the config files and the files they name are read.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::client_files::{is_toml, may_have_profiles, parse_client_file};
use self::entry::NamedEntry;
pub use self::findings::name_error;
pub use self::json_text::PARSE_OPTIONS;
use self::profiles::Profiles;
use self::resolve::ServerDefaults;
pub use self::resolve::{URL_ERROR, is_http_url};
use super::env::Env;
use super::file::SettingsEntry;
use super::file::keys::InstanceEntry;
use super::object::ObjectPart;
use super::referenced::ReferencedFiles;
use super::{Config, ConfigError, Endpoint, GroupName, Overrides, ServerConfig};

mod client_files;
mod codex;
mod entry;
mod env_file;
mod findings;
mod json_text;
mod parse;
mod profiles;
mod resolve;
mod resolve_tool_rules;
mod secret_refs;
mod source_text;

/// Loads the files in order. A later file overrides an earlier one: servers and profiles by name, settings by key. A
/// server keeps the position of its first entry. Blocks.
///
/// What is wrong is a part of the result. So is a file that does not exist, unless it is one of `optional_files`.
pub fn load(files: &[PathBuf], env: &Env, overrides: &Overrides) -> Config {
    let mut config = Config::default();
    let mut servers: Vec<NamedEntry> = Vec::new();
    let mut settings = SettingsEntry::default();
    let (mut tools_error, mut profiles) = (None, Profiles::default());
    let referenced = ReferencedFiles::default();
    for path in files {
        if overrides.optional_files.contains(path) && is_absent(&env.cwd().join(path)) {
            continue;
        }
        let file = parse::parse_file(path, env, &referenced);
        config.is_incomplete |= file.is_unread;
        config.errors.extend(file.errors);
        config.warnings.extend(file.warnings);
        settings = file.settings.or(settings);
        tools_error = file.tools_error.or(tools_error);
        profiles.add(file.profiles);
        if servers.is_empty() {
            servers = file.servers;
            continue;
        }
        let earlier = servers.iter().enumerate().map(|(n, server)| (server.name.clone(), n));
        let earlier: HashMap<String, usize> = earlier.collect();
        for entry in file.servers {
            match earlier.get(&entry.name) {
                Some(n) => servers[*n] = entry,
                None => servers.push(entry),
            }
        }
    }
    use_profile(&mut config, &mut servers, &profiles, files, overrides);
    let disabled = servers.iter().filter(|server| server.is_disabled());
    config.disabled = disabled.map(NamedEntry::disabled).collect();
    config.settings = InstanceEntry { surface: overrides.surface, ..InstanceEntry::default() }
        .or(std::mem::take(&mut settings.instance))
        .into();
    let defaults = ServerDefaults { settings, overrides, env, files: &referenced, tools_error };
    config.servers = servers.into_iter().filter_map(|server| resolve_entry(server, &defaults)).collect();
    if overrides.all_users_only {
        keep_for_all_users(&mut config);
    }
    config.referenced = referenced.into_stamps();
    config
}

/// Leaves out the local servers that not all users may use, and has no server's results stored: whoever asks next may be
/// another user. What is doubtful about a server is for the owner of the config, so it is a warning of the config.
fn keep_for_all_users(config: &mut Config) {
    let is_private = |server: &Result<Arc<ServerConfig>, ConfigError>| {
        server
            .as_ref()
            .is_ok_and(|server| matches!(server.endpoint, Endpoint::Stdio(_)) && !server.common.all_users)
    };
    let left_out = config.servers.extract_if(.., |(_, server)| is_private(server));
    config.not_for_all_users = left_out.map(|(name, _)| name).collect();
    for (name, server) in &mut config.servers {
        if let Ok(server) = server {
            let server = Arc::make_mut(server);
            server.common.store_above = None;
            let warnings = std::mem::take(&mut server.warnings);
            config.warnings.extend(warnings.iter().map(|warning| warning.of_server(name.as_str())));
        }
    }
}

/// Applies the profile in use to the servers, and reports what is wrong with the profiles.
fn use_profile(
    config: &mut Config,
    servers: &mut Vec<NamedEntry>,
    profiles: &Profiles,
    files: &[PathBuf],
    overrides: &Overrides,
) {
    // A file that cannot be read may have the servers that a profile is about.
    if config.errors.is_empty() {
        config.warnings.extend(profiles.warnings(servers, overrides.profile.as_deref()));
    }
    config.profiles = profiles.names();
    let Some(wanted) = &overrides.profile else { return };
    let profile = profiles.apply(wanted, servers);
    // The profile may be in a file that cannot be read.
    if !profile.is_known && !config.is_incomplete {
        let file = files.first().map(PathBuf::as_path).unwrap_or_else(|| Path::new("config"));
        config.errors.push(profiles.unknown(wanted, file));
    }
    config.profile = Some(profile);
}

/// Returns whether there is no file of this name. One that cannot be reached is not absent.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the server's configuration, or everything that is wrong with it. `None` if the entry is disabled.
fn resolve_entry(
    server: NamedEntry,
    defaults: &ServerDefaults<'_>,
) -> Option<(GroupName, Result<Arc<ServerConfig>, ConfigError>)> {
    let mut errors = server.errors;
    let resolved = match server.entry {
        None if errors.is_empty() => return None,
        None => None,
        Some(entry) => {
            let profile_tools = server.profile_tools.as_ref();
            resolve::resolve_server(entry, &server.source, profile_tools, defaults, &mut errors)
        }
    };
    let resolved = match (resolved, ConfigError::joined(errors)) {
        // What is doubtful may be the reason for what is wrong, such as `cmd` where `command` is missing.
        (_, Some(error)) => Err(ConfigError::joined(iter::once(error).chain(server.warnings))?),
        (Some(config), None) => Ok(Arc::new(ServerConfig { warnings: server.warnings, ..config })),
        (None, None) => return None,
    };
    Some((GroupName::new(&server.name), resolved))
}

#[cfg(test)]
mod tests;
