//! The bundles that are unpacked: which server each is, and when one is removed.

use crate::cli::servers_file::read_files;
use base::private_files::read_private;
use base::text;
use bundle::values::SettingValue;
use config::dirs::own_config_file;
use config::env::Env;
use instance::InstanceOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use terminal::outcome::CommandError;

/// The file with what is known of an unpacked bundle.
pub(super) const RECORD: &str = "bundle.json";
/// Its largest size, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// What is known of an unpacked bundle.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct BundleRecord {
    /// The config file that has the server.
    pub(super) config: PathBuf,
    /// The name of the server.
    pub(super) server: String,
    /// The author and the name of the bundle: an update has the same ones.
    pub(super) id: String,
    /// The values of its settings.
    pub(super) settings: BTreeMap<String, SettingValue>,
}

/// Returns the directory of all unpacked bundles. `None` if the home directory is not known.
pub(super) fn root(env: &Env) -> Option<PathBuf> {
    Some(env.data_dir()?.join("bundles"))
}

/// Returns the directory of the bundle of a server, with its record. `None`: the server is not from a bundle.
pub(super) fn bundle_of(server: &str, config: &Path, env: &Env) -> Option<(PathBuf, BundleRecord)> {
    let dirs = fs::read_dir(root(env)?).ok()?.flatten().map(|dir| dir.path());
    let read = |dir: PathBuf| {
        let text = read_private(&dir.join(RECORD), MAX_RECORD_BYTES).ok()?;
        Some((dir, serde_json::from_slice::<BundleRecord>(&text).ok()?))
    };
    dirs.filter_map(read).find(|(_, record)| record.server == server && record.config == config)
}

/// Removes the bundle of a server that was removed, if there is one, and says which of its secrets stay.
///
/// # Errors
///
/// A config file cannot be read.
pub(in crate::cli) fn remove_bundle(
    server: &str,
    config: &Path,
    options: &InstanceOptions,
    env: &Env,
) -> Result<(), CommandError> {
    let Some((dir, record)) = bundle_of(server, config, env) else { return Ok(()) };
    for value in record.settings.into_values() {
        if let SettingValue::Keyring(name) = value {
            terminal::message(format_args!(
                "its secret stays in the system's keyring; `dynamic-mcp secret remove {name}` removes it"
            ));
        }
    }
    remove_unused(&dir, options, env)
}

/// Removes the directory of a bundle, unless a config file has its name, which is random: those of the command line, and the
/// user's own.
///
/// # Errors
///
/// A config file cannot be read.
pub(super) fn remove_unused(dir: &Path, options: &InstanceOptions, env: &Env) -> Result<(), CommandError> {
    let own = own_config_file(env);
    let files = options.files.iter().cloned().chain(own).collect();
    let files = read_files(&InstanceOptions { files, ..options.clone() }, env)?;
    let id = dir.file_name().and_then(|id| id.to_str());
    let is_used = id.is_none_or(|id| files.iter().any(|file| file.contains(id)));
    if !is_used && let Err(error) = fs::remove_dir_all(dir) {
        terminal::message(format_args!("{} cannot be removed: {error}; remove it by hand", text::path(dir)));
    }
    Ok(())
}
